#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults of a fault drill that were written without sight of how `baseline locate` looks for them, with the truth about
each put down before the first run: operator, first value that is wrong, kind of fault. Faults of specs, configs and
weights are here, those of kernels in kernel_faults.py. Prints misses, the confusion matrix and the rates, and what
`baseline compare` names from the pack alone. docs/fault_drill.md has the figures of the first run. Standard library only.

    faults_blind.py PROGRAM [--seed N] [--faults N] [--pairs N] [--healthy N] [--only TEXT] [--all] [--json FILE]
"""

import argparse
import collections
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

from fault_drill import (
    CONFIG, DATA, KERNEL, MASK, NORM, PACKS, ROPE, ROUTING, STATE, WEIGHT, WIDTH,
    Drill, interleave, of, permute_per_head, plus, report, shift_rows, swap_halves, transpose,
)  # fmt: skip

FORMAT = "format conversion"
LEAST_OPERATOR, LEAST_KIND = 0.8, 0.8  # of the faults; an answer that is no worse counts as the kind
CAUSES = [CONFIG, WEIGHT, ROPE, MASK, NORM, ROUTING, STATE, WIDTH, KERNEL, FORMAT]


class Fault:
    """`at`: the first values that are wrong (names of a clean recording; any of them); `ops`: operators that may be
    blamed; `later`: the first of a recording that has none of them; `place`: what the finding's scope, value or hypothesis must hold; `also`: kinds that are no worse an answer."""

    def __init__(self, kind, model, medium, edits, ops, at, cause, also=(), place=None, allow=(), later=""):
        self.kind, self.model, self.medium, self.edits = kind, model, medium, edits
        self.ops, self.at, self.cause, self.also = ops.split(), at.split(), cause, list(also)
        scope = self.at[0].rsplit(".", 1)[0] if self.at[0].count(".") > 2 else self.at[0]
        self.place = place if place is not None else self.at[0] if medium == "weights" else scope
        self.allow, self.later = list(allow), later.split()
        assert cause in CAUSES and all(other in CAUSES for other in also), kind

    def __str__(self):
        return f"{self.kind} in the {self.medium} of {self.model}"


FAULTS = []


def spec(kind, model, file, old, new, *truth, **more):
    """`old` and `new`: texts, or lists of them."""
    olds, news = ([old], [new]) if isinstance(old, str) else (old, new)
    FAULTS.append(Fault(kind, model, "spec", [(file, o, n) for o, n in zip(olds, news, strict=True)], *truth, **more))


def config(kind, model, key, value, *truth, **more):
    FAULTS.append(Fault(kind, model, "config", [(key, value)], *truth, **more))


def weights(kind, model, names, change, *truth, **more):
    FAULTS.append(Fault(kind, model, "weights", [(name, change) for name in names.split()], *truth, **more))


# ---- specs, judged against recordings of transformers ----------------------------------------------------------------
spec("inner norm with the model's epsilon", "deepseek_v3", "std/deepseek.lua", 'c:count "kv_lora_rank", 1e-6', 'c:count "kv_lora_rank", p.eps',
     "rms_norm", "model.layers.0.self_attn.q_a_layernorm", NORM)  # fmt: skip
spec("last norm without the offset", "gemma2", "gemma2.lua", "    return { logits = std.head", "    p.norm_offset = 0.0\n    return { logits = std.head",
     "rms_norm", "model.norm", NORM)  # fmt: skip
spec("offset of the norms added twice", "qwen3_next", "std/qwen_next.lua", "p.gated = 1.0,", "p.gated = 2.0,",
     "rms_norm", "model.layers.0.input_layernorm", NORM)  # fmt: skip
spec("offset on a norm that has none", "qwen3_next", "std/mixer.lua", 'y = rms_norm(y, w("norm.weight", { d.value_dim }), { eps = p.eps })',
     'y = rms_norm(y, w("norm.weight", { d.value_dim }), { eps = p.eps, offset = 1.0 })',
     "rms_norm", "model.layers.0.linear_attn.norm", NORM)  # fmt: skip
spec("keys not of length one", "qwen3_next", "std/mixer.lua", 'k = unit(reshape(k, "T", d.key_heads, d.key_dim), 1),', 'k = reshape(k, "T", d.key_heads, d.key_dim),',
     "rms_norm map recur_delta", "model.layers.0.linear_attn.rms_norm#2", NORM)  # fmt: skip
spec("bias of the time step left out", "qwen3_next", "std/mixer.lua", "return -exp(log_rate) * softplus(step + bias) end, a,", "return -exp(log_rate) * softplus(step) end, a,",
     "map recur_delta", "model.layers.0.linear_attn.map#4 model.layers.0.linear_attn.map#5", WEIGHT, [STATE, CONFIG])  # fmt: skip
