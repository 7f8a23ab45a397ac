#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fault drill: a seeded draw of faults put into specs, configs, weights and a backend of tiny golden checkpoints;
`baseline locate` has to name the operator and the kind of fault. Faults of specs are judged against recordings of
`transformers` (tests/golden/packs), the others against recordings of the clean model by the reference backend. Prints
every miss, the confusion matrix and the rates. Standard library only.

    fault_drill.py PROGRAM [--seed N] [--faults N] [--pairs N] [--healthy N] [--only KIND] [--all]
"""

import argparse
import collections
import json
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "golden" / "data"
PACKS = ROOT / "tests" / "golden" / "packs"
CONFIG, WEIGHT, ROPE = "config value wrong or missing", "weight or layout", "position or rope pairing"
MASK, NORM, ROUTING = "mask or window", "norm epsilon or offset", "routing"
STATE, WIDTH, KERNEL = "state handling", "accumulation order or width", "kernel defect on a shape"
WANTED_OPERATOR, WANTED_CAUSE, WANTED_ALONE = 0.95, 0.85, 0.90


class Fault:
    """One kind of fault in one model. `place` must be in the scope or value of the finding; `ops`: who may be blamed."""

    def __init__(self, kind, model, medium, edit, ops, cause, place="", allow=()):
        self.kind, self.model, self.medium, self.edit = kind, model, medium, edit
        self.ops, self.cause, self.place, self.allow = ops.split(), cause, place, list(allow)

    def __str__(self):
        return f"{self.kind} in the {self.medium} of {self.model}"


def spec(kind, models, file, old, new, ops, cause, place="", allow=()):
    return [Fault(kind, model, "spec", (file, old, new), ops, cause, place, allow) for model in models.split()]


def config(kind, model, key, value, ops, cause, place=""):
    return [Fault(kind, model, "config", (key, value), ops, cause, place)]


def weights(kind, model, name, change, ops="linear", cause=WEIGHT, place=None):
    place = name.removesuffix(".weight").rsplit(".", 1)[-1] if place is None else place
    return [Fault(kind, model, "weights", (name, change), ops, cause, place)]


def backend(kind, model, flags, ops, cause):
    return [Fault(kind, model, "backend", flags, ops, cause)]


# ---- tensors as lists of rows of bytes ------------------------------------------------------------------------------
class Tensor:
    def __init__(self, kind, shape, data):
        self.kind, self.shape, self.data = kind, shape, data

    @property
    def size(self):
        return {"F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "U8": 1, "I32": 4}[self.kind]

    def rows(self):
        count = self.shape[0]
        step = len(self.data) // count
        return [self.data[i * step : (i + 1) * step] for i in range(count)]

    def with_rows(self, rows):
        return Tensor(self.kind, self.shape, b"".join(rows))

    def numbers(self):
        if self.kind == "F32":
            return list(struct.unpack(f"<{len(self.data) // 4}f", self.data))
        return [struct.unpack("<f", b"\0\0" + self.data[i : i + 2])[0] for i in range(0, len(self.data), 2)]

    def with_numbers(self, numbers):
        if self.kind == "F32":
            return Tensor(self.kind, self.shape, struct.pack(f"<{len(numbers)}f", *numbers))
        return Tensor(self.kind, self.shape, b"".join(struct.pack("<f", x)[2:] for x in numbers))


def transpose(t, _):
    n, width = t.shape[0], t.size
    cells = [[row[i * width : (i + 1) * width] for i in range(n)] for row in t.rows()]
    return t.with_rows([b"".join(cells[j][i] for j in range(n)) for i in range(n)])


def swap_halves(t, _):
    rows = t.rows()
    return t.with_rows(rows[len(rows) // 2 :] + rows[: len(rows) // 2])


def permute_per_head(heads):
    def change(t, _):
        rows = t.rows()
        block = len(rows) // heads
        order = [b + i for b in range(0, len(rows), block) for i in [*range(0, block, 2), *range(1, block, 2)]]
        return t.with_rows([rows[i] for i in order])

    return change


def interleave(t, _):
    rows = t.rows()
    half = len(rows) // 2
    return t.with_rows([rows[i // 2 + (i % 2) * half] for i in range(len(rows))])


def of(other):
    return lambda t, tensors: Tensor(t.kind, t.shape, tensors[other].data)


def times(factor):
    return lambda t, _: t.with_numbers([x * factor for x in t.numbers()])


def plus(term):
    return lambda t, _: t.with_numbers([x + term for x in t.numbers()])


def shift_rows(t, _):
    rows = t.rows()
    return t.with_rows(rows[1:] + rows[:1])


def garbage(t, _):
    draw = random.Random(5)
    numbers = t.numbers()
    for i in range(len(numbers) // 8):
        numbers[i] = draw.gauss(0, 0.3)
    return t.with_numbers(numbers)


def read_tensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    head, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    names = {name: info for name, info in head.items() if name != "__metadata__"}
    return {n: Tensor(i["dtype"], i["shape"], body[slice(*i["data_offsets"])]) for n, i in names.items()}


def write_tensors(path, tensors):
    head, at = {}, 0
    for name, t in tensors.items():
        head[name] = {"dtype": t.kind, "shape": t.shape, "data_offsets": [at, at + len(t.data)]}
        at += len(t.data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t.data for t in tensors.values()))


def sampled_row(i, sampled, rows):
    return rows - 1 if sampled == 1 else i * (rows - 1) // (sampled - 1)


def thin(pack, projections, sampled, output):
    """The pack as the size limit would have made it of a large model: a smaller layout of sketches, and no row kept whole but
    routing decisions (docs/golden_pack.md)."""
    manifest = json.loads((pack / "manifest.json").read_text())
    tensors, layout, taps = read_tensors(pack / "tensors.safetensors"), manifest["layout"], manifest["taps"]
    had = layout["projections"]
    for p, prompt in enumerate(manifest["prompts"]):
        norms, sketch = tensors[f"p{p}.norms"].data, tensors[f"p{p}.sketch"].data
        counts = struct.unpack(f"<{len(taps)}i", tensors[f"p{p}.num_kept"].data)
        ids, rows = tensors[f"p{p}.row_ids"].data, tensors[f"p{p}.rows"].data
        out = {"norms": b"", "sketch": b"", "num_kept": b"", "row_ids": b"", "rows": b""}
        at = id_at = row_at = 0
        for tap, kept in zip(taps, counts):
            rate = tap.get("rate", 1)
            n = len(prompt["tokens"]) // rate
            before, after = min(layout["sampled_rows"], n), min(sampled, n)
            places = [sampled_row(i, before, n) for i in range(before)]
            for i in range(after):
                at_row = at + places.index(sampled_row(i, after, n))
                out["norms"] += norms[4 * at_row : 4 * at_row + 4]
                out["sketch"] += sketch[4 * at_row * had : 4 * (at_row * had + projections)]
            at += before
            whole = tap.get("integer", False)
            out["num_kept"] += struct.pack("<i", kept if whole else 0)
            if whole:
                out["row_ids"] += ids[4 * id_at : 4 * (id_at + kept)]
                out["rows"] += rows[4 * row_at : 4 * (row_at + kept * tap["width"])]
            id_at, row_at = id_at + kept, row_at + kept * tap["width"]
        logits = next((len(prompt["tokens"]) // tap.get("rate", 1) for tap in taps if tap["name"] == "logits"), 0)
        before, after = min(layout["sampled_rows"], logits), min(sampled, logits)
        places = [sampled_row(i, before, logits) for i in range(before)]
        for name, width in [("top_ids", 16), ("top_logits", 16), ("log_sum_exp", 1)]:
            data = tensors[f"p{p}.{name}"].data
            keep = [places.index(sampled_row(i, after, logits)) for i in range(after)]
            out[name] = b"".join(data[4 * width * i : 4 * width * (i + 1)] for i in keep)
        for name, data in out.items():
            kind = tensors[f"p{p}.{name}"].kind
            tensors[f"p{p}.{name}"] = Tensor(kind, [len(data) // 4], data)
    manifest["layout"] = {**layout, "projections": projections, "sampled_rows": sampled}
    output.mkdir(exist_ok=True)
    (output / "manifest.json").write_text(json.dumps(manifest))
    write_tensors(output / "tensors.safetensors", tensors)


# ---- the faults -----------------------------------------------------------------------------------------------------
EVERY = "llama qwen3_moe gemma2 gpt_oss deepseek_v3 granite glm4_moe"
SINKS = [f"model.layers.{i}.self_attn.sinks" for i in range(3)]
ATTENTION, NORMS, MOE, ROPES = "std/attention.lua", "std/norm.lua", "std/moe.lua", "std/rope.lua"
L0, L1 = "model.layers.0.", "model.layers.1."

FAULTS = [
    # specs, against recordings of transformers
    *spec("wrong epsilon", EVERY, NORMS, "eps = eps or p.eps, offset", "eps = 1e-6, offset", "rms_norm", NORM, "norm", ["rms_norm_eps"]),
    *spec("wrong epsilon", "llama gpt_oss", NORMS, "eps = eps or p.eps, offset", "eps = 1e-5, offset", "rms_norm", NORM, "norm", ["rms_norm_eps"]),
    *spec("1 + w against w", "gemma2", "gemma2.lua", "p.norm_offset, p.tied = 1.0,", "p.norm_offset, p.tied = 0.0,", "rms_norm", NORM),
    *spec("1 + w against w", "llama glm4_moe", NORMS, "p.norm_offset or 0.0", "1.0", "rms_norm", NORM),
    *spec("rope interleaved", "llama qwen3_moe gemma2 glm4_moe granite", ROPES, 'options.style or "half"', '"interleaved"', "rope", ROPE),
    *spec("rope half", "deepseek_v3", ROPES, 'options.style or "half"', '"half"', "rope", ROPE, "", ["rope_interleave"]),
    *spec("YaRN factor lost", "gpt_oss", ROPES, "scale = t.scale or 1.0", "scale = 1.0", "rope", ROPE),
    *spec("YaRN frequencies lost", "gpt_oss deepseek_v3", ROPES, "t.freqs[i] = f / factor * ramp + f * (1 - ramp)", "t.freqs[i] = f", "rope", ROPE,
          "", ["rope_parameters.beta_fast", "rope_parameters.beta_slow", "rope_parameters.truncate"]),
    *spec("no rotation", "llama granite qwen3_moe", ATTENTION, "if rope_of then y =", "if rope_of and norm_name == 0 then y =", "rope attend", ROPE, "",
          ["rope_parameters.rope_theta", "rope_parameters.rope_type", "rope_theta"]),
    *spec("window - 1", "gemma2 gpt_oss", ATTENTION, "window = p.window and p.window(layer) or 0",
          "window = p.window and math.max(p.window(layer) - 1, 0) or 0", "attend", MASK),
    *spec("window ignored", "gpt_oss gemma2", "std/attention.lua", "window = p.window and p.window(layer) or 0", "window = 0", "attend", MASK),
    *spec("not causal", "llama granite", ATTENTION, "score = p.score,", "score = p.score, causal = false,", "attend", MASK),
    *spec("sinks ignored", "gpt_oss", ATTENTION, 'sinks = p.sinks and w(', 'sinks = p.sinks == 0 and w(', "attend", MASK, "", SINKS),
    *spec("soft cap ignored", "gemma2", ATTENTION, "score = p.score,", "score = nil,", "attend", CONFIG, "", ["attn_logit_softcapping"]),
    *spec("soft cap of logits ignored", "gemma2", "std/head.lua", "if not cap then", "if true then", "linear map", CONFIG, "", ["final_logit_softcapping"]),
    *spec("attention scale of the width", "gemma2", "gemma2.lua", 'c:number "query_pre_attn_scalar" ^ -0.5', "p.head_dim ^ -0.5", "attend", CONFIG, "",
          ["query_pre_attn_scalar"]),
    *spec("attention scale of the width", "granite", "granite.lua", 'c:number("attention_multiplier", 1.0)', "p.head_dim ^ -0.5", "attend", CONFIG, "",
          ["attention_multiplier"]),
    *spec("embedding scale lost", "gemma2", "gemma2.lua", " * std.embedding.factor(embedding, math.sqrt(p.hidden))", "", "gather_rows map", CONFIG),
    *spec("embedding scale twice", "gemma2", "gemma2.lua", "math.sqrt(p.hidden))", "p.hidden)", "gather_rows map", CONFIG),
    *spec("residual factor lost", "granite", "granite.lua", "x = x + h * p.residual_factor\n      h =", "x = x + h\n      h =", "map", CONFIG, "layers"),
    *spec("logit scale lost", "granite", "granite.lua", " / p.logit_divisor }", " }", "map linear", CONFIG, "", ["logits_scaling"]),
    *spec("dropped clamp", "gpt_oss", "std/mlp.lua", "(max(min(u, limit), -limit) + 1)", "(u + 1)", "map per_expert", CONFIG, "mlp"),
    *spec("dropped clamp", "gpt_oss", "std/mlp.lua", "g = min(g, limit)", "", "map per_expert", CONFIG, "mlp"),
    *spec("dropped constant", "gpt_oss", "std/mlp.lua", "(max(min(u, limit), -limit) + 1)", "max(min(u, limit), -limit)", "map per_expert", CONFIG, "mlp"),
    *spec("another activation", "llama granite deepseek_v3 glm4_moe", "std/activation.lua", "return x * sigmoid(x)", "return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))",
          "map per_expert", CONFIG, "mlp"),
    *spec("gate and up swapped in the formula", "llama granite gemma2", "std/mlp.lua", "act(g) * u end", "act(u) * g end", "map", WEIGHT, "mlp"),
    *spec("routing scale twice", "deepseek_v3 glm4_moe", MOE, "weight * p.route_scale or", "weight * p.route_scale * p.route_scale or", "map", ROUTING, "mlp"),
    *spec("routing scale lost", "deepseek_v3 glm4_moe", MOE, "p.route_scale and weight * p.route_scale or weight", "weight", "map gather_last per_expert", ROUTING, "mlp",
          ["routed_scaling_factor"]),
    *spec("weights not normalised", "qwen3_moe", MOE, 'if p.norm_topk then weight = weight / reduce(weight, { op = "sum" }) end', "",
          "top_k map per_expert", ROUTING, "mlp", ["norm_topk_prob"]),
    *spec("weights not normalised", "deepseek_v3 glm4_moe", MOE, 'if p.norm_topk then weight = weight / (reduce(weight, { op = "sum" }) + 1e-20) end', "",
          "gather_last map per_expert", ROUTING, "mlp", ["norm_topk_prob"]),
    *spec("softmax for sigmoid", "deepseek_v3 glm4_moe", MOE, "map(p.route_score or sigmoid, linear(", "softmax(linear(", "softmax map top_k", ROUTING, "mlp"),
    *spec("sigmoid for softmax", "qwen3_moe", MOE, "local scores = softmax(linear(", "local scores = sigmoid(linear(", "softmax map top_k", ROUTING, "mlp"),
    *spec("correction bias in the weights", "deepseek_v3 glm4_moe", MOE, "return idx, weights_of(scores, idx, p)", "return idx, weights_of(choice, idx, p)",
          "gather_last", ROUTING, "mlp"),
    # configs, against the clean model
    *config("wrong epsilon", "olmo2", "rms_norm_eps", 1e-5, "rms_norm", NORM),
    *config("wrong epsilon", "minimax_m2", "rms_norm_eps", 1e-6, "rms_norm", NORM),
    *config("wrong base", "qwen3_moe", "rope_parameters.rope_theta", 10000.0, "rope", ROPE),
    *config("wrong base", "olmo2", "rope_parameters.rope_theta", 10000.0, "rope", ROPE),
    *config("wrong base", "llama_bias", "rope_parameters.rope_theta", 10000.0, "rope", ROPE),
    *config("window + 1", "gpt_oss", "sliding_window", 9, "attend", MASK),
    *config("window + 1", "exaone4", "sliding_window", 9, "attend", MASK),
    *config("window - 1", "phi3", "sliding_window", 7, "attend", MASK),
    *config("wrong clamp", "gpt_oss", "swiglu_limit", 7.0, "map per_expert", CONFIG),
    *config("wrong routing scale", "glm4_moe", "routed_scaling_factor", 1.0, "map", ROUTING),
    *config("wrong soft cap", "gemma2", "attn_logit_softcapping", 50.0, "attend", CONFIG),
    *config("wrong soft cap", "gemma2", "final_logit_softcapping", 30.0, "map linear", CONFIG),
    *config("wrong multiplier", "granite", "embedding_multiplier", 12.0, "map gather_rows", CONFIG),
    *config("wrong multiplier", "granite", "residual_multiplier", 1.0, "map", CONFIG),
    *config("wrong multiplier", "granitemoe", "attention_multiplier", 0.35355, "attend", CONFIG),
    *config("weights not normalised", "qwen3_moe", "norm_topk_prob", False, "top_k map per_expert", ROUTING),
    *config("wrong scaling factor", "llama_llama3", "rope_parameters.factor", 32.0, "rope", ROPE),
    *config("wrong scaling factor", "llama_yarn", "rope_parameters.factor", 16.0, "rope", ROPE),
    *config("partial rotation", "glm4_moe", "rope_parameters.partial_rotary_factor", 1.0, "rope", ROPE),
    *config("partial rotation", "minimax_m2", "rope_parameters.partial_rotary_factor", 1.0, "rope", ROPE),
    # weights, against the clean files
    *weights("transposed", "llama", L0 + "self_attn.q_proj.weight", transpose),
    *weights("transposed", "olmo2", L1 + "self_attn.o_proj.weight", transpose),
    *weights("halves swapped", "phi3", L1 + "mlp.gate_up_proj.weight", swap_halves),
    *weights("halves swapped", "glm4_moe", L0 + "mlp.gate_proj.weight", swap_halves),
    *weights("gate and up exchanged", "llama", L1 + "mlp.gate_proj.weight", of(L1 + "mlp.up_proj.weight")),
    *weights("gate and up exchanged", "qwen3_moe", L1 + "mlp.up_proj.weight", of(L1 + "mlp.gate_proj.weight")),
    *weights("rows per head permuted", "llama", L0 + "self_attn.k_proj.weight", permute_per_head(2)),
    *weights("rows per head permuted", "qwen3_moe", L1 + "self_attn.q_proj.weight", permute_per_head(4)),
    *weights("gate and up interleaved", "phi3", L0 + "mlp.gate_up_proj.weight", interleave),
    *weights("of another layer", "olmo2", L1 + "mlp.down_proj.weight", of(L0 + "mlp.down_proj.weight")),
    *weights("of another layer", "glm4_moe", L1 + "self_attn.v_proj.weight", of("model.layers.2.self_attn.v_proj.weight")),
    *weights("KV heads swapped", "granite", L0 + "self_attn.k_proj.weight", swap_halves),
    *weights("KV heads swapped", "llama_bias", L1 + "self_attn.v_proj.weight", swap_halves),
    *weights("wrong scale", "minimax_m2", L0 + "self_attn.o_proj.weight", times(2)),
    *weights("wrong scale", "gpt_oss", L1 + "self_attn.q_proj.weight", times(0.5)),
    *weights("scales moved by a block", "deepseek_v3_fp8", L0 + "mlp.down_proj.weight_scale_inv", shift_rows, "linear dequantize", WEIGHT, "mlp"),
    *weights("norm stored as w - 1", "qwen3_moe", L1 + "input_layernorm.weight", plus(-1), "rms_norm", NORM),
    *weights("norm stored as w - 1", "llama", L0 + "post_attention_layernorm.weight", plus(-1), "rms_norm", NORM),
    *weights("bias lost", "llama_bias", L0 + "self_attn.q_proj.bias", times(0), "linear", WEIGHT, "q_proj"),
    *weights("bias lost", "gpt_oss", L1 + "mlp.router.bias", times(0), "linear", WEIGHT, "router"),
    *weights("rows damaged", "olmo2", L0 + "self_attn.v_proj.weight", garbage),
    *weights("rows damaged", "granite", L1 + "mlp.up_proj.weight", garbage),
    *weights("sinks lost", "gpt_oss", L0 + "self_attn.sinks", times(0), "attend", WEIGHT, "self_attn"),
    *weights("rows moved by one", "qwen3_next", L0 + "linear_attn.out_proj.weight", shift_rows),
    *weights("experts exchanged", "qwen3_moe", L0 + "mlp.experts.1.down_proj.weight", of(L0 + "mlp.experts.2.down_proj.weight"), "per_expert", WEIGHT, "experts"),
    *weights("decay negated", "qwen3_next", L0 + "linear_attn.A_log", times(-1), "map", WEIGHT, "linear_attn"),
    # a backend, against the reference; its own rounding counts
    *backend("products in bfloat16", "llama", ["--compute", "bf16", "--kv-dtype", "f32", "--exact"], "linear", WIDTH),
    *backend("products in bfloat16", "jamba", ["--compute", "bf16", "--kv-dtype", "f32", "--exact"], "linear", WIDTH),
    *backend("state in bfloat16", "granite", ["--compute", "f32", "--kv-dtype", "bf16", "--exact"], "attend", STATE),
    *backend("state in half precision", "qwen3_moe", ["--compute", "f32", "--kv-dtype", "f16", "--exact"], "attend", STATE),
]  # fmt: skip


class Drill:
    def __init__(self, program, folder, layout=None, locate_alone=False):
        self.program, self.folder, self.baselines = program, folder, {}
        self.layout, self.locate_alone, self.alone = layout, locate_alone, None

    def call(self, *words):
        command = [self.program, "baseline", *map(str, words), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode not in (0, 1) or not done.stdout:
            raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
        return json.loads(done.stdout)

    def baseline(self, model, vendor):
        if vendor:
            return PACKS / f"{model}.transformers"
        if model not in self.baselines:
            prompt = json.loads((DATA / model / "golden.json").read_text())["prompt"]
            pack = self.folder / f"{model}.pack"
            self.call("record", DATA / model, "--tokens", ",".join(map(str, prompt)), "--operators", "-o", pack)
            self.baselines[model] = pack
        return self.baselines[model]

    def thinned(self, model, vendor):
        pack = self.folder / f"{model}.{vendor}.thin"
        if not pack.exists():
            thin(self.baseline(model, vendor), *self.layout, pack)
        return pack

    def first_wrong(self, pack, model, flags):
        found = self.call("compare", pack, "--model", model, *flags)["first_wrong"]
        return found["name"] if found else None

    def put(self, faults):
        """The model with its faults, and the flags that go with them."""
        model, flags, allow = DATA / faults[0].model, [], []
        changed = self.folder / "model"
        shutil.rmtree(changed, ignore_errors=True)
        shutil.rmtree(self.folder / "architectures", ignore_errors=True)
        for fault in faults:
            allow += fault.allow
            if fault.medium == "backend":
                flags += fault.edit
                continue
            if fault.medium == "spec":
                self.edit_spec(*fault.edit)
                flags += [] if "--architectures" in flags else ["--architectures", self.folder / "architectures"]
                continue
            if not changed.exists():
                shutil.copytree(model, changed)
            if fault.medium == "config":
                self.edit_config(changed / "config.json", *fault.edit)
            else:
                tensors = read_tensors(changed / "model.safetensors")
                name, change = fault.edit
                tensors[name] = change(tensors[name], tensors)
                write_tensors(changed / "model.safetensors", tensors)
        for key in allow:
            flags += ["--allow-unbound", key]
        return (changed if changed.exists() else model), flags

    def edit_spec(self, file, old, new):
        copy = self.folder / "architectures"
        if not copy.exists():
            shutil.copytree(ROOT / "architectures", copy)
        text = (copy / file).read_text()
        assert old in text, f"{file} has no {old!r}: the drill is out of date"
        (copy / file).write_text(text.replace(old, new))

    @staticmethod
    def edit_config(path, key, value):
        whole = config = json.loads(path.read_text())
        *places, last = key.split(".")
        for place in places:
            config = config[place]
        assert last in config and config[last] != value, f"{key} in {path}"
        config[last] = value
        path.write_text(json.dumps(whole))

    def locate(self, faults):
        model, flags = self.put(faults)
        vendor = faults[0].medium == "spec"
        if "--kv-dtype" not in flags:
            flags += ["--backend", "reference"]
        else:
            flags += ["--backend", "cpu"]
        baseline, self.alone = self.baseline(faults[0].model, vendor), None
        if faults[0].medium != "backend" and self.layout:
            few = self.thinned(faults[0].model, vendor)
            self.alone = self.first_wrong(few, model, flags), self.first_wrong(baseline, model, flags)
            baseline = few if self.locate_alone else baseline
        return self.call("locate", baseline, "--model", model, *flags)

    def healthy(self, model, vendor, flags):
        found = self.call("locate", self.baseline(model, vendor), "--model", DATA / model, *flags)
        return found["passed"] and not found["findings"]


def fits(fault, finding):
    where = f"{finding['scope']} {finding['value']} {finding['hypothesis']}"
    return finding["operator"] in fault.ops and fault.place in where


def draw(options):
    faults = [fault for fault in FAULTS if not options.only or options.only in str(fault)]
    if options.all or options.only:
        return [[fault] for fault in faults]
    random_ = random.Random(options.seed)
    kinds = collections.defaultdict(list)
    for fault in faults:
        kinds[fault.kind].append(fault)
    drawn = [random_.choice(of_kind) for of_kind in kinds.values()]  # each kind once, then any
    rest = [fault for fault in faults if fault not in drawn]
    random_.shuffle(rest)
    drawn = (drawn + rest)[: max(options.faults, len(kinds))]
    sets = [[fault] for fault in drawn]
    while len(sets) < len(drawn) + options.pairs:
        pair = random_.sample(faults, 2)
        same = pair[0].model == pair[1].model and pair[0].kind != pair[1].kind and "backend" not in {p.medium for p in pair}
        if same and (pair[0].medium == "spec") == (pair[1].medium == "spec") and pair[0].edit[:2] != pair[1].edit[:2]:
            sets.append(pair)
    return sets


HEALTHY = [(m, True, ["--backend", "reference"]) for m in EVERY.split()] + [
    (m, False, ["--backend", "cpu", *flags])
    for flags in (["--compute", "f32", "--kv-dtype", "f32"], [])
    for m in ["llama", "gemma2", "deepseek_v3", "qwen3_next", "gpt_oss", "jamba", "phi3"]
]  # fmt: skip


def report(matrix):
    causes = sorted({a for a, _ in matrix} | {b for _, b in matrix})
    print("\ntrue kind (rows) against named kind (columns)")
    print(" " * 32 + "".join(f"{i:5d}" for i in range(len(causes))))
    for i, cause in enumerate(causes):
        print(f"{i:2d} {cause:29.29}" + "".join(f"{matrix.get((cause, other), 0) or '.':>5}" for other in causes))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--healthy", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true", help="every fault there is")
    parser.add_argument("--alone", default="8,8", help="projections and rows of packs without whole rows")
    parser.add_argument("--locate-alone", action="store_true", help="locate too sees no more than these")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        drill = Drill(options.program, pathlib.Path(name), [int(n) for n in options.alone.split(",")], options.locate_alone)
        sets = draw(options)
        total = right_operator = right_cause = extra = seen_alone = asked_alone = 0
        matrix, kinds, models = collections.Counter(), set(), set()
        for faults in sets:
            try:
                found, alone = drill.locate(faults)["findings"], drill.alone
            except RuntimeError as error:
                found, alone = [], None
                print("ERROR", error)
            if alone:
                asked_alone += 1
                seen_alone += alone[0] == alone[1] is not None
                if alone[0] != alone[1]:
                    print(f"ALONE {faults[0]}: first wrong is {alone[0]}, with all rows {alone[1]}")
            blamed = set()
            for fault in faults:
                total += 1
                kinds.add(fault.kind)
                models.add(fault.model)
                hits = [i for i, finding in enumerate(found) if fits(fault, finding)]
                best = next((i for i in hits if found[i]["cause"] == fault.cause), hits[0] if hits else None)
                blamed.update(hits)
                right_operator += best is not None
                named = found[best]["cause"] if best is not None else found[0]["cause"] if found else "nothing"
                right_cause += named == fault.cause
                matrix[fault.cause, named] += 1
                if best is None or named != fault.cause or options.only:
                    others = "; ".join(f"{f['operator']} {f['value']} [{f['cause']}] {f['hypothesis']} guess={f['guess']}" for f in found)
                    print(f"{'MISS' if best is None or named != fault.cause else 'ok'}  {fault}"
                          f"{' (of two)' if len(faults) > 1 else ''}: {others[:700] or 'nothing found'}")  # fmt: skip
            extra += len(found) - len(blamed)
        alarms = 0
        for model, vendor, flags in [] if options.only else HEALTHY[: options.healthy]:
            if not drill.healthy(model, vendor, flags):
                alarms += 1
                print("ALARM", model, *flags)
        report(matrix)
        pairs = sum(len(faults) > 1 for faults in sets)
        print(f"\n{total} faults of {len(kinds)} kinds in {len(models)} checkpoints, {pairs} times two at once: "
              f"operator {right_operator}/{total}, kind {right_cause}/{total}, {extra} findings beside them; "
              f"{alarms} alarms on healthy runs")  # fmt: skip
        print(f"from the pack alone ({options.alone.replace(',', ' projections of ')} rows, none kept): the same first wrong "
              f"value {seen_alone}/{asked_alone}")
        return int(seen_alone < WANTED_ALONE * asked_alone or right_operator < WANTED_OPERATOR * total or right_cause < WANTED_CAUSE * total or alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
