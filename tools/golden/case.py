# SPDX-License-Identifier: Apache-2.0
"""What one golden case is, how its weights are drawn, and how its config was spelled in older releases."""

import copy
import dataclasses
import math
import re

import torch


@dataclasses.dataclass
class Case:
    name: str  # the folder under tests/golden/data
    family: str  # the spec that must read it
    config_class: str  # a class of `transformers`
    config: dict
    about: str
    class_name: str = "AutoModelForCausalLM"
    capture: bool = False  # store the residual stream too
    length_dependent: bool = False  # the rotary table depends on the length, so only the whole prompt is defined
    prompt_length: int = 36
    storage: str = "float32"  # how the file stores what is not quantised
    quantise: str = ""  # "", "fp8_block", "mxfp4" or a kind of vendor_formats.py
    scale: float = 1.0  # multiplies the spread of every matrix
    routing: float = 1e-3  # smallest margin of a routing decision; larger where bfloat16 would turn one
    patch_config: dict = dataclasses.field(default_factory=dict)  # keys of real releases that `transformers` drops
    prediction_layer: str = ""  # add the tensors of a head that predicts further tokens, by a word of prediction_layers.py
    drop_config: tuple = ()  # keys that the patched config leaves out
    rename: tuple = ()  # (pattern, text or function): names in the files that differ from what the library writes
    zero_centred: str = ""  # a pattern: norm weights that the files store as weight - 1


def spread(name, shape, transposed):
    """Standard deviation of a matrix whose inputs have unit size."""
    fan_in = shape[-2] if transposed else shape[-1]
    return 1.3 / math.sqrt(fan_in)


def draw(name, shape, generator, *, zero_centred, transposed, scale):
    """One random tensor. No norm weight is 1 (or 0, where the file stores w of 1 + w), no bias or sink is 0."""
    normal = torch.randn(shape, generator=generator)
    uniform = torch.rand(shape, generator=generator)
    if name.endswith("A_log"):
        return torch.log(0.05 + 1.5 * uniform)  # decays from slow to fast
    if "norm" in name and name.endswith("weight"):
        away = torch.where(uniform < 0.5, -0.1 - uniform, uniform - 0.4)  # in (-0.6, -0.1) or (0.1, 0.6)
        return away if zero_centred else 1.0 + away
    if name.endswith("sinks"):
        return 0.5 + normal
    if name.endswith("e_score_correction_bias"):
        return torch.where(uniform < 0.5, -0.05 - 0.4 * uniform, 0.4 * uniform - 0.15)
    if name.endswith("bias"):
        return torch.where(normal < 0, normal * 0.3 - 0.05, normal * 0.3 + 0.05)
    if "embed_tokens" in name:
        return normal * (0.25 if zero_centred else 1.0)
    if name.endswith(("scalar", "scale")):
        return 1.0 + 0.3 * uniform
    if len(shape) < 2:
        return normal
    return normal * spread(name, shape, transposed) * scale


DERIVED = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")  # minimax: buffers made from the config


def is_zero_centred(case, name):
    return case.family in ("gemma2", "gemma3") or bool(case.zero_centred and re.search(case.zero_centred, name))