spec("sigmoid of the shared expert's gate lost", "qwen3_next", "std/moe.lua", "return y + shared * sigmoid(linear(", "return y + shared * (linear(",
     "map", "model.layers.0.mlp.map#2 model.layers.0.mlp.map#3", ROUTING, [CONFIG])  # fmt: skip
spec("weights of experts renormalised", "jamba", "jamba.lua", 'p.intermediate, "router.weight", false', 'p.intermediate, "router.weight", true',
     "map top_k reduce softmax per_expert", "model.layers.1.feed_forward.experts", ROUTING, [CONFIG])  # fmt: skip
spec("norm of the time step left out", "jamba", "std/mixer.lua", 'project(normed(step, "dt"), w, "dt_proj"', 'project(step, w, "dt_proj"',
     "rms_norm linear", "model.layers.1.mamba.dt_layernorm model.layers.1.mamba.dt_proj", NORM, later="model.layers.1.mamba.out_proj",
     allow=["model.layers.1.mamba.dt_layernorm.weight", "model.layers.2.mamba.dt_layernorm.weight"])  # fmt: skip
spec("skip of the recurrence lost", "jamba", "std/mixer.lua", "return (out + skip * input) * silu(g) end", "return out * silu(g) end",
     "map", "model.layers.1.mamba.map#3", WEIGHT, [STATE, CONFIG])  # fmt: skip
spec("rope where the model has none", "jamba", "jamba.lua", "    p.window = std.window.none(c)",
     "    p.window = std.window.none(c)\n    p.rope = std.rope.from_config(c, { dim = p.head_dim, default_theta = 1e4 })",
     "rope attend", "model.layers.0.self_attn.attend", ROPE)  # fmt: skip
spec("gate after the norm", "mamba2", "std/mixer.lua", ['s.heads, 1), "T", inner) * map(silu, gate)',
     'y = grouped_norm(y, w("norm.weight", { inner }), s.groups, p.eps)'],
     ['s.heads, 1), "T", inner)', 'y = grouped_norm(y, w("norm.weight", { inner }), s.groups, p.eps) * map(silu, gate)'],
     "rms_norm map", "backbone.layers.0.mixer.map#8", NORM)  # fmt: skip
spec("norm over all groups at once", "mamba2", "std/mixer.lua", 'w("norm.weight", { inner }), s.groups, p.eps)', 'w("norm.weight", { inner }), 1, p.eps)',
     "rms_norm map", "backbone.layers.0.mixer.rms_norm", NORM)  # fmt: skip
spec("activation after the convolution left out", "mamba2", "std/mixer.lua", 'local v, k, q = split(conv(mixed, w, "conv1d", s.kernel, state, "conv", { act = s.act, bias',
     'local v, k, q = split(conv(mixed, w, "conv1d", s.kernel, state, "conv", { bias',
     "map conv1d", "backbone.layers.0.mixer.map", CONFIG, allow=["hidden_act"])  # fmt: skip
spec("norm of q and k behind the rope", "lfm2", "lfm2.lua", '"head", "q_layernorm"', '"turned", "q_layernorm"',
     "rms_norm rope", "model.layers.2.self_attn.q_layernorm", NORM, [ROPE])  # fmt: skip
spec("gates before and after the convolution changed over", "lfm2", "std/mixer.lua", "local before, after, v = split(", "local after, before, v = split(",
     "slice map", "model.layers.0.conv.slice model.layers.0.conv.map", WEIGHT)  # fmt: skip
spec("decay of the next layer", "minimax", "std/mixer.lua", "1 - layer / (p.layers - 1 + 1e-5)", "1 - (layer + 1) / (p.layers - 1 + 1e-5)",
     "map recur_gla", "model.layers.1.self_attn.recur_gla", STATE, [CONFIG])  # fmt: skip
spec("residual taken before the norm", "minimax", "minimax.lua", "x = h * f.input + mix(", "x = x * f.input + mix(",
     "map", "model.layers.0.map model.layers.0.self_attn.map", NORM, [CONFIG], place="layers.0")  # fmt: skip
spec("rope in halves, not interleaved", "glm4_dense", "glm4.lua", 'style = "interleaved"', 'style = "half"',
     "rope", "model.layers.0.self_attn.rope", ROPE)  # fmt: skip
spec("two norms changed over", "glm4_dense", "glm4.lua", ['"post_self_attn_layernorm"', '"post_mlp_layernorm"', '"post_self_attn_layernorm_"'],
     ['"post_self_attn_layernorm_"', '"post_self_attn_layernorm"', '"post_mlp_layernorm"'],
     "rms_norm", "model.layers.0.post_self_attn_layernorm", WEIGHT, [NORM], place="layers.0")  # fmt: skip
