# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny checkpoint of Kimi K3 and its golden, without `transformers`, which has no class for it.

    PYTHONPATH=<checkout of mlx-vlm> python tools/golden/kimi_k3.py      (needs mlx for the CPU, numpy, torch)

Two readings of the model must agree: the language model of mlx-vlm, run in float32 (the golden), and the formulas of
Megatron-Bridge's K3 layers (attention residuals, SiTU, the bounded decay, the norm inside the latent experts), written
out below in torch and run in float64 (the judge of its rounding).
"""

import json
import math
import pathlib
import shutil
import types

import mlx.core as mx
import numpy as np
import torch
from mlx_vlm.models.kimi_k3.config import TextConfig
from mlx_vlm.models.kimi_k3.language import LanguageModel
from safetensors.torch import save_file

from case import draw

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "data" / "kimi_k3"
LINEAR = dict(full_attn_layers=[3, 5], kda_layers=[1, 2, 4], num_heads=3, head_dim=8, short_conv_kernel_size=4,
              gate_lower_bound=-5.0, use_full_rank_gate=True)
TEXT = dict(model_type="kimi_linear", vocab_size=64, hidden_size=24, num_hidden_layers=5, num_attention_heads=4,
            num_key_value_heads=4, intermediate_size=32, rms_norm_eps=1e-3, max_position_embeddings=256,
            linear_attn_config=LINEAR, hidden_act="situ", activation_situ_beta=1.5, activation_situ_linear_beta=2.5,
            attn_res_block_size=2, q_lora_rank=10, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
            mla_use_nope=True, mla_use_output_gate=True, num_experts=5, num_experts_per_token=2, num_shared_experts=2,
            moe_intermediate_size=8, moe_router_activation_func="sigmoid", moe_renormalize=True,
            routed_scaling_factor=1.7, first_k_dense_replace=1, moe_layer_freq=1, use_grouped_topk=True,
            num_expert_group=1, topk_group=1, routed_expert_hidden_size=12, latent_moe_use_norm=True,
            tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
PADDED_RATES = 8  # the release keeps A_log longer than there are heads
ROUTING_MARGIN, GREEDY_MARGIN, CONTINUATION = 1e-3, 5e-2, 16
READINGS = 1e-5  # how far the two may differ


def shapes():
    c, r = types.SimpleNamespace(**TEXT), types.SimpleNamespace(**LINEAR)
    hidden, width = c.hidden_size, r.num_heads * r.head_dim
    yield "model.embed_tokens.weight", (c.vocab_size, hidden)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (c.vocab_size, hidden)
    for name in ("model.output_attn_res",):
        yield name + "_norm.weight", (hidden,)
        yield name + "_proj.weight", (1, hidden)
    for i in range(c.num_hidden_layers):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (hidden,)
        yield layer + "post_attention_layernorm.weight", (hidden,)
        for name in ("self_attention_res", "mlp_res"):
            yield layer + name + "_norm.weight", (hidden,)
            yield layer + name + "_proj.weight", (1, hidden)
        attn = layer + "self_attn."
        if i + 1 in r.kda_layers:
            for letter in "qkv":
                yield attn + letter + "_proj.weight", (width, hidden)
                yield attn + letter + "_conv1d.weight", (width, 1, r.short_conv_kernel_size)
            yield from ((attn + name, shape) for name, shape in (
                ("f_a_proj.weight", (r.head_dim, hidden)), ("f_b_proj.weight", (width, r.head_dim)),
                ("b_proj.weight", (r.num_heads, hidden)), ("g_proj.weight", (width, hidden)),
                ("A_log", (PADDED_RATES,)), ("dt_bias", (width,)), ("o_norm.weight", (r.head_dim,)),
                ("o_proj.weight", (hidden, width))))
        else:
            heads, nope, rope, value = c.num_attention_heads, c.qk_nope_head_dim, c.qk_rope_head_dim, c.v_head_dim
            yield from ((attn + name, shape) for name, shape in (
                ("q_a_proj.weight", (c.q_lora_rank, hidden)), ("q_a_layernorm.weight", (c.q_lora_rank,)),
                ("q_b_proj.weight", (heads * (nope + rope), c.q_lora_rank)),
                ("kv_a_proj_with_mqa.weight", (c.kv_lora_rank + rope, hidden)),
                ("kv_a_layernorm.weight", (c.kv_lora_rank,)),
                ("kv_b_proj.weight", (heads * (nope + value), c.kv_lora_rank)),
                ("g_proj.weight", (heads * value, hidden)), ("o_proj.weight", (hidden, heads * value))))
        if i < c.first_k_dense_replace:
            yield from mlp_shapes(layer + "mlp.", c.intermediate_size, hidden)
            continue
        moe, latent = layer + "block_sparse_moe.", c.routed_expert_hidden_size
        yield moe + "gate.weight", (c.num_experts, hidden)
        yield moe + "gate.e_score_correction_bias", (c.num_experts,)
        yield moe + "routed_expert_down_proj.weight", (latent, hidden)
        yield moe + "routed_expert_norm.weight", (latent,)
        yield moe + "routed_expert_up_proj.weight", (hidden, latent)
        yield from mlp_shapes(moe + "shared_experts.", c.moe_intermediate_size * c.num_shared_experts, hidden)
        for e in range(c.num_experts):
            yield moe + f"experts.{e}.w1.weight", (c.moe_intermediate_size, latent)
            yield moe + f"experts.{e}.w3.weight", (c.moe_intermediate_size, latent)
            yield moe + f"experts.{e}.w2.weight", (latent, c.moe_intermediate_size)


def mlp_shapes(prefix, width, hidden):
    yield prefix + "gate_proj.weight", (width, hidden)
    yield prefix + "up_proj.weight", (width, hidden)
    yield prefix + "down_proj.weight", (hidden, width)


def random_weights(seed):
    generator = torch.Generator().manual_seed(seed)
    weights = {name: draw(name, shape, generator, zero_centred=False, transposed=False, scale=1.0)
               for name, shape in shapes()}
    for name in weights:
        if name.endswith("A_log"):
            weights[name][LINEAR["num_heads"]:] = 0
        if name.endswith("res_proj.weight"):
            weights[name] *= 3  # the rows shall differ in weight
    return weights


class Mlx:
    """mlx-vlm's language model with these weights, in float32 on the CPU."""

    def __init__(self, weights):
        known = TextConfig.__dataclass_fields__
        self.model = LanguageModel(TextConfig(**{k: v for k, v in TEXT.items() if k in known}))
        named = {"language_model." + k: mx.array(v.numpy()) for k, v in weights.items()}
        named = self.model.sanitize(named)
        self.model.load_weights([(k.removeprefix("language_model."), v) for k, v in named.items()], strict=True)
        self.model.eval()

    def logits(self, ids, cache=None):
        return np.array(self.model(mx.array([ids]), cache=cache).logits[0])

    def stepwise(self, ids):
        cache = self.model.make_cache()
        return np.concatenate([self.logits([token], cache) for token in ids])