def random_state(model, case, seed):
    """Tensors for every parameter and stored buffer of `model`, in float32, by module name."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    first = {}  # by where a tensor lies: the first name of those that share one
    for name, tensor in model.state_dict().items():
        if name.endswith("tid2eid"):  # distinct experts per token id
            scores = torch.rand((tensor.shape[0], model.config.n_routed_experts), generator=generator)
            state[name] = scores.topk(tensor.shape[1], dim=-1)[1]
            continue
        if not tensor.is_floating_point() or name.endswith(DERIVED):
            state[name] = tensor.clone()
            continue
        transposed = case.family in ("gpt_oss", "llama4") and ".experts." in name
        state[name] = draw(name, tuple(tensor.shape), generator, transposed=transposed, scale=case.scale,
                           zero_centred=is_zero_centred(case, name))
        if case.family == "gemma4" and "embed_tokens" in name:
            state[name] *= 0.25  # multiplied by the root of its width later
        if case.storage == "bfloat16":
            state[name] = state[name].bfloat16().float()
        state[name] = state[first.setdefault(tensor.data_ptr(), name)]
    return state


def old_spelling(config):
    """The config as releases before `rope_parameters` wrote it: rope_theta beside rope_scaling, torch_dtype."""
    old = copy.deepcopy(config)
    if "dtype" in old:
        old["torch_dtype"] = old.pop("dtype")
    for part in [old] + [old[k] for k in ("text_config",) if k in old]:
        if "dtype" in part:
            part["torch_dtype"] = part.pop("dtype")
        own_words(part)
        if part.get("model_type", "").startswith("qwen3_5"):
            continue  # never had another spelling of the rope
        rope = part.pop("rope_parameters", None) if part.get("model_type") != "gemma4_text" else None
        if rope is None:
            continue
        if "full_attention" in rope:
            rope = one_rope(part, rope)
        else:
            part["rope_theta"] = rope.pop("rope_theta")
        share = rope.pop("partial_rotary_factor", None)
        if share is not None and part.get("model_type") == "minimax_m2":
            part["rotary_dim"] = int(share * part["head_dim"])
        elif share is not None:
            part["partial_rotary_factor"] = share
        if part.get("model_type") in ("qwen2", "qwen3", "gemma2", "olmo3"):
            part.pop("layer_types", None)
        if part.get("model_type") == "qwen3_moe" and "num_local_experts" in part:
            part["num_experts"] = part.pop("num_local_experts")
        if part.get("model_type") in ("deepseek_v32", "glm_moe_dsa"):
            old_indexer(part)
        kind = rope.pop("rope_type", "default")
        if kind != "default":
            part["rope_scaling"] = {spelled(part, kind): kind, **rope}
        elif part["model_type"] != "mimo_v2_flash":
            part["rope_scaling"] = None
    return old


def released_kimi_linear(part):
    """Layer kinds and sizes of the recurrent layers as the release states them: one object, layers from 1."""
    types, mlps = part.pop("layer_types"), part.pop("mlp_layer_types")
    part["first_k_dense_replace"] = mlps.count("dense")
    part["linear_attn_config"] = {
        "full_attn_layers": [i + 1 for i, kind in enumerate(types) if kind == "full_attention"],
        "kda_layers": [i + 1 for i, kind in enumerate(types) if kind == "linear_attention"],
        "head_dim": part.pop("linear_head_dim"), "num_heads": part.pop("linear_num_heads"),
        "short_conv_kernel_size": part.pop("linear_conv_kernel_dim")}


def released_minimax_m3(part):
    """The indexer in an object of its own, lists of 0 and 1 for the kinds of layers, another word for the gate."""
    if "sparse_attention_config" in part:
        return
    sparse = [int(kind != "full_attention") for kind in part.pop("layer_types")]
    part["moe_layer_freq"] = [int(kind == "sparse") for kind in part.pop("mlp_layer_types")]
    own = {"sparse_num_index_heads": "index_n_heads", "sparse_index_dim": "index_head_dim", "sparse_block_size": "index_block_size",
           "sparse_topk_blocks": "index_topk_blocks", "sparse_local_block": "index_local_blocks"}
    part["sparse_attention_config"] = {
        "use_sparse_attention": True, "sparse_score_type": "max", "sparse_init_block": 0, "sparse_attention_freq": sparse,
        "sparse_disable_index_value": sparse, **{old: part.pop(new) for old, new in own.items()}}
    part["hidden_act"] = "swigluoai"


def released_deepseek_v4(part):
    """One rope beside the base of the other, the number of first layers that are routed by token id."""
    part["num_hash_layers"] = part.pop("mlp_layer_types").count("hash_moe")
    part.pop("partial_rotary_factor")
    ropes = part.pop("rope_parameters")
    scaling = {key: value for key, value in ropes["compress"].items()
               if key not in ("partial_rotary_factor", "rope_theta", "rope_type", "attention_factor")}
    part["rope_scaling"] = {"type": ropes["compress"]["rope_type"], **scaling}


def own_words(part):
    """What the releases of a family state in words of their own."""
    kind = part.get("model_type")
    if kind == "deepseek_v4" and "rope_parameters" in part:
        released_deepseek_v4(part)
    if kind == "minimax_m3_vl_text":
        released_minimax_m3(part)
    if kind == "llama4_text":  # derived from other keys
        for key in ("layer_types", "moe_layers", "no_rope_layers"):
            part.pop(key, None)
    if kind == "gemma4_text" and "per_layer_config" in part:
        full = next(iter(part.pop("per_layer_config").values()))
        part["global_head_dim"] = full["head_dim"]
        part["num_global_key_value_heads"] = full.get("num_key_value_heads")
    if kind == "flint" and part["mlp_only_layers"] == [0, 1]:  # what it takes where they are not stated
        part.pop("layer_types"), part.pop("mlp_only_layers")
    if kind == "gpt_neox_japanese":
        rope = part["rope_parameters"]
        part["rotary_emb_base"], part["rotary_pct"] = rope.pop("rope_theta"), rope.pop("partial_rotary_factor", 1.0)
        part["rope_scaling"] = part.pop("rope_parameters")
    if kind == "kimi_linear":
        released_kimi_linear(part)
    if kind == "mimo_v2_flash":
        types = part.pop("layer_types")
        part["hybrid_layer_pattern"] = [int(t == "sliding_attention") for t in types]
        part["moe_layer_freq"] = [int(t == "sparse") for t in part.pop("mlp_layer_types")]
        part["sliding_window"] = part["sliding_window_size"] = part["sliding_window"] - 1
        part["swa_num_key_value_heads"] = 2 * part["num_key_value_heads"]
        for key in ("num_attention_heads", "head_dim", "v_head_dim"):
            part["swa_" + key] = part[key]
        part["add_swa_attention_sink_bias"], part["add_full_attention_sink_bias"] = True, False


def old_indexer(part):
    """Before every layer was listed: how many are dense, and a letter per layer for who has an indexer."""
    part.pop("layer_types", None)
    part.pop("mlp_layer_types", None)
    types = part.pop("indexer_types", None)
    if types:
        part["index_topk_pattern"] = "".join({"full": "F", "shared": "S"}[kind] for kind in types)


def one_rope(part, rope):
    """Tables by layer type: only that of the full layers is ever scaled."""
    part["rope_theta"] = rope["full_attention"].pop("rope_theta")
    if part["model_type"] == "mimo_v2_flash":
        part["swa_rope_theta"] = rope["sliding_attention"]["rope_theta"]
    if part["model_type"].startswith("gemma3"):
        part["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        types = part.pop("layer_types", None)
        part.pop("_sliding_window_pattern", None)
        if types and "full_attention" in types:
            part["sliding_window_pattern"] = types.index("full_attention") + 1
    return rope["full_attention"]


def spelled(part, kind):
    """The word before rope_type was type: llama3 and gemma3 never had it (`transformers` ignores a gemma3 `type`),
    the deepseek releases still do."""
    if part.get("model_type", "").startswith("gemma3"):
        return "rope_type"
    deepseek = part.get("model_type") in ("deepseek_v3", "deepseek_v32", "kimi_k2")
    return "type" if deepseek or part.get("model_type") == "phi3" or kind in ("linear", "dynamic") else "rope_type"