spec("keys and values changed over in the joined matrix", "phi3", "std/attention.lua", "return columns(y, 0, q), columns(y, q, k), columns(y, q + k, v)",
     "return columns(y, 0, q), columns(y, q + k, v), columns(y, q, k)",
     "slice rope attend", "model.layers.0.self_attn.slice#2", WEIGHT)  # fmt: skip
spec("up before gate in the joined matrix", "phi3", "std/mlp.lua",
     ["gate = slice(both, { axis = 1, start = 0, stop = width })", "up = slice(both, { axis = 1, start = width, stop = 2 * width })"],
     ["up = slice(both, { axis = 1, start = 0, stop = width })", "gate = slice(both, { axis = 1, start = width, stop = 2 * width })"],
     "slice map", "model.layers.0.mlp.slice", WEIGHT)  # fmt: skip
spec("long factors at short lengths", "phi3", "std/rope.lua", 'divided "short_factor", divided', 'divided "long_factor", divided',
     "rope", "model.layers.0.self_attn.rope", ROPE, [CONFIG], allow=["rope_parameters.short_factor"])  # fmt: skip
spec("norm before the block, not behind it", "olmo2", "olmo2.lua", ["gqa(x, l:scope", "x = x + std.norm.rms(h, l, \"post_attention_layernorm\", p)"],
     ["gqa(std.norm.rms(x, l, \"post_attention_layernorm\", p), l:scope", "x = x + h"],
     "rms_norm linear", "model.layers.0.post_attention_layernorm model.layers.0.self_attn.q_proj", NORM, [CONFIG], place="layers.0")  # fmt: skip
spec("positions in the layers that have none", "smollm3", "smollm3.lua", "return turns(i) and table_of", "return not turns(i) and table_of",
     "rope attend", "model.layers.0.self_attn.rope", ROPE, [CONFIG])  # fmt: skip
spec("factor of stretched rope on q and k lost", "llama_yarn", "std/rope.lua", "t.scale = yarn_mscale(factor, 1)", "t.scale = 1.0",
     "rope", "model.layers.0.self_attn.rope", ROPE, [CONFIG])  # fmt: skip
spec("stretching counted from the long length", "llama_yarn", "std/rope.lua", 'local original = original_length(get, c) or c:count "max_position_embeddings"\n  local factor',
     'local original = 4 * original_length(get, c)\n  local factor',
     "rope", "model.layers.0.self_attn.rope", ROPE, [CONFIG])  # fmt: skip
spec("factor of stretched rope on the scores lost", "deepseek_v3", "std/deepseek.lua", "  if rotary.mscale_all_dim then p.scale", "  if false then p.scale",
     "attend", "model.layers.0.self_attn.attend", ROPE, [CONFIG])  # fmt: skip
spec("groups chosen by their best expert alone", "deepseek_v3", "std/moe.lua", "top_k(grouped, { k = 2 })", "top_k(grouped, { k = 1 })",
     "top_k reduce index_mask map per_expert", "model.layers.1.mlp.top_k", ROUTING)  # fmt: skip
spec("choice's bias in the weights", "glm4_moe", "std/moe.lua", "return idx, weights_of(scores, idx, p)", "return idx, weights_of(choice, idx, p)",
     "gather_last reduce map per_expert", "model.layers.1.mlp.gather_last", ROUTING)  # fmt: skip
spec("routing factor on the shared expert too", "glm4_moe", "glm4_moe.lua", "p, p.expert_width * p.shared) end", "p, p.expert_width * p.shared) * p.route_scale end",
     "map", "model.layers.1", ROUTING, [CONFIG], place="layers.1")  # fmt: skip
spec("choice without its bias", "ernie4_5_moe", "ernie4_5_moe.lua", "top_k(scores + bias,", "top_k(scores,",
     "top_k map per_expert", "model.layers.1.mlp.map model.layers.1.mlp.top_k", ROUTING, allow=[f"model.layers.{i}.mlp.moe_statics.e_score_correction_bias" for i in (1, 2)])  # fmt: skip
spec("least sum of weights ignored", "ernie4_5_moe", "ernie4_5_moe.lua", "return y / max(sum, least) end", "return y / sum end",
     "map per_expert", "model.layers.1.mlp.map#2", ROUTING, [CONFIG], allow=["moe_norm_min"])  # fmt: skip
