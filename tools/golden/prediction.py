#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the prediction layers of two golden checkpoints give, computed in float64 with numpy alone, for `transformers` leaves
such layers out. Row i takes a hidden state and the token behind it; embedding and hidden state are normed, put side by side,
projected, sent through one decoder layer, and read by the layer's own head (DeepSeek-V3 report, arXiv:2412.19437, 2.2).

    prediction.py > tests/golden/prediction.json       # needs numpy and safetensors
"""

import json
import pathlib

import numpy as np
from safetensors import safe_open

DATA = pathlib.Path(__file__).parents[2] / "tests/golden/data"
ROWS = 12


def read(case):
    import torch  # bfloat16 is no type of numpy's

    with safe_open(DATA / case / "model.safetensors", "pt") as file:
        tensors = {name: file.get_tensor(name).to(torch.float64).numpy() for name in file.keys()}
    return json.loads((DATA / case / "config.json").read_text()), tensors


def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def turned(x, dim, theta, pairs):
    """x [rows, heads, width]: the first `dim` columns turned by the row's angle; pairs(i): the two columns of angle i."""
    out = x.copy()
    for i in range(dim // 2):
        angle = np.arange(len(x))[:, None] * theta ** (-2 * i / dim)
        a, b = pairs(i)
        out[:, :, a] = x[:, :, a] * np.cos(angle) - x[:, :, b] * np.sin(angle)
        out[:, :, b] = x[:, :, b] * np.cos(angle) + x[:, :, a] * np.sin(angle)
    return out


def attend(q, k, v, scale):
    """[rows, heads, width] each, as many heads everywhere; a row sees itself and those before."""
    scores = np.einsum("qhd,khd->hqk", q, k) * scale
    scores[:, ~np.tri(len(q), dtype=bool)] = -np.inf
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), v).reshape(len(q), -1)


def latent_attention(x, w, c):
    heads, nope, rope, rank = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["kv_lora_rank"]
    theta = c["rope_parameters"]["rope_theta"]
    next_to_each_other = lambda i: (2 * i, 2 * i + 1)  # noqa: E731
    q = (x @ w("q_proj.weight").T).reshape(len(x), heads, nope + rope)
    kv = x @ w("kv_a_proj_with_mqa.weight").T
    latent = rms(kv[:, :rank], w("kv_a_layernorm.weight"), 1e-6)
    expanded = (latent @ w("kv_b_proj.weight").T).reshape(len(x), heads, nope + c["v_head_dim"])
    k_rope = turned(kv[:, None, rank:], rope, theta, next_to_each_other)
    q = np.concatenate([q[:, :, :nope], turned(q[:, :, nope:], rope, theta, next_to_each_other)], -1)
    k = np.concatenate([expanded[:, :, :nope], np.repeat(k_rope, heads, 1)], -1)
    return attend(q, k, expanded[:, :, nope:], (nope + rope) ** -0.5) @ w("o_proj.weight").T


def grouped_query_attention(x, w, c):
    heads, kv_heads, width = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    dim, theta = int(width * c["rope_parameters"]["partial_rotary_factor"]), c["rope_parameters"]["rope_theta"]

    def project(name, count):
        return (x @ w(f"{name}_proj.weight").T + w(f"{name}_proj.bias")).reshape(len(x), count, width)

    def ready(name, count):
        normed = rms(project(name, count), w(f"{name}_norm.weight"), c["rms_norm_eps"])
        return turned(normed, dim, theta, lambda i: (i, i + dim // 2))

    k, v = (np.repeat(y, heads // kv_heads, 1) for y in (ready("k", kv_heads), project("v", kv_heads)))
    return attend(ready("q", heads), k, v, width ** -0.5) @ w("o_proj.weight").T


def glu(x, w):
    return (silu(x @ w("gate_proj.weight").T) * (x @ w("up_proj.weight").T)) @ w("down_proj.weight").T


def experts(x, w, c):
    """The sum of the chosen experts and the shared one."""
    out = glu(x, lambda name: w("shared_experts." + name))
    groups, count = c["n_group"], c["n_routed_experts"]
    for row, y in enumerate(x):
        score = 1 / (1 + np.exp(-(w("gate.weight") @ y)))
        choice = (score + w("gate.e_score_correction_bias")).reshape(groups, count // groups)
        if groups > 1:
            value = np.sort(choice, -1)[:, -2:].sum(-1)
            choice[np.argsort(-value)[c["topk_group"]:]] = -np.inf
        chosen = np.argsort(-choice.reshape(-1))[: c["num_experts_per_tok"]]
        weight = score[chosen]
        if c["norm_topk_prob"]:
            weight = weight / weight.sum()
        for expert, share in zip(chosen, weight * c["routed_scaling_factor"]):
            out[row] += share * glu(y[None], lambda name, e=expert: w(f"experts.{e}.{name}"))[0]
    return out


def predict(config, tensors, attention, hidden, tokens):
    layer = f"model.layers.{config['num_hidden_layers']}."
    w, eps = lambda name: tensors[layer + name], config["rms_norm_eps"]  # noqa: E731
    embedded = rms(w("embed_tokens.weight")[tokens], w("enorm.weight"), eps)
    x = np.concatenate([embedded, rms(hidden, w("hnorm.weight"), eps)], -1) @ w("eh_proj.weight").T
    x = x + attention(rms(x, w("input_layernorm.weight"), eps), lambda name: w("self_attn." + name), config)
    x = x + experts(rms(x, w("post_attention_layernorm.weight"), eps), lambda name: w("mlp." + name), config)
    return x, rms(x, w("shared_head.norm.weight"), eps) @ w("shared_head.head.weight").T


def main():
    out = {}
    for case, attention in (("deepseek_v3_no_q_lora", latent_attention), ("glm4_moe", grouped_query_attention)):
        config, tensors = read(case)
        rng = np.random.default_rng(7)
        hidden = rng.standard_normal((ROWS, config["hidden_size"])).astype(np.float32)
        tokens = rng.integers(0, config["vocab_size"], ROWS)
        after, logits = predict(config, tensors, attention, hidden.astype(np.float64), tokens)
        short = lambda rows: [[float(f"{v:.8g}") for v in row] for row in rows]  # noqa: E731
        out[case] = {"tokens": tokens.tolist(), "hidden": [[float(v) for v in row] for row in hidden],
                     "next_hidden": short(after), "logits": short(logits)}
    print(json.dumps(out))


if __name__ == "__main__":
    main()
