#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the prediction layers of golden checkpoints give, computed in float64 with numpy alone, for `transformers` leaves
such layers out. Row i takes a hidden state and the token behind it; embedding and hidden state are normed, put side by side,
projected, sent through one decoder layer or two, and read by an output head (DeepSeek-V3 report, arXiv:2412.19437, 2.2).

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
    config = json.loads((DATA / case / "config.json").read_text())
    return config.get("text_config", config), tensors


def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def angles(rope, dim):
    """The angle of each pair of columns per position, and what multiplies cosine and sine: plain, or YaRN (arXiv:2309.00071)
    with DeepSeek's two scales."""
    theta, half = rope["rope_theta"], dim // 2
    plain = theta ** (-2 * np.arange(half) / dim)
    if rope["rope_type"] == "default":
        return plain, 1.0
    length, factor = rope["original_max_position_embeddings"], rope["factor"]

    def column(turns):  # which turns so often within the length
        return dim * np.log(length / (turns * 2 * np.pi)) / (2 * np.log(theta))

    low, high = max(np.floor(column(rope["beta_fast"])), 0), min(np.ceil(column(rope["beta_slow"])), dim - 1)
    slow = np.clip((np.arange(half) - low) / (high - low), 0, 1)
    return plain * (1 - slow) + plain / factor * slow, yarn_scale(rope, "mscale") / yarn_scale(rope, "mscale_all_dim")


def yarn_scale(rope, key):
    return 0.1 * rope[key] * np.log(rope["factor"]) + 1


def in_pairs(i, _):
    return 2 * i, 2 * i + 1


def in_halves(i, half):
    return i, i + half


def turned(x, dim, rope, pairs):
    """x [rows, heads, width]: the first `dim` columns turned by the row's angle; pairs(i, dim / 2): the columns of angle i."""
    out, (speeds, factor) = x.copy(), angles(rope, dim)
    for i, speed in enumerate(speeds):
        angle = np.arange(len(x))[:, None] * speed
        cos, sin = np.cos(angle) * factor, np.sin(angle) * factor
        a, b = pairs(i, dim // 2)
        out[:, :, a] = x[:, :, a] * cos - x[:, :, b] * sin
        out[:, :, b] = x[:, :, b] * cos + x[:, :, a] * sin
    return out


def attend(q, k, v, scale, seen=None, sinks=None):
    """[rows, heads, width] each, as many heads everywhere; a row sees itself and those before, or what `seen` says; a sink
    takes part of each head's softmax away."""
    scores = np.einsum("qhd,khd->hqk", q, k) * scale
    scores[:, ~(np.tri(len(q), dtype=bool) if seen is None else seen)] = -np.inf
    top = scores.max(-1, keepdims=True)
    scores = np.exp(scores - top)
    total = scores.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks[:, None, None] - top)
    return np.einsum("hqk,khd->qhd", scores / total, v).reshape(len(q), -1)


def latent_attention(x, w, c):
    heads, nope, rope, rank = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["kv_lora_rank"]
    table, scale, seen = c["rope_parameters"], (nope + rope) ** -0.5, None
    if table["rope_type"] == "yarn":
        scale *= yarn_scale(table, "mscale_all_dim") ** 2
    if c["q_lora_rank"]:
        low = rms(x @ w("q_a_proj.weight").T, w("q_a_layernorm.weight"), 1e-6)
        q = low @ w("q_b_proj.weight").T
    else:
        q = x @ w("q_proj.weight").T
    if "index_topk" in c:
        seen = chosen_rows(x, low, lambda name: w("indexer." + name), c)
    q = q.reshape(len(x), heads, nope + rope)
    kv = x @ w("kv_a_proj_with_mqa.weight").T
    latent = rms(kv[:, :rank], w("kv_a_layernorm.weight"), 1e-6)
    expanded = (latent @ w("kv_b_proj.weight").T).reshape(len(x), heads, nope + c["v_head_dim"])
    k_rope = turned(kv[:, None, rank:], rope, table, in_pairs)
    q = np.concatenate([q[:, :, :nope], turned(q[:, :, nope:], rope, table, in_pairs)], -1)
    k = np.concatenate([expanded[:, :, :nope], np.repeat(k_rope, heads, 1)], -1)
    return attend(q, k, expanded[:, :, nope:], scale, seen) @ w("o_proj.weight").T