spec("norm of q and k before the rope", "hunyuan_moe", "hunyuan_v1.lua", 'p.qkv_bias, "turned"', 'p.qkv_bias, "head"',
     "rms_norm rope", "model.layers.0.self_attn.query_layernorm", NORM, [ROPE])  # fmt: skip
spec("stretched base forgotten", "hunyuan_moe", "std/rope.lua", "  t.theta = t.theta * alpha ^ (t.length / (t.length - 2))\n", "",
     "rope", "model.layers.0.self_attn.rope", ROPE, [CONFIG], allow=["rope_parameters.alpha"])  # fmt: skip
spec("softmax over all experts, not the chosen", "gpt_oss", "gpt_oss.lua", ["local best, idx = top_k(logits, {", "return idx, softmax(best)"],
     ["local best, idx = top_k(softmax(logits), {", "return idx, best"],
     "softmax top_k per_expert", "model.layers.0.mlp.router.top_k", ROUTING, place="layers.0.mlp")  # fmt: skip
spec("one more in the gated unit lost", "gpt_oss", "std/mlp.lua", "* (max(min(u, limit), -limit) + 1)", "* (max(min(u, limit), -limit))",
     "per_expert map", "model.layers.0.mlp.experts", CONFIG)  # fmt: skip
spec("scale of attention from the head's size", "granite", "granite.lua", 'p.scale = c:number("attention_multiplier", 1.0)', 'local _ = c:number("attention_multiplier", 1.0)',
     "attend", "model.layers.0.self_attn.attend", CONFIG, allow=["attention_multiplier"])  # fmt: skip
spec("scale of attention from the head's size", "gemma2", "gemma2.lua", 'p.scale = c:number "query_pre_attn_scalar" ^ -0.5', 'local _ = c:number "query_pre_attn_scalar"',
     "attend", "model.layers.0.self_attn.attend", CONFIG, allow=["query_pre_attn_scalar"])  # fmt: skip
spec("factor of residuals on one block alone", "granite", "granite.lua", "      x = x + h * p.residual_factor\n      h =", "      x = x + h\n      h =",
     "map", "model.layers.0.self_attn.map model.layers.0.self_attn.map#2", CONFIG, place="layers.0")  # fmt: skip

# ---- configs ---------------------------------------------------------------------------------------------------------
config("epsilon", "llama", "rms_norm_eps", 1e-5, "rms_norm", "model.layers.0.input_layernorm", NORM, [CONFIG])
config("activation", "llama", "hidden_act", "gelu", "map", "model.layers.0.mlp.map", CONFIG)
config("exact gelu for its approximation", "gemma2", "hidden_activation", "gelu", "map", "model.layers.0.mlp.map", CONFIG)
config("embedding factor lost", "granite", "embedding_multiplier", 1.0, "map gather_rows", "embedding", CONFIG)
config("divisor of logits lost", "granite", "logits_scaling", 1.0, "map linear", "logits", CONFIG)
config("routing factor lost", "deepseek_v3", "routed_scaling_factor", 1.0, "map per_expert", "model.layers.1.mlp.map#6 model.layers.1.mlp.map#5", ROUTING, [CONFIG])
config("groups of experts ignored", "deepseek_v3", "topk_group", 4, "top_k index_mask map per_expert", "model.layers.1.mlp.top_k.1#2 model.layers.1.mlp.top_k#2 model.layers.1.mlp.index_mask", ROUTING, [CONFIG], place="layers.1.mlp")
config("fewer experts per token", "deepseek_v3", "num_experts_per_tok", 2, "top_k map per_expert reduce gather_last", "model.layers.1.mlp.top_k#3 model.layers.1.mlp.top_k.1#3", ROUTING, [CONFIG])
config("window one shorter", "gemma2", "sliding_window", 7, "attend", "model.layers.0.self_attn.attend", MASK, [CONFIG])
config("window one longer", "phi3", "sliding_window", 9, "attend", "model.layers.0.self_attn.attend", MASK, [CONFIG])
config("cap of scores lost", "gemma2", "attn_logit_softcapping", None, "attend", "model.layers.0.self_attn.attend", CONFIG)
config("windowed and full layers changed over", "gpt_oss", "layer_types", ["full_attention", "sliding_attention", "full_attention"], "attend", "model.layers.0.self_attn.attend", MASK, [CONFIG])
config("limit of the gated unit", "gpt_oss", "swiglu_limit", 7.0, "per_expert map", "model.layers.0.mlp.experts", CONFIG)
config("base of the rope by default", "qwen3_moe", "rope_parameters.rope_theta", 10000.0, "rope", "model.layers.0.self_attn.rope", ROPE, [CONFIG])
config("whole heads turned", "glm4_dense", "rope_parameters.partial_rotary_factor", 1.0, "rope", "model.layers.0.self_attn.rope", ROPE, [CONFIG])
config("more of a head turned", "qwen3_next", "rope_parameters.partial_rotary_factor", 0.5, "rope", "model.layers.3.self_attn.rope", ROPE, [CONFIG])
config("factor of a kind of block", "minimax", "linear_attn_beta_factor", 1.0, "map", "model.layers.1.self_attn.map#5 model.layers.1.self_attn.map#4", CONFIG, place="layers.1")
config("time step limited", "mamba2", "time_step_limit", [0.0, 0.1], "map", "backbone.layers.0.mixer.map#2", CONFIG, [STATE])
config("weights of experts not renormalised", "qwen3_moe", "norm_topk_prob", False, "map reduce per_expert", "model.layers.0.mlp.map", ROUTING, [CONFIG], later="model.layers.0.mlp.experts")

