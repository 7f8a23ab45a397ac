# SPDX-License-Identifier: Apache-2.0
"""Tensors of the heads that predict further tokens, under the names of the releases: `transformers` leaves them out. They are
layers of the model turned upside down, so that they are of its sizes and no copies."""


import torch


def copied(tensors, old, new, rename=lambda name: name):
    return {new + rename(name[len(old):]): tensor.flip(0) for name, tensor in tensors.items() if name.startswith(old)}


def joint(hidden, matrix, names, away=0.0):
    """The two norms, the matrix behind them, the last norm. away: what norms are stored away from."""
    return {names[0]: torch.full((hidden,), 0.9 - away), names[1]: torch.full((hidden,), 1.1 - away),
            names[2]: matrix[:hidden].repeat(1, 2) * 0.5, names[3]: torch.full((hidden,), 1.2 - away)}


def nextn(case, tensors):
    """A layer at index num_hidden_layers, as DeepSeek-V3 has it: with an embedding and a head of its own."""
    layers = case.config["num_hidden_layers"]
    new = f"model.layers.{layers}."
    extra = copied(tensors, f"model.layers.{layers - 1}.", new)
    if case.family == "glm_moe_dsa":  # whose last layer may have no indexer
        extra.update(copied(tensors, f"model.layers.{layers - 2}.self_attn.indexer.", new + "self_attn.indexer."))
    names = [new + name + ".weight" for name in ("enorm", "hnorm", "eh_proj", "shared_head.norm")]
    return {**extra, **joint(case.config["hidden_size"], tensors["lm_head.weight"], names),
            new + "shared_head.head.weight": tensors["lm_head.weight"].clone(),
            new + "embed_tokens.weight": tensors["model.embed_tokens.weight"].clone()}


def qwen(case, tensors):
    """Under mtp., a layer of gated attention: the model's last."""
    prefix = next(name for name in tensors if name.endswith("embed_tokens.weight")).removesuffix("embed_tokens.weight")
    text = case.config.get("text_config", case.config)
    names = [f"mtp.{name}.weight" for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm")]
    return {**copied(tensors, f"{prefix}layers.{text['num_hidden_layers'] - 1}.", "mtp.layers.0."),
            **joint(text["hidden_size"], tensors["lm_head.weight"], names, away=1.0)}


def mimo(case, tensors):
    """Under model.mtp.layers., windowed and dense, each with norms and a matrix of its own; here two."""
    windowed, dense = (next(name for name in tensors if name.endswith(end)).split(".")[2]
                       for end in ("attention_sink_bias", "mlp.gate_proj.weight"))
    extra = {}
    for i in range(2):
        new = f"model.mtp.layers.{i}."
        attending = copied(tensors, f"model.layers.{windowed}.", new)
        extra.update({name: tensor for name, tensor in attending.items() if ".mlp." not in name})
        extra.update(copied(tensors, f"model.layers.{dense}.mlp.", new + "mlp."))
        extra[new + "pre_mlp_layernorm.weight"] = extra.pop(new + "post_attention_layernorm.weight")
        names = [new + name + ".weight" for name in ("enorm", "hnorm", "eh_proj", "final_layernorm")]
        extra.update(joint(case.config["hidden_size"], tensors["lm_head.weight"], names))
    return extra


def nemotron(case, tensors):
    """Under mtp.layers., a layer of attention and one of experts."""
    kinds, extra = case.config["layers_block_type"], {}
    for i, kind in enumerate(("full_attention", "moe")):
        extra.update(copied(tensors, f"backbone.layers.{kinds.index(kind)}.", f"mtp.layers.{i}."))
    names = [f"mtp.layers.{name}.weight" for name in ("0.enorm", "0.hnorm", "0.eh_proj", "1.final_layernorm")]
    return {**extra, **joint(case.config["hidden_size"], tensors["lm_head.weight"], names)}


def ernie(case, tensors):
    """A dense layer under model.mtp_block., what joins embedding and hidden state beside it; no last norm of its own."""
    names = [f"model.{name}.0.weight" for name in ("mtp_emb_norm", "mtp_hidden_norm", "mtp_linear_proj", "")]
    extra = joint(case.config["hidden_size"], tensors["model.embed_tokens.weight"], names)
    extra.pop(names[3])
    return {**copied(tensors, "model.layers.0.", "model.mtp_block.0."), **extra}


def tensors_of(case, tensors):
    kinds = {"nextn": nextn, "qwen": qwen, "mimo": mimo, "nemotron": nemotron, "ernie": ernie}
    return kinds[case.prediction_layer](case, tensors)
