# SPDX-License-Identifier: Apache-2.0
"""Golden checkpoints as GGUF files: tests/golden/gguf/<case>.gguf, which must give the logits of tests/golden/data/<case>.

    python tools/golden/gguf_files.py               all cases
    python tools/golden/gguf_files.py mamba lfm2    cases whose name contains one of the words
    python tools/golden/gguf_files.py --judge …     and what llama.cpp (llama-cpp-python) makes of each, where it is installed

Names of tensors and keys are those of the `gguf` package; what is done to a tensor besides (logarithms taken out, norms
stored as 1 + w, heads in another order, matrices cut or joined) is what llama.cpp's converter does for the family. What it
makes of the files agrees within 1e-5 wherever it takes their sizes and biases; its delta rules normalise q and k by the
epsilon of the other norms, which is 1e-6 in releases and 1e-3 here, and differ by 5e-3 for that.
"""
import json
import math
import pathlib
import re
import sys

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
ARCH = gguf.MODEL_ARCH


class File:
    """What goes into one file: keys under the architecture's name, and tensors by their names in the checkpoint."""

    def __init__(self, c, tensors, arch):
        self.c, self.arch, self.keys, self.out = c, arch, {}, {}
        self.tensors = tensors
        self.layers = c.get("num_hidden_layers") or len(c["layers_block_type"])
        self.map = gguf.get_tensor_name_map(arch, self.layers)

    def set(self, **keys):
        for key, value in keys.items():
            if value is not None:
                self.keys[key.replace("__", ".")] = value

    def put(self, name, tensor):
        """Under the package's name for it; `blk.…` names stand as they are."""
        if not name.startswith(("blk.", "rope_")):
            found = self.map.get_name(name, try_suffixes=(".weight", ".bias"))
            if found is None:
                raise ValueError(f"the gguf package has no name for {name}")
            name = found
        self.out[name] = tensor


def common(f):
    c = f.c
    rope = c.get("rope_parameters") or {}
    full = rope.get("full_attention", rope)
    f.set(block_count=f.layers, context_length=c.get("max_position_embeddings", 1 << 20), embedding_length=c["hidden_size"],
          feed_forward_length=c.get("intermediate_size"), vocab_size=c["vocab_size"],
          attention__head_count=c.get("num_attention_heads"), attention__head_count_kv=c.get("num_key_value_heads"),
          attention__layer_norm_rms_epsilon=float(c.get("rms_norm_eps") or c.get("norm_eps") or c["layer_norm_epsilon"]),
          rope__freq_base=full.get("rope_theta"), expert_count=c.get("num_local_experts", c.get("num_experts")),
          expert_used_count=c.get("num_experts_per_tok", c.get("num_experts_per_token")),
          expert_group_count=c.get("n_group"), expert_group_used_count=c.get("topk_group"))
    if full.get("rope_type") == "yarn":
        f.set(rope__scaling__type="yarn", rope__scaling__factor=full["factor"],
              rope__scaling__original_context_length=full["original_max_position_embeddings"],
              rope__scaling__yarn_attn_factor=full.get("attention_factor"), rope__scaling__yarn_beta_fast=full.get("beta_fast"),
              rope__scaling__yarn_beta_slow=full.get("beta_slow"))
    if "sliding_attention" in rope:
        f.set(rope__freq_base_swa=rope["sliding_attention"]["rope_theta"])
    if c.get("head_dim"):
        f.set(attention__key_length=c["head_dim"], attention__value_length=c["head_dim"])
    if "partial_rotary_factor" in full:
        f.set(rope__dimension_count=int(full["partial_rotary_factor"] * head_dim(c)))