# ---- weights ---------------------------------------------------------------------------------------------------------
def per_number(change):
    """Of 16-bit numbers and float32 alike."""
    return lambda t, _: t.with_numbers([change(x) for x in t.numbers()])


def zero_tail(t, _):
    return t.__class__(t.kind, t.shape, t.data[: len(t.data) * 3 // 4] + bytes(len(t.data) - len(t.data) * 3 // 4))


def first_head_for_all(heads):
    def change(t, _):
        return t.__class__(t.kind, t.shape, t.data[: len(t.data) // heads] * heads)

    return change


def heads_apart(heads, first):
    """Rows [heads, first + second] as all first parts, then all second parts."""

    def change(t, _):
        rows = t.rows()
        each = len(rows) // heads
        order = [h * each + i for h in range(heads) for i in range(first)]
        order += [h * each + i for h in range(heads) for i in range(first, each)]
        return t.with_rows([rows[i] for i in order])

    return change


def reverse_last(t, _):
    width, n = t.size, t.shape[-1]
    cells = [t.data[i : i + width] for i in range(0, len(t.data), width)]
    return t.__class__(t.kind, t.shape, b"".join(b"".join(cells[i : i + n][::-1]) for i in range(0, len(cells), n)))


def halves_of_last(t, _):
    """Columns a b a b as a a b b."""
    width, n = t.size, t.shape[-1]
    cells = [t.data[i : i + width] for i in range(0, len(t.data), width)]
    rows = [cells[i : i + n] for i in range(0, len(cells), n)]
    return t.__class__(t.kind, t.shape, b"".join(b"".join(row[::2] + row[1::2]) for row in rows))


def zeros(t, _):
    return t.__class__(t.kind, t.shape, bytes(len(t.data)))


def each_byte(change):
    return lambda t, _: t.__class__(t.kind, t.shape, bytes(change(byte) & 255 for byte in t.data))


def coarse(bits):
    """The mantissa of float32 cut to so many bits."""

    def change(x):
        (word,) = struct.unpack("<I", struct.pack("<f", x))
        return struct.unpack("<f", struct.pack("<I", word & ~((1 << (23 - bits)) - 1) & 0xFFFFFFFF))[0]

    return per_number(change)


def swap_with(other):
    return lambda t, tensors: t.__class__(t.kind, t.shape, ORIGINAL[other].data)


def exponential(t, _):
    return t.with_numbers([2.718281828459045**x for x in t.numbers()])


ORIGINAL = {}  # the tensors before any change of this fault: two may be changed over

L1 = "model.layers.1."
weights("rows of q in the other pairing", "llama", L1 + "self_attn.q_proj.weight", permute_per_head(4), "linear", L1 + "self_attn.q_proj", WEIGHT, [ROPE])
weights("one key head for all", "llama", L1 + "self_attn.k_proj.weight", first_head_for_all(2), "linear", L1 + "self_attn.k_proj", WEIGHT)
weights("embedding for an untied head", "llama", "lm_head.weight", of("model.embed_tokens.weight"), "linear", "logits", WEIGHT)
weights("mantissa of two bits", "llama", "model.layers.0.mlp.up_proj.weight", coarse(2), "linear", "model.layers.0.mlp.up_proj", FORMAT, [WEIGHT])
weights("rows of v in the pairing of q and k", "smollm2", L1 + "self_attn.v_proj.weight", permute_per_head(2), "linear", L1 + "self_attn.v_proj", WEIGHT)
weights("norm stored with its offset", "gemma2", L1 + "pre_feedforward_layernorm.weight", plus(1.0), "rms_norm", L1 + "pre_feedforward_layernorm", NORM, [WEIGHT])
weights("key and value rows not head by head", "deepseek_v3", L1 + "self_attn.kv_b_proj.weight", heads_apart(4, 12), "batched_linear", L1 + "self_attn.batched_linear", WEIGHT, place="layers.1.self_attn")
weights("matrix of another layer", "deepseek_v3", L1 + "self_attn.q_a_proj.weight", of("model.layers.2.self_attn.q_a_proj.weight"), "linear", L1 + "self_attn.q_a_proj", WEIGHT)
weights("gates of two experts changed over", "deepseek_v3", f"{L1}mlp.experts.3.gate_proj.weight {L1}mlp.experts.5.gate_proj.weight", None, "per_expert", L1 + "mlp.experts", WEIGHT, [ROUTING], place="layers.1.mlp")
weights("bias of the choice lost", "deepseek_v3", L1 + "mlp.gate.e_score_correction_bias", zeros, "map top_k", L1 + "mlp.map#2", ROUTING, [WEIGHT], place="layers.1.mlp")
weights("scales of blocks one row off", "deepseek_v3_fp8", L1 + "self_attn.o_proj.weight_scale_inv", shift_rows, "linear", L1 + "self_attn.o_proj", WEIGHT, [FORMAT])
weights("exponent of the scales one off", "quant_mxfp8", L1 + "mlp.down_proj.weight_scale", each_byte(lambda b: b + 1), "linear", L1 + "mlp.down_proj", WEIGHT, [FORMAT])
weights("scale for its reciprocal", "quant_nvfp4_compressed", L1 + "self_attn.v_proj.weight_global_scale", per_number(lambda x: 1 / x), "linear", L1 + "self_attn.v_proj", WEIGHT, [FORMAT])
weights("zero points one off", "quant_gptq", L1 + "mlp.up_proj.qzeros", each_byte(lambda b: (b + 1) % 16 | ((b >> 4) + 1) % 16 << 4), "linear", L1 + "mlp.up_proj", FORMAT, [WEIGHT])
weights("nibbles changed over", "gpt_oss_mxfp4", L1 + "mlp.experts.down_proj_blocks", each_byte(lambda b: b >> 4 | b << 4), "per_expert", L1 + "mlp.experts", FORMAT, [WEIGHT], place="layers.1.mlp")
weights("gate and up in halves, not interleaved", "gpt_oss", L1 + "mlp.experts.gate_up_proj", halves_of_last, "per_expert", L1 + "mlp.experts", WEIGHT, place="layers.1.mlp")
weights("sinks zeroed", "gpt_oss", L1 + "self_attn.sinks", zeros, "attend", L1 + "self_attn.attend", WEIGHT, [MASK], place="layers.1.self_attn")
weights("joined rows not head by head", "qwen3_next", L1 + "linear_attn.in_proj_qkvz.weight", heads_apart(2, 16), "linear", L1 + "linear_attn.in_proj_qkvz", WEIGHT)
weights("taps of the convolution backwards", "qwen3_next", L1 + "linear_attn.conv1d.weight", reverse_last, "conv1d", L1 + "linear_attn.conv1d", WEIGHT)
weights("rates converted twice", "mamba2", "backbone.layers.1.mixer.A_log", exponential, "map recur_gla", "backbone.layers.1.mixer.map#4 backbone.layers.1.mixer.map#3", WEIGHT, [FORMAT], place="layers.1.mixer")
weights("rows in another order", "jamba", L1 + "mamba.x_proj.weight", shift_rows, "linear", L1 + "mamba.x_proj", WEIGHT)
weights("bias lost", "jamba", L1 + "mamba.dt_proj.bias", zeros, "linear", L1 + "mamba.dt_proj", WEIGHT)
weights("bias lost", "glm4_dense", L1 + "self_attn.q_proj.bias", zeros, "linear", L1 + "self_attn.q_proj", WEIGHT)
weights("transposed", "lfm2", L1 + "conv.out_proj.weight", transpose, "linear", L1 + "conv.out_proj", WEIGHT)
weights("norm of another layer", "olmo2", L1 + "self_attn.q_norm.weight", of("model.layers.0.self_attn.q_norm.weight"), "rms_norm", L1 + "self_attn.q_norm", WEIGHT, [NORM])
weights("gate and up interleaved", "phi3", L1 + "mlp.gate_up_proj.weight", interleave, "linear", L1 + "mlp.gate_up_proj", WEIGHT)
weights("last quarter of a tensor zero", "minimax", L1 + "self_attn.out_proj.weight", zero_tail, "linear", L1 + "self_attn.out_proj", WEIGHT)
weights("experts one off", "hunyuan_moe", " ".join(f"{L1}mlp.experts.{e}.down_proj.weight" for e in range(6)), "next", "per_expert", L1 + "mlp.experts", WEIGHT, [ROUTING], place="layers.1.mlp")
weights("embedding one row off", "qwen3_moe", "model.embed_tokens.weight", shift_rows, "gather_rows", "embedding", WEIGHT)
weights("halves of the router changed over", "ernie4_5_moe", L1 + "mlp.gate.weight", swap_halves, "linear", L1 + "mlp.gate", WEIGHT, [ROUTING])

# ---- two at once: kind and model of each -----------------------------------------------------------------------------
PAIRS = [
    ("llama", "epsilon", "embedding for an untied head"),
    ("llama", "activation", "one key head for all"),
    ("deepseek_v3", "factor of stretched rope on the scores lost", "gates of two experts changed over"),
    ("deepseek_v3", "routing factor lost", "key and value rows not head by head"),
    ("gemma2", "cap of scores lost", "norm stored with its offset"),
    ("gemma2", "last norm without the offset", "scale of attention from the head's size"),
    ("qwen3_next", "offset on a norm that has none", "taps of the convolution backwards"),
    ("jamba", "weights of experts renormalised", "rows in another order"),
    ("granite", "embedding factor lost", "scale of attention from the head's size"),
    ("gpt_oss", "windowed and full layers changed over", "gate and up in halves, not interleaved"),
    ("lfm2", "gates before and after the convolution changed over", "transposed"),
    ("glm4_dense", "rope in halves, not interleaved", "bias lost"),
    ("phi3", "keys and values changed over in the joined matrix", "gate and up interleaved"),
    ("mamba2", "activation after the convolution left out", "rates converted twice"),
]

F32 = ["--backend", "cpu", "--compute", "f32", "--kv-dtype", "f32"]
HEALTHY = (
    [(path.name.removesuffix(".transformers"), True, ["--backend", "reference"]) for path in sorted(PACKS.glob("*.transformers"))]
    + [(m, False, F32) for m in "exaone4 gemma3 kimi_linear llama4 minimax_m2 nemotron_h olmo3 qwen3_5_moe".split()]
    + [(m, False, ["--backend", "cpu"]) for m in "deepseek_v3_fp8 glm4_moe gpt_oss_mxfp4 lfm2 mamba2 mixtral qwen2_window quant_gptq".split()]
    + [(m, False, ["--backend", "reference", "--chunk", "7"]) for m in "gemma2 jamba kimi_linear qwen3_next".split()]
    + [(m, False, [*F32, "--chunk", "5"]) for m in "llama4 lfm2 minimax phi3".split()]
    + [(m, False, ["--backend", "cpu", "--chunk", "1"]) for m in "llama gpt_oss".split()]
)  # fmt: skip


class BlindDrill(Drill):
    effect_only = False

    def put(self, faults):
        """Checks each edit, then the drill's own way, one edit after the other."""
        from fault_drill import Fault as Plain
        from fault_drill import read_tensors

        ORIGINAL.clear()
        ORIGINAL.update(read_tensors(DATA / faults[0].model / "model.safetensors"))
        parts = []
        for fault in faults:
            for i, edit in enumerate(fault.edits):
                name, change = edit[0], edit[-1]
                if fault.medium == "weights" and not callable(change):  # by the other's, or the next one's
                    change = swap_with(fault.edits[(i + 1) % len(fault.edits)][0])
                    edit = (name, change)
                parts.append(Plain(fault.kind, fault.model, fault.medium, edit, "", fault.cause, "", fault.allow if i == 0 else ()))
        return super().put(parts)

    def edit_spec(self, file, old, new):
        copy = self.folder / "architectures" / file
        text = (copy if copy.exists() else DATA.parents[2] / "architectures" / file).read_text()
        assert text.count(old) == 1, f"{file} has {old!r} {text.count(old)} times: the table is out of date"
        super().edit_spec(file, old, new)

    def names(self, model):
        command = [self.program, "baseline", "values", str(DATA / model), "--json"]
        return [tap["name"] for tap in json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["values"]]

    def judge(self, faults):
        """What locate finds, and what compare names first, with what it should."""
        vendor = any(fault.medium == "spec" for fault in faults)
        baseline = self.baseline(faults[0].model, vendor)
        model, flags = self.put(faults)
        flags = [*flags, "--backend", "reference"]
        compared = self.call("compare", baseline, "--model", model, *flags, *([] if vendor else ["--operators"]))
        found = {"findings": []} if self.effect_only else self.call("locate", baseline, "--model", model, *flags)
        first = compared["first_wrong"]["name"] if compared["first_wrong"] else ""
        order = self.names(faults[0].model)
        taps = {tap["name"] for tap in json.loads((baseline / "manifest.json").read_text())["taps"]}
        wanted = set()
        for fault in faults:
            for at in fault.at:
                wanted.add(next((name for name in order[order.index(at) :] if name in taps), "logits"))
            wanted.update(fault.later)
        return found["findings"], first, wanted, not compared["passed"]


def fits(fault, finding):
    where = f"{finding['scope']} {finding['value']} {finding['hypothesis']}"
    return finding["operator"] in fault.ops and fault.place in where


def find(kind, model):
    return next(f for f in FAULTS if f.kind == kind and f.model == model)


def draw(options):
    if options.only:
        return [[fault] for fault in FAULTS if options.only in str(fault)]
    pairs = [[find(a, model), find(b, model)] for model, a, b in PAIRS]
    if options.all:
        return [[fault] for fault in FAULTS] + pairs
    random_ = random.Random(options.seed)
    return [[f] for f in random_.sample(FAULTS, options.faults)] + random_.sample(pairs, options.pairs)


class Count:
    """Sums over all sets of faults."""

    def __init__(self):
        self.total = self.operator = self.cause = self.allowed = self.compared = self.sets = self.extra = self.silent = 0
        self.matrix, self.rows = collections.Counter(), []

    def add(self, faults, found, first, wanted, seen):
        self.sets += 1
        self.compared += first in wanted
        self.silent += not seen
        blamed = set()
        for fault in faults:
            hits = [i for i, finding in enumerate(found) if fits(fault, finding)]
            best = next((i for i in hits if found[i]["cause"] == fault.cause), hits[0] if hits else None)
            blamed.update(hits)
            named = found[best]["cause"] if best is not None else found[0]["cause"] if found else "nothing"
            allowed = named == fault.cause or named in fault.also
            self.total += 1
            self.operator += best is not None
            self.cause += named == fault.cause
            self.allowed += allowed
            self.matrix[fault.cause, named] += 1
            row = {
                "fault": str(fault), "two": len(faults) > 1, "truth": [fault.at[0], fault.ops, fault.cause, fault.also],
                "operator": best is not None, "cause": named == fault.cause, "allowed": allowed, "compare": [first, sorted(wanted)], "seen": seen,
                "found": [[f["operator"], f["value"], f["cause"], f["hypothesis"], f["guess"]] for f in found],
            }  # fmt: skip
            self.rows.append(row)
            if best is None or not allowed:
                print(f"MISS  {fault}{' (of two)' if len(faults) > 1 else ''}: truth {fault.at[0]} {fault.ops} [{fault.cause}]; found "
                      + ("; ".join(f"{f['operator']} {f['value']} [{f['cause']}] {f['hypothesis']}" for f in found)[:600] or "nothing"), flush=True)  # fmt: skip
        if first not in wanted:
            print(f"      compare names {first or 'nothing'}, wanted {sorted(wanted)}: {' and '.join(map(str, faults))}", flush=True)
        self.extra += len(found) - len(blamed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--healthy", type=int, default=6)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true", help="every fault, pair and healthy run there is")
    parser.add_argument("--effect", action="store_true", help="only whether the faults change anything: no locate")
    parser.add_argument("--json", help="file for what was found of each")
    options = parser.parse_args()
    count, alarms = Count(), 0
    with tempfile.TemporaryDirectory() as name:
        drill = BlindDrill(options.program, pathlib.Path(name))
        drill.effect_only = options.effect
        for faults in draw(options):
            try:
                found, first, wanted, seen = drill.judge(faults)
            except RuntimeError as error:
                print("ERROR", faults[0], error)
                found, first, wanted, seen = [], "", {"an error"}, True
            count.add(faults, found, first, wanted, seen)
        healthy = [] if options.only else HEALTHY if options.all else random.Random(options.seed).sample(HEALTHY, options.healthy)
        for model, vendor, flags in healthy:
            if not drill.healthy(model, vendor, flags):
                alarms += 1
                print("ALARM", model, *flags)
    report(count.matrix)
    n = count.total
    print(f"\n{n} faults of {len({row['fault'].split(' in the ')[0] for row in count.rows})} kinds, {count.sets} sets: operator {count.operator}/{n}, "
          f"kind {count.cause}/{n}, kind or one as good {count.allowed}/{n}, compare names the first wrong value {count.compared}/{count.sets}, "
          f"{count.extra} findings beside them, {count.silent} sets without effect; {alarms} alarms on {len(healthy)} healthy runs")  # fmt: skip
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(count.rows, indent=1))
    return int(count.silent > 0 or alarms > 0 or count.operator < LEAST_OPERATOR * n or count.allowed < LEAST_KIND * n)


if __name__ == "__main__":
    sys.exit(main())