def chosen_rows(x, low, w, c):
    """[rows, rows]: which rows each sees, the index_topk best of an indexer (DeepSeek-V3.2)."""
    heads, dim, rope = c["index_n_heads"], c["index_head_dim"], c["qk_rope_head_dim"]
    pairs = in_halves if c["model_type"] == "deepseek_v32" else in_pairs
    q = turned((low @ w("wq_b.weight").T).reshape(len(x), heads, dim), rope, c["rope_parameters"], pairs)
    k = x @ w("wk.weight").T
    k = (k - k.mean(-1, keepdims=True)) / np.sqrt(k.var(-1, keepdims=True) + 1e-6)
    k = turned((k * w("k_norm.weight") + w("k_norm.bias"))[:, None], rope, c["rope_parameters"], pairs)[:, 0]
    scores = np.einsum("qhk,qh->qk", np.maximum(np.einsum("qhd,kd->qhk", q, k), 0), x @ w("weights_proj.weight").T)
    seen = np.zeros((len(x), len(x)), bool)
    for row in range(len(x)):
        seen[row, np.argsort(-scores[row, : row + 1])[: c["index_topk"]]] = True
    return seen


def grouped_query_attention(x, w, c, *, rope=None, pairs=in_halves, kv_heads=None, normed=0, gated=False, window=None,
                            sinks=None, factor=1.0):
    """normed: what is added to the weights of the norms on heads; None: there are none. gated: behind the queries of a head
    lies a gate for its result. factor: of the values."""
    heads, width = c["num_attention_heads"], c["head_dim"]
    kv_heads = kv_heads or c["num_key_value_heads"]

    def project(name, count):
        y = x @ w(f"{name}_proj.weight").T
        return (y + w(f"{name}_proj.bias") if c["attention_bias"] else y).reshape(len(x), count, -1)

    def ready(name, y):
        if normed is not None:
            y = rms(y, w(f"{name}_norm.weight") + normed, c[EPS.get(c["model_type"], "rms_norm_eps")])
        return turned(y, int(width * rope["partial_rotary_factor"]), rope, pairs) if rope else y

    q, k, v = project("q", heads), project("k", kv_heads), project("v", kv_heads) * factor
    gate = q[:, :, width:].reshape(len(x), -1)
    k, v = (np.repeat(y, heads // kv_heads, 1) for y in (ready("k", k), v))
    seen = np.tri(len(x), dtype=bool)
    if window:
        seen &= ~np.tri(len(x), k=-window, dtype=bool)
    y = attend(ready("q", q[:, :, :width]), k, v, width ** -0.5, seen, w(sinks) if sinks else None)
    return (y / (1 + np.exp(-gate)) if gated else y) @ w("o_proj.weight").T


def glu(x, w):
    return (silu(x @ w("gate_proj.weight").T) * (x @ w("up_proj.weight").T)) @ w("down_proj.weight").T


def squared_relu(x, w):
    return np.maximum(x @ w("up_proj.weight").T, 0) ** 2 @ w("down_proj.weight").T


def experts(x, w, c, unit=glu):
    """The sum of the chosen experts and the shared one (DeepSeek-V3's routing)."""
    out = unit(x, lambda name: w("shared_experts." + name))
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
            out[row] += share * unit(y[None], lambda name, e=expert: w(f"experts.{e}.{name}"))[0]
    return out


def experts_of_qwen(x, w, c):
    """A softmax over all chooses, a sigmoid weighs the shared one."""
    out = glu(x, lambda name: w("shared_expert." + name)) / (1 + np.exp(-x @ w("shared_expert_gate.weight").T))
    for row, y in enumerate(x):
        score = np.exp(w("gate.weight") @ y)
        chosen = np.argsort(-score)[: c["num_experts_per_tok"]]
        for expert, share in zip(chosen, score[chosen] / score[chosen].sum()):
            out[row] += share * glu(y[None], lambda name, e=expert: w(f"experts.{e}.{name}"))[0]
    return out


EPS = {"nemotron_h": "layer_norm_epsilon"}


def under(w, prefix):
    return lambda name: w(prefix + name)


def nextn(attention):
    def layer(x, w, c, norm):
        x = x + attention(norm(x, "input_layernorm.weight"), under(w, "self_attn."), c)
        return x + experts(norm(x, "post_attention_layernorm.weight"), under(w, "mlp."), c)

    return {"at": lambda c: f"model.layers.{c['num_hidden_layers']}.", "layer": layer, "own": True,
            "names": ("enorm", "hnorm", "eh_proj", "shared_head.norm")}


def qwen_layer(x, w, c, norm):
    x = x + grouped_query_attention(norm(x, "layers.0.input_layernorm.weight"), under(w, "layers.0.self_attn."), c,
                                    rope=c["rope_parameters"], normed=1, gated=True)
    block = experts_of_qwen if "num_experts" in c else lambda y, w, _: glu(y, w)
    return x + block(norm(x, "layers.0.post_attention_layernorm.weight"), under(w, "layers.0.mlp."), c)


def mimo_layer(x, w, c, norm):
    x = x + grouped_query_attention(norm(x, "input_layernorm.weight"), under(w, "self_attn."), c, normed=None,
                                    rope=c["rope_parameters"]["sliding_attention"], window=c["sliding_window"],
                                    kv_heads=2 * c["num_key_value_heads"], sinks="attention_sink_bias",
                                    factor=c["attention_value_scale"])
    return x + glu(norm(x, "pre_mlp_layernorm.weight"), under(w, "mlp."))


def nemotron_layers(x, w, c, norm):
    x = x + grouped_query_attention(norm(x, "layers.0.norm.weight"), under(w, "layers.0.mixer."), c, normed=None)
    return x + experts(norm(x, "layers.1.norm.weight"), under(w, "layers.1.mixer."), c, squared_relu)


def glm(x, w, c):
    return grouped_query_attention(x, w, c, rope=c["rope_parameters"])


QWEN = {"at": lambda c: "mtp.", "layer": qwen_layer, "away": 1, "normed": True,
        "names": ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm")}
# at: what its tensors' names begin with; own: with an embedding and a head of its own; away: what norms are stored away from;
# normed: it goes on from what its last norm gives.
HEADS = {
    "deepseek_v3_no_q_lora": nextn(latent_attention), "deepseek_v32": nextn(latent_attention),
    "glm_moe_dsa": nextn(latent_attention), "glm4_moe": nextn(glm), "qwen3_next": QWEN, "qwen3_5": QWEN, "qwen3_5_moe": QWEN,
    "mimo_v2": {"at": lambda c: "model.mtp.layers.0.", "layer": mimo_layer, "normed": True,
                "names": ("enorm", "hnorm", "eh_proj", "final_layernorm")},
    "nemotron_h": {"at": lambda c: "mtp.", "layer": nemotron_layers, "normed": True,
                   "names": ("layers.0.enorm", "layers.0.hnorm", "layers.0.eh_proj", "layers.1.final_layernorm")},
}


def predict(config, tensors, head, hidden, tokens):
    w, eps = under(tensors.__getitem__, head["at"](config)), config[EPS.get(config["model_type"], "rms_norm_eps")]

    def norm(x, name):
        return rms(x, w(name) + head.get("away", 0), eps)

    enorm, hnorm, join, last = (name + ".weight" for name in head["names"])
    own = head.get("own")
    embedding = w("embed_tokens.weight") if own else next(
        tensor for name, tensor in tensors.items() if name.endswith(("embed_tokens.weight", "embeddings.weight")))
    x = np.concatenate([norm(embedding[tokens], enorm), norm(hidden, hnorm)], -1) @ w(join).T
    x = head["layer"](x, w, config, norm)
    normed = norm(x, last)
    logits = normed @ (w("shared_head.head.weight") if own else tensors["lm_head.weight"]).T
    return normed if head.get("normed") else x, logits


def main():
    out = {}
    for case, head in HEADS.items():
        config, tensors = read(case)
        rng = np.random.default_rng(7)
        hidden = rng.standard_normal((ROWS, config["hidden_size"])).astype(np.float32)
        tokens = rng.integers(0, config["vocab_size"], ROWS)
        after, logits = predict(config, tensors, head, hidden.astype(np.float64), tokens)
        short = lambda rows: [[float(f"{v:.8g}") for v in row] for row in rows]  # noqa: E731
        out[case] = {"tokens": tokens.tolist(), "hidden": [[float(v) for v in row] for row in hidden],
                     "next_hidden": short(after), "logits": short(logits)}
    print(json.dumps(out))


if __name__ == "__main__":
    main()