def head_dim(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def kinds(f, kind, value):
    return [value if k == kind else 0 for k in f.c["layer_types"]]


def stacked(f, name, tensor, places):
    """One tensor of all experts under the name that stands for them."""
    m = re.match(r"(.*layers\.(\d+)\.).*experts\.(\d+)\.(\w+)\.weight$", name)
    if not m or int(m[3]) > 0:
        return bool(m)
    count = sum(1 for other in f.tensors if re.fullmatch(re.escape(name).replace(r"experts\.0", r"experts\.\d+"), other))
    every = torch.stack([f.tensors[name.replace("experts.0.", f"experts.{e}.")] for e in range(count)])
    f.put(f"blk.{m[2]}.ffn_{places[m[4]]}_exps.weight", every)
    return True


GLU = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down"}


def plain(f, name, tensor):
    name = re.sub(r"e_score_correction_bias$", "e_score_correction.bias", name)
    if not stacked(f, name, tensor, GLU):
        f.put(name, tensor)


def rates(tensor):
    return -torch.exp(tensor.float())


def mamba2(f, name, tensor, groups):
    """The tensors of a Mamba-2 layer."""
    if name.endswith("conv1d.weight"):
        tensor = tensor.squeeze(1)
    if name.endswith("A_log"):
        tensor = rates(tensor)
    if name.endswith(("A_log", "mixer.D")):
        tensor = tensor.reshape(-1, 1)
    if name.endswith("mixer.norm.weight"):
        tensor = tensor.reshape(groups, -1)
    plain(f, re.sub(r"dt_bias$", "dt_proj.bias", name), tensor)


def mamba2_keys(f):
    c = f.c
    inner = c["num_heads"] * c["head_dim"]
    for key in ("attention.key_length", "attention.value_length"):
        del f.keys[key]
    f.set(feed_forward_length=0, attention__head_count=0, ssm__conv_kernel=c["conv_kernel"], ssm__inner_size=inner,
          ssm__state_size=c["state_size"], ssm__time_step_rank=c["num_heads"], ssm__group_count=c["n_groups"])


def jamba_keys(f):
    c = f.c
    period, offset = c["attn_layer_period"], c["attn_layer_offset"]
    f.set(attention__head_count_kv=[c["num_key_value_heads"] if i % period == offset else 0 for i in range(f.layers)],
          ssm__conv_kernel=c["mamba_d_conv"], ssm__inner_size=c["mamba_expand"] * c["hidden_size"],
          ssm__state_size=c["mamba_d_state"], ssm__time_step_rank=c["mamba_dt_rank"])


def jamba(f, name, tensor):
    if name.endswith("conv1d.weight"):
        tensor = tensor.squeeze(1)
    plain(f, name, rates(tensor) if name.endswith("A_log") else tensor)


def lfm2_keys(f):
    width = next(t.shape[0] for n, t in f.tensors.items() if n.endswith("feed_forward.w1.weight"))
    f.set(attention__head_count_kv=kinds(f, "full_attention", f.c["num_key_value_heads"]), shortconv__l_cache=f.c["conv_L_cache"],
          feed_forward_length=width)


def lfm2(f, name, tensor):
    plain(f, name, tensor.squeeze(1) if name.endswith("conv.conv.weight") else tensor)


def split_kv_b(f, name, tensor, heads, nope, value):
    both = tensor.reshape(heads, nope + value, -1)
    f.put(name.replace("kv_b_proj", "k_b_proj"), both[:, :nope].transpose(1, 2))
    f.put(name.replace("kv_b_proj", "v_b_proj"), both[:, nope:])


def kimi_keys(f):
    c = f.c
    del f.keys["expert_group_used_count"]
    f.set(attention__head_count_kv=kinds(f, "full_attention", 1), ssm__conv_kernel=c["linear_conv_kernel_dim"],
          kda__head_dim=c["linear_head_dim"], attention__kv_lora_rank=c["kv_lora_rank"], attention__q_lora_rank=c["q_lora_rank"],
          rope__dimension_count=c["qk_rope_head_dim"], attention__key_length=c["kv_lora_rank"] + c["qk_rope_head_dim"],
          attention__value_length=None, attention__key_length_mla=c["qk_nope_head_dim"] + c["qk_rope_head_dim"],
          attention__value_length_mla=c["v_head_dim"], expert_feed_forward_length=c["moe_intermediate_size"],
          expert_shared_count=c["num_shared_experts"], leading_dense_block_count=c["mlp_layer_types"].count("dense"),
          expert_weights_scale=c["routed_scaling_factor"], expert_gating_func=2)
    f.keys.pop("attention.value_length", None)


def kimi(f, name, tensor):
    c = f.c
    if name.endswith("kv_b_proj.weight"):
        return split_kv_b(f, name, tensor, c["num_attention_heads"], c["qk_nope_head_dim"], c["v_head_dim"])
    if "_conv1d" in name:
        tensor = tensor.reshape(1, tensor.shape[0], 1, -1)
    if name.endswith("A_log"):
        tensor = rates(tensor)
    plain(f, re.sub(r"dt_bias$", "dt_proj.bias", name), tensor)


def qwen_next_keys(f):
    c = f.c
    f.set(ssm__conv_kernel=c["linear_conv_kernel_dim"], ssm__state_size=c["linear_key_head_dim"],
          ssm__group_count=c["linear_num_key_heads"], ssm__time_step_rank=c["linear_num_value_heads"],
          ssm__inner_size=c["linear_value_head_dim"] * c["linear_num_value_heads"],
          full_attention_interval=c["layer_types"].index("full_attention") + 1,
          expert_feed_forward_length=c.get("moe_intermediate_size"),
          expert_shared_feed_forward_length=c.get("shared_expert_intermediate_size"))


def qwen_next(f, name, tensor):
    c = f.c
    if name.endswith("A_log"):
        tensor = rates(tensor)
    elif name.endswith("conv1d.weight"):
        tensor = tensor.squeeze(1)
    elif name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
        tensor = tensor.float() + 1
    if name.endswith("in_proj_qkvz.weight"):
        layer = name.split(".")[2]
        keys, each = c["linear_key_head_dim"], c["linear_num_value_heads"] // c["linear_num_key_heads"] * c["linear_value_head_dim"]
        rows = tensor.reshape(c["linear_num_key_heads"], 2 * (keys + each), -1).split([keys, keys, each, each], 1)
        q, k, v, z = (r.reshape(-1, tensor.shape[1]) for r in rows)
        f.put(f"blk.{layer}.attn_qkv.weight", torch.cat([q, k, v]))
        f.put(f"blk.{layer}.attn_gate.weight", z)
        return
    plain(f, re.sub(r"dt_bias$", "dt_proj.bias", name), tensor)


def qwen3_5_keys(f):
    qwen_next_keys(f)
    sections = f.c["rope_parameters"]["mrope_section"]
    f.set(rope__dimension_sections=(sections + [0] * 4)[:4])


def qwen3_5(f, name, tensor):
    """As Qwen3-Next, the value heads in turn: the first of each key head, then the second of each."""
    c = f.c
    groups, width = c["linear_num_key_heads"], c["linear_value_head_dim"]
    each, keys = c["linear_num_value_heads"] // groups, 2 * groups * c["linear_key_head_dim"]

    def turned(t, width):
        return t.reshape(groups, each, width, *t.shape[1:]).transpose(0, 1).reshape(t.shape)

    if name.endswith(("in_proj_qkv.weight", "linear_attn.conv1d.weight")):
        tensor = torch.cat([tensor[:keys], turned(tensor[keys:], width)])
    elif name.endswith("in_proj_z.weight"):
        tensor = turned(tensor, width)
    elif name.endswith(("in_proj_a.weight", "in_proj_b.weight", "A_log", "dt_bias")):
        tensor = turned(tensor, 1)
    elif name.endswith("linear_attn.out_proj.weight"):
        tensor = turned(tensor.T, width).T
    qwen_next(f, name, tensor)


def nemotron_keys(f):
    c, kinds_of = f.c, f.c["layers_block_type"]
    routed = "moe" in kinds_of
    f.set(attention__layer_norm_epsilon=c["layer_norm_epsilon"])
    wide = {"mlp": c["intermediate_size"], "moe": c["moe_intermediate_size"]}
    f.set(attention__head_count_kv=[c["num_key_value_heads"] if k == "full_attention" else 0 for k in kinds_of],
          feed_forward_length=[wide.get(k, 0) for k in kinds_of], ssm__conv_kernel=c["conv_kernel"],
          ssm__inner_size=c["mamba_num_heads"] * c["mamba_head_dim"], ssm__state_size=c["ssm_state_size"],
          ssm__time_step_rank=c["mamba_num_heads"], ssm__group_count=c["n_groups"])
    if routed:
        f.set(expert_count=c["n_routed_experts"], expert_feed_forward_length=c["moe_intermediate_size"],
              expert_shared_feed_forward_length=c["moe_shared_expert_intermediate_size"], expert_shared_count=c["n_shared_experts"],
              expert_weights_norm=c["norm_topk_prob"], expert_weights_scale=c["routed_scaling_factor"],
              moe_latent_size=c["moe_latent_size"])
    else:
        for key in ("expert_used_count", "expert_group_count", "expert_group_used_count"):
            del f.keys[key]


def nemotron(f, name, tensor):
    mamba2(f, name, tensor, f.c["n_groups"])


def minimax_m2_keys(f):
    f.set(expert_feed_forward_length=f.c["intermediate_size"], expert_gating_func=2)


def windowed_keys(f):
    if f.c.get("sliding_window"):
        f.set(attention__sliding_window=f.c["sliding_window"],
              attention__sliding_window_pattern=[k == "sliding_attention" for k in f.c["layer_types"]])


def hunyuan_keys(f):
    c, dim = f.c, head_dim(f.c)
    rope = c["rope_parameters"]
    f.set(rope__freq_base=rope["rope_theta"] * rope["alpha"] ** (dim / (dim - 2)), rope__scaling__type="none",
          rope__scaling__factor=1.0)
    if "moe_topk" in c:
        f.set(expert_shared_feed_forward_length=c["intermediate_size"], expert_feed_forward_length=c["intermediate_size"],
              expert_used_count=c["moe_topk"][0], expert_shared_count=1)


def permuted(tensor, heads):
    return tensor.reshape(heads, 2, -1, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)


def granite_keys(f):
    c = f.c
    f.set(attention__scale=c["attention_multiplier"], embedding_scale=c["embedding_multiplier"],
          residual_scale=c["residual_multiplier"], logit_scale=c["logits_scaling"])


def llama_rows(f, name, tensor):
    if name.endswith(("q_proj.weight", "q_proj.bias")):
        tensor = permuted(tensor, f.c["num_attention_heads"])
    if name.endswith(("k_proj.weight", "k_proj.bias")):
        tensor = permuted(tensor, f.c["num_key_value_heads"])
    plain(f, name, tensor)


def granite(f, name, tensor):
    layer = re.search(r"layers\.(\d+)\.block_sparse_moe\.(input|output)_linear", name)
    if layer and layer[2] == "input":
        gate, up = tensor.chunk(2, 1)
        f.put(f"blk.{layer[1]}.ffn_gate_exps.weight", gate)
        f.put(f"blk.{layer[1]}.ffn_up_exps.weight", up)
    elif layer:
        f.put(f"blk.{layer[1]}.ffn_down_exps.weight", tensor)
    else:
        llama_rows(f, name, tensor)


def gemma4_keys(f):
    c, kinds_of, own = f.c, f.c["layer_types"], next(iter(f.c["per_layer_config"].values()))
    full = own["head_dim"]
    windowed = [kind == "sliding_attention" for kind in kinds_of]
    f.set(attention__shared_kv_layers=c["num_kv_shared_layers"], embedding_length_per_layer_input=c["hidden_size_per_layer_input"],
          attention__sliding_window_pattern=windowed, attention__sliding_window=c["sliding_window"], attention__key_length=full,
          attention__value_length=full, attention__key_length_swa=c["head_dim"], attention__value_length_swa=c["head_dim"],
          rope__dimension_count=full, rope__dimension_count_swa=c["head_dim"], expert_feed_forward_length=c["moe_intermediate_size"],
          expert_used_count=c["top_k_experts"], final_logit_softcapping=c["final_logit_softcapping"])
    if c["use_double_wide_mlp"]:
        first = f.layers - c["num_kv_shared_layers"]
        f.set(feed_forward_length=[c["intermediate_size"] * (1 if i < first else 2) for i in range(f.layers)])
    if "num_key_value_heads" in own:
        f.set(attention__head_count_kv=[c["num_key_value_heads"] if w else own["num_key_value_heads"] for w in windowed])
    turned = int(full * c["rope_parameters"]["full_attention"]["partial_rotary_factor"] / 2)
    f.put("rope_freqs.weight", torch.tensor([1.0] * turned + [1e30] * (full // 2 - turned)))


def gemma4(f, name, tensor):
    layer = name.split(".")[2]
    own = {"router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
           "layer_scalar": "layer_output_scale.weight", "experts.gate_up_proj": "ffn_gate_up_exps.weight",
           "experts.down_proj": "ffn_down_exps.weight"}
    for ending, place in own.items():
        if name.endswith(ending):
            f.put(f"blk.{layer}.{place}", tensor)
            return
    plain(f, name, tensor)


def glm_dsa_keys(f):
    c = f.c
    f.set(attention__head_count_kv=1, attention__q_lora_rank=c["q_lora_rank"], attention__kv_lora_rank=c["kv_lora_rank"],
          attention__key_length=c["kv_lora_rank"] + c["qk_rope_head_dim"], attention__value_length=c["kv_lora_rank"],
          attention__key_length_mla=c["qk_nope_head_dim"] + c["qk_rope_head_dim"], attention__value_length_mla=c["v_head_dim"],
          rope__dimension_count=c["qk_rope_head_dim"], expert_count=c["n_routed_experts"],
          expert_feed_forward_length=c["moe_intermediate_size"], expert_shared_count=c["n_shared_experts"],
          leading_dense_block_count=c["first_k_dense_replace"], expert_weights_scale=c["routed_scaling_factor"],
          expert_weights_norm=c["norm_topk_prob"], expert_gating_func=2, attention__indexer__head_count=c["index_n_heads"],
          attention__indexer__key_length=c["index_head_dim"], attention__indexer__top_k=c["index_topk"])


def glm_dsa(f, name, tensor):
    if name.endswith("kv_b_proj.weight"):
        split_kv_b(f, name, tensor, f.c["num_attention_heads"], f.c["qk_nope_head_dim"], f.c["v_head_dim"])
    else:
        plain(f, name, tensor)


def ernie_moe_keys(f):
    c = f.c
    f.set(expert_count=c["moe_num_experts"], expert_used_count=c["moe_k"], interleave_moe_layer_step=c["moe_layer_interval"],
          leading_dense_block_count=c["moe_layer_start_index"], expert_feed_forward_length=c["moe_intermediate_size"],
          expert_shared_count=c["moe_num_shared_experts"],
          expert_shared_feed_forward_length=c["moe_num_shared_experts"] * c["moe_intermediate_size"])


def ernie_moe(f, name, tensor):
    plain(f, name, tensor.reshape(-1) if name.endswith("e_score_correction_bias") else tensor)


def llama4_keys(f):
    c, rope = f.c, f.c["rope_parameters"]
    f.set(feed_forward_length=c["intermediate_size_mlp"], expert_feed_forward_length=c["intermediate_size"],
          interleave_moe_layer_step=c["interleave_moe_layer_step"], rope__dimension_count=head_dim(c))
    divisors = []
    for i in range(0, head_dim(c), 2):
        wave = 2 * math.pi * rope["rope_theta"] ** (i / head_dim(c))
        low, high = (rope["original_max_position_embeddings"] / rope[name] for name in ("low_freq_factor", "high_freq_factor"))
        smooth = (rope["original_max_position_embeddings"] / wave - rope["low_freq_factor"]) / (
            rope["high_freq_factor"] - rope["low_freq_factor"])
        between = 1 / ((1 - smooth) / rope["factor"] + smooth)
        divisors.append(1.0 if wave < high else rope["factor"] if wave > low else between)
    f.put("rope_freqs.weight", torch.tensor(divisors))


def llama4(f, name, tensor):
    layer = (re.findall(r"layers\.(\d+)", name) or [""])[0]
    if name.endswith("experts.gate_up_proj"):
        for part, half in zip(("gate", "up"), tensor.transpose(1, 2).chunk(2, 1)):
            f.put(f"blk.{layer}.ffn_{part}_exps.weight", half)
    elif name.endswith("experts.down_proj"):
        f.put(f"blk.{layer}.ffn_down_exps.weight", tensor.transpose(1, 2))
    else:
        plain(f, name, tensor)


def nothing(_):
    pass


# By case: the architecture, what more the metadata holds, and how a tensor is stored.
CASES = {
    "mamba2": (ARCH.MAMBA2, mamba2_keys, lambda f, n, t: mamba2(f, n, t, f.c["n_groups"])),
    "jamba": (ARCH.JAMBA, jamba_keys, jamba),
    "lfm2": (ARCH.LFM2, lfm2_keys, lfm2),
    "kimi_linear": (ARCH.KIMI_LINEAR, kimi_keys, kimi),
    "qwen3_next": (ARCH.QWEN3NEXT, qwen_next_keys, qwen_next),
    "qwen3_5": (ARCH.QWEN35, qwen3_5_keys, qwen3_5),
    "qwen3_5_moe": (ARCH.QWEN35MOE, qwen3_5_keys, qwen3_5),
    "nemotron_h_dense": (ARCH.NEMOTRON_H, nemotron_keys, nemotron),
    "nemotron_h_latent": (ARCH.NEMOTRON_H_MOE, nemotron_keys, nemotron),
    "minimax_m2": (ARCH.MINIMAXM2, minimax_m2_keys, plain),
    "exaone4": (ARCH.EXAONE4, windowed_keys, plain),
    "exaone4_full": (ARCH.EXAONE4, windowed_keys, plain),
    "ernie4_5": (ARCH.ERNIE4_5, nothing, plain),
    "ernie4_5_moe_plain": (ARCH.ERNIE4_5_MOE, ernie_moe_keys, ernie_moe),
    "hunyuan_dense": (ARCH.HUNYUAN_DENSE, hunyuan_keys, plain),
    "hunyuan_moe": (ARCH.HUNYUAN_MOE, hunyuan_keys, plain),
    "glm4_dense": (ARCH.GLM4, nothing, plain),
    "granitemoe": (ARCH.GRANITE_MOE, granite_keys, granite),
    "gemma4": (ARCH.GEMMA4, gemma4_keys, gemma4),
    "gemma4_shared": (ARCH.GEMMA4, gemma4_keys, gemma4),
    "glm_moe_dsa": (ARCH.GLM_DSA, glm_dsa_keys, glm_dsa),
    "llama4_released": (ARCH.LLAMA4, llama4_keys, llama4),
    # families that were mapped before
    "qwen2": (ARCH.QWEN2, nothing, plain),
    "qwen3": (ARCH.QWEN3, nothing, plain),
    "llama": (ARCH.LLAMA, nothing, llama_rows),
    "granite": (ARCH.GRANITE, granite_keys, llama_rows),
}


def build(name, folder):
    arch, keys, tensor_rule = CASES[name]
    config = json.loads((folder / "config.json").read_text())
    tensors = {n.replace("model.language_model.", "model."): t for n, t in load_file(folder / "model.safetensors").items()
               if not n.startswith(("model.visual.", "model.vision_tower.", "model.embed_vision."))}
    f = File(config.get("text_config", config), tensors, arch)
    f.c.setdefault("tie_word_embeddings", config.get("tie_word_embeddings"))
    common(f)
    keys(f)
    for tensor_name, tensor in sorted(f.tensors.items()):
        tensor_rule(f, tensor_name, tensor)
    return f


def write(f, path, all_f32=False):
    arch = gguf.MODEL_ARCH_NAMES[f.arch]
    w = gguf.GGUFWriter(path, arch)
    w.add_string("tokenizer.ggml.model", "none")
    w.add_uint32("tokenizer.ggml.eos_token_id", 2)
    for key, value in f.keys.items():
        key = f"{arch}.{key}"
        if isinstance(value, list):
            w.add_array(key, value)
        elif isinstance(value, bool):
            w.add_bool(key, value)
        elif isinstance(value, int):
            w.add_uint32(key, value)
        elif isinstance(value, str):
            w.add_string(key, value)
        else:
            w.add_float32(key, value)
    for name, tensor in f.out.items():
        narrow = tensor.dtype == torch.bfloat16 and tensor.dim() == 2 and min(tensor.shape) > 1 and not all_f32
        array = np.ascontiguousarray(tensor.float().numpy())
        if narrow and not name.endswith(("ssm_conv1d.weight", "shortconv.conv.weight", "ssm_norm.weight")):
            w.add_tensor(name, gguf.quants.quantize(array, gguf.GGMLQuantizationType.BF16), raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            w.add_tensor(name, array)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def judge(f, folder):
    """The largest relative error of llama.cpp's logits for the golden prompt."""
    import ctypes
    import tempfile

    import llama_cpp as ll
    golden = json.loads((folder / "golden.json").read_text())
    wanted = load_file(folder / "golden.safetensors")["logits"]
    ids = golden["prompt"]
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{scratch}/model.gguf"
        write(f, path, all_f32=True)
        ll.llama_backend_init()
        model = ll.llama_model_load_from_file(path.encode(), ll.llama_model_default_params())
        if not model:
            return "not loaded"
        params = ll.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads = 64, 64, 64, 1
        params.type_k = params.type_v = 0  # float32
        params.flash_attn_type = 0
        context = ll.llama_init_from_model(model, params)
        if not context:
            return "no context"
        batch = ll.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
            batch.seq_id[i][0] = 0
        if ll.llama_decode(context, batch) != 0:
            return "not decoded"
        size = len(ids) * wanted.shape[1]
        found = np.ctypeslib.as_array(ctypes.cast(ll.llama_get_logits(context), ctypes.POINTER(ctypes.c_float)), (size,))
        found = torch.from_numpy(found.copy()).view(wanted.shape)
        return float(((found - wanted).abs().amax(-1) / wanted.abs().amax(-1)).max())


def main(words):
    torch.set_num_threads(1)
    ask = "--judge" in words
    words = [w for w in words if w != "--judge"]
    (ROOT / "gguf").mkdir(exist_ok=True)
    for name in CASES:
        if words and not any(word in name for word in words):
            continue
        f = build(name, ROOT / "data" / name)
        path = ROOT / "gguf" / f"{name}.gguf"
        write(f, path)
        print(f"{name:20} {path.stat().st_size // 1024:4} KiB", f"llama.cpp {judge(f, ROOT / 'data' / name)}" if ask else "", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