class Judge:
    """The same in float64, one function per part."""

    def __init__(self, weights):
        self.w = {k: v.double() for k, v in weights.items()}
        self.margin = math.inf

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T

    def norm(self, x, name, eps=TEXT["rms_norm_eps"]):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * self.w[name + ".weight"]

    def mixture(self, rows, name):
        if len(rows) == 1:
            return rows[0]
        rows = torch.stack(rows, -2)
        scores = (self.norm(rows, name + "_norm") * self.w[name + "_proj.weight"][0]).sum(-1)
        return (scores.softmax(-1)[..., None] * rows).sum(-2)

    def situ(self, gate, up):
        beta, bound = TEXT["activation_situ_beta"], TEXT["activation_situ_linear_beta"]
        return beta * torch.tanh(gate / beta) * gate.sigmoid() * bound * torch.tanh(up / bound)

    def mlp(self, x, name):
        return self.linear(self.situ(self.linear(x, name + "gate_proj"), self.linear(x, name + "up_proj")),
                           name + "down_proj")

    def moe(self, x, name):
        scores = self.linear(x, name + "gate").sigmoid()
        choice = scores + self.w[name + "gate.e_score_correction_bias"]
        top = choice.sort(-1, descending=True)[0]
        k = TEXT["num_experts_per_token"]
        self.margin = min(self.margin, float((top[:, k - 1] - top[:, k]).min()))
        idx = choice.topk(k)[1]
        weight = scores.gather(-1, idx)
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-20) * TEXT["routed_scaling_factor"]
        low = self.linear(x, name + "routed_expert_down_proj")
        out = torch.zeros_like(low)
        for t in range(len(x)):
            for e, share in zip(idx[t].tolist(), weight[t]):
                part = f"{name}experts.{e}."
                hidden = self.situ(self.linear(low[t], part + "w1"), self.linear(low[t], part + "w3"))
                out[t] += share * self.linear(hidden, part + "w2")
        out = self.linear(self.norm(out, name + "routed_expert_norm"), name + "routed_expert_up_proj")
        return out + self.mlp(x, name + "shared_experts.")

    def kda(self, x, name):
        heads, dim, kernel = LINEAR["num_heads"], LINEAR["head_dim"], LINEAR["short_conv_kernel_size"]

        def stream(letter):
            y = torch.cat([torch.zeros(kernel - 1, heads * dim).double(), self.linear(x, name + letter + "_proj")])
            taps = self.w[f"{name}{letter}_conv1d.weight"][:, 0]
            y = sum(y[j:j + len(x)] * taps[:, j] for j in range(kernel))
            return (y * y.sigmoid()).view(-1, heads, dim)

        def unit(y):
            return y / torch.sqrt((y * y).sum(-1, keepdim=True) + 1e-6)

        q, k, v = unit(stream("q")) * dim ** -0.5, unit(stream("k")), stream("v")
        step = self.linear(self.linear(x, name + "f_a_proj"), name + "f_b_proj") + self.w[name + "dt_bias"]
        rate = self.w[name + "A_log"][:heads].exp()[:, None]
        decay = (LINEAR["gate_lower_bound"] * (rate * step.view(-1, heads, dim)).sigmoid()).exp()
        beta = self.linear(x, name + "b_proj").sigmoid()
        state, rows = torch.zeros(heads, dim, dim).double(), []
        for t in range(len(x)):
            state = state * decay[t][..., None]
            error = (v[t] - torch.einsum("hkv,hk->hv", state, k[t])) * beta[t][:, None]
            state = state + k[t][..., None] * error[:, None]
            rows.append(torch.einsum("hkv,hk->hv", state, q[t]))
        y = self.norm(torch.stack(rows), name + "o_norm") * self.linear(x, name + "g_proj").view(-1, heads, dim).sigmoid()
        return self.linear(y.flatten(1), name + "o_proj")

    def mla(self, x, name):
        c = types.SimpleNamespace(**TEXT)
        heads, nope, rope = c.num_attention_heads, c.qk_nope_head_dim, c.qk_rope_head_dim
        q = self.linear(self.norm(self.linear(x, name + "q_a_proj"), name + "q_a_layernorm", 1e-6), name + "q_b_proj")
        latent, extra = self.linear(x, name + "kv_a_proj_with_mqa").split([c.kv_lora_rank, rope], -1)
        both = self.linear(self.norm(latent, name + "kv_a_layernorm", 1e-6), name + "kv_b_proj")
        k, v = both.view(-1, heads, nope + c.v_head_dim).split([nope, c.v_head_dim], -1)
        k = torch.cat([k, extra[:, None].expand(-1, heads, -1)], -1)
        scores = torch.einsum("qhd,khd->hqk", q.view(-1, heads, nope + rope), k) * (nope + rope) ** -0.5
        scores = scores.masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -math.inf).softmax(-1)
        y = torch.einsum("hqk,khd->qhd", scores, v).flatten(1)
        return self.linear(y * self.linear(x, name + "g_proj").sigmoid(), name + "o_proj")

    def logits(self, ids):
        total, earlier, hidden = self.w["model.embed_tokens.weight"][ids], [], []
        for i in range(TEXT["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            x = self.norm(self.mixture([*earlier, total], layer + "self_attention_res"), layer + "input_layernorm")
            y = (self.kda if i + 1 in LINEAR["kda_layers"] else self.mla)(x, layer + "self_attn.")
            if i % TEXT["attn_res_block_size"] == 0:
                earlier, total = [*earlier, total], y
            else:
                total = total + y
            x = self.norm(self.mixture([*earlier, total], layer + "mlp_res"), layer + "post_attention_layernorm")
            dense = i < TEXT["first_k_dense_replace"]
            total = total + (self.mlp(x, layer + "mlp.") if dense else self.moe(x, layer + "block_sparse_moe."))
        x = self.norm(self.mixture([*earlier, total], "model.output_attn_res"), "model.norm")
        return self.linear(x, "lm_head")


def relative(found, wanted):
    return float((np.abs(found - wanted).max(-1) / np.abs(wanted).max(-1)).max())


def greedy(model, ids):
    tokens, margin = list(ids), math.inf
    for _ in range(CONTINUATION):
        row = np.sort(model.logits(tokens)[-1])
        margin = min(margin, float(row[-1] - row[-2]))
        tokens.append(int(model.logits(tokens)[-1].argmax()))
    return tokens[len(ids):], margin


def search():
    for seed in range(400):
        if seed % 40 == 0:
            weights = random_weights(20261130 + seed // 40)
            model = Mlx(weights)
        ids = torch.randint(3, 56, (36,), generator=torch.Generator().manual_seed(1000 + seed)).tolist()
        judge = Judge(weights)
        if relative(model.logits(ids), judge.logits(ids).numpy()) > READINGS or judge.margin <= ROUTING_MARGIN:
            continue
        tokens, margin = greedy(model, ids)
        exact = judge.logits([*ids, *tokens]).numpy()
        if margin > GREEDY_MARGIN and judge.margin > ROUTING_MARGIN and not set(tokens) & {TEXT["eos_token_id"]}:
            return seed, weights, model, ids, tokens, margin, judge.margin, exact[:len(ids)]
    raise RuntimeError("no clear seed")


def main():
    mx.set_default_device(mx.cpu)
    seed, weights, model, ids, tokens, margin, routing, exact = search()
    logits = model.logits(ids)
    difference, stepped = relative(logits, exact), relative(model.stepwise(ids), logits)
    if stepped > 1e-5:
        raise RuntimeError(f"decode of the reference differs from its prefill by {stepped}")
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    config = dict(architectures=["KimiK3ForConditionalGeneration"], model_type="kimi_k3", dtype="float32",
                  text_config=TEXT, tie_word_embeddings=False)
    (DATA / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    old = {**config, "torch_dtype": config["dtype"]}
    old.pop("dtype")
    (DATA / "config.old.json").write_text(json.dumps(old, indent=2) + "\n")
    save_file({"language_model." + k: v.contiguous() for k, v in sorted(weights.items())}, DATA / "model.safetensors",
              {"format": "pt"})
    golden = {"about": "attention residuals, latent experts with a norm, SiTU, a bounded decay, gated latent attention",
              "family": "kimi_k3", "prompt": ids, "continuation": tokens, "greedy_margin": margin,
              "routing_margin": routing, "length_dependent": False, "float32_float64": difference,
              "bound": max(2e-5, 4 * difference), "stepwise_prefill": stepped, "storage": "float32", "quantised": None,
              "reference": {"mlx": mx.__version__, "class": "mlx_vlm.models.kimi_k3.language.LanguageModel",
                            "dtype": "float32", "judge": "tools/golden/kimi_k3.py in float64",
                            "command": "python tools/golden/kimi_k3.py"}}
    lines = ",\n".join(f' "{key}": {json.dumps(value)}' for key, value in golden.items())
    (DATA / "golden.json").write_text("{\n" + lines + "\n}\n")
    save_file({"logits": torch.from_numpy(logits).float().contiguous()}, DATA / "golden.safetensors")
    print(f"seed {seed} f32-f64 {difference:.1e} stepwise {stepped:.1e} routing {routing:.1e} greedy {margin:.2f}")


if __name__ == "__main__":
    main()
