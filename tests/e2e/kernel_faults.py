#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults of kernels, of passes and of the runtime: a small edit of a copy of one source, compiled as the build compiles
it and linked into a faulty program before the archives, whose own objects are then not taken. The faulty program runs
`baseline locate` on a healthy model, against a recording that the healthy program made on the reference backend; the
healthy program with the same flags must find nothing. Written without sight of how `locate` looks for faults, the truth
about each put down first. An edit that matches not exactly once fails: the table is then out of date. Needs a build
folder of Ninja beside the program (77 where there is none). Standard library only.

    kernel_faults.py PROGRAM [--seed N] [--faults N] [--only TEXT] [--all] [--json FILE]
"""

import argparse
import json
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import tempfile

from fault_drill import DATA, ROOT, report
from faults_blind import CONFIG, FORMAT, KERNEL, MASK, NORM, ROPE, ROUTING, STATE, WEIGHT, WIDTH, Count  # noqa: F401

ISA = "avx512" if "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text() else "avx2"
F32 = ["--backend", "cpu", "--compute", "f32", "--kv-dtype", "f32"]
LEAST_OPERATOR, LEAST_KIND = 0.75, 0.5  # of the faults; an answer that is no worse counts as the kind
TEXTS = "build:src/kernels/dialect_library_texts.cc"


class KernelFault:
    """`edits`: (file, old, new), files under src, or of the build folder behind "build:"; `units`: what is compiled, {isa}
    filled in. `tokens`: of the prompt; `layers`: the recording has results of layers alone; `prompts`: how many."""

    def __init__(self, kind, edits, units, model, ops, at, cause, also=(), flags=(), base=None, tokens=36, layers=False, prompts=1, place=None):
        self.kind, self.edits, self.units, self.model = kind, edits, [u.format(isa=ISA) for u in units.split()], model
        self.ops, self.at, self.cause, self.also = ops.split(), at.split(), cause, list(also)
        self.flags, self.tokens, self.layers, self.prompts = [*(F32 if base is None else base), *flags], tokens, layers, prompts
        self.place = place if place is not None else self.at[0].rsplit(".", 1)[0] if self.at[0].count(".") > 2 else self.at[0]

    def __str__(self):
        return f"{self.kind} ({' '.join(self.units)}, {self.model})"


ROWS, ATTEND, PRODUCTS, RECURRENCE = (
    "kernels/common/cpu/row_ops_{isa}.cc", "kernels/attend/form_{isa}.cc", "kernels/linear/form_{isa}.cc", "kernels/recurrence/form_{isa}.cc",
)  # fmt: skip
L0 = "model.layers.0."
BF16 = "from_bits(and_i(bits_f(sum[t][g]), set_i(static_cast<int32_t>(0xffff0000u))))"
CUT = """
    for (int64_t i = 0; i < n.key * n.value; ++i) {
      uint32_t bits;
      std::memcpy(&bits, stored + i, 4);
      bits &= 0xffff0000u;
      std::memcpy(stored + i, &bits, 4);
    }"""

FAULTS = [
    KernelFault("weight of the norm ignored in the tail of a row",
                [("kernels/common/cpu/row_functions.h", "out[i] = x[i] * r * (weight[i] + shift);", "out[i] = x[i] * r * (1.0f + shift);")],
                ROWS, "smollm2", "rms_norm", L0 + "input_layernorm", KERNEL, [NORM, WEIGHT]),
    KernelFault("tail of a row left out of softmax's sum",
                [("kernels/common/cpu/row_functions.h", "      sum += static_cast<double>(out[k]);\n", "")],
                ROWS, "qwen3_next", "softmax", L0 + "mlp.softmax", KERNEL, [ROUTING]),
    KernelFault("running softmax that keeps the last block of keys alone",
                [("kernels/attend/tiles.h", "sums = sums * kept + __builtin_convertvector(block, Doubles) * factor;",
                  "sums = sums * (kept * 0) + __builtin_convertvector(block, Doubles) * factor;")],
                ATTEND, "llama", "attend", L0 + "self_attn.attend", KERNEL, tokens=120),
    KernelFault("window one wider in the kernel",
                [("kernels/attend/task.cc", "std::clamp<int64_t>(range.begin - block.first, 0, block.count);", "std::clamp<int64_t>(range.begin - 1 - block.first, 0, block.count);")],
                "kernels/attend/task.cc", "gemma2", "attend", L0 + "self_attn.attend", MASK, [KERNEL]),
    KernelFault("rows behind a page's end read from the page before",
                [("kernels/attend/task.cc", "const std::byte* data = state_row(*source.state, component, item.sequence, at, item.kv_head);",
                  "const std::byte* data = state_row(*source.state, component, item.sequence, at >= page_rows ? at - page_rows : at, item.kv_head);")],
                "kernels/attend/task.cc", "llama", "attend", L0 + "self_attn.attend", STATE, [KERNEL], tokens=200),
    KernelFault("sums of products kept in bfloat16",
                [("kernels/linear/tile_panels.h", "store_f(sums + t * stride + g * kLanes, sum[t][g]);", f"store_f(sums + t * stride + g * kLanes, {BF16});")],
                PRODUCTS, "llama", "linear", L0 + "self_attn.q_proj", WIDTH, place="layers.0"),
    KernelFault("last column left out of products",
                [("kernels/linear/tile_panels.h", "multiply_chunk<Weights::kF32>(set, chunk, later, panels, start, count, sums);",
                  "multiply_chunk<Weights::kF32>(set, chunk, later, panels, start, count - (left <= step ? 1 : 0), sums);")],
                PRODUCTS, "jamba", "linear", L0 + "self_attn.q_proj", KERNEL, place="layers.0"),
    KernelFault("last column left out for a single token and many rows",
                [("kernels/linear/tile_panels.h", "multiply_panel<4, 1, kKind>(w, 0, x, count, at, stride, fresh);", "multiply_panel<4, 1, kKind>(w, 0, x, count - 1, at, stride, fresh);")],
                PRODUCTS, "llama", "linear", "logits " + L0 + "self_attn.q_proj", KERNEL, [STATE], flags=["--chunk", "1", "--threads", "1"], place=""),
    KernelFault("state of the convolution one token late",
                [("kernels/conv1d/options.h", "const int64_t from = r + num_tokens;", "const int64_t from = r + num_tokens - 1;")],
                "kernels/conv1d/cpu.cc", "lfm2", "conv1d", L0 + "conv.conv", STATE, [KERNEL], flags=["--chunk", "7"]),
    KernelFault("state kept in bfloat16",
                [("kernels/recurrence/matrix.cc", "if (copy > 0) copy_rows(scratch, columns, stored, n.value, n.key, n.value);",
                  "if (copy > 0) copy_rows(scratch, columns, stored, n.value, n.key, n.value);" + CUT)],
                "kernels/recurrence/matrix.cc", "mamba2", "recur_gla", "backbone.layers.0.mixer.recur_gla", STATE, [WIDTH, FORMAT], flags=["--chunk", "3"]),
    KernelFault("first decay of a chunk forgotten",
                [("kernels/recurrence/matrix_tiles.h", "scale_row(m.decay_of_all, m.factors[s], m.kp, m.decay_of_all);",
                  "if (s > 0) scale_row(m.decay_of_all, m.factors[s], m.kp, m.decay_of_all);")],
                RECURRENCE, "qwen3_next", "recur_delta", " ".join(f"model.layers.{i}.linear_attn.recur_delta" for i in range(3)), STATE, [KERNEL], tokens=70, place="linear_attn"),
    KernelFault("state of the last channel not kept",
                [("kernels/recurrence/channel_tiles.h", "for (int64_t c = 0; c < block.channels; ++c) {\n    for (int64_t n = 0; n < block.states; ++n) block.state",
                  "for (int64_t c = 0; c + 1 < block.channels; ++c) {\n    for (int64_t n = 0; n < block.states; ++n) block.state")],
                RECURRENCE, "jamba", "recur_selective", "model.layers.1.mamba.recur_selective", STATE, [KERNEL], flags=["--chunk", "7"]),
    KernelFault("tail of a cached row in the other 16-bit type",
                [("kernels/append/store_row.h", "const uint16_t bits = tensor::f32_to_f16(from[i]);", "const uint16_t bits = tensor::f32_to_bf16(from[i]);")],
                "kernels/append/cpu.cc kernels/rope_append/cpu.cc", "gemma2", "attend append rope_append", L0 + "self_attn.attend", FORMAT, [KERNEL, STATE],
                base=["--backend", "cpu", "--compute", "f32", "--kv-dtype", "f16"]),
    KernelFault("number that is spread over a row in its first lane alone",
                [("kernels/map/cpu.cc", "std::fill(copy + taken, copy + padded, stride == 0 ? copy[0] : 0.0f);", "std::fill(copy + taken, copy + padded, 0.0f);")],
                "kernels/map/cpu.cc", "mamba2", "map", "backbone.layers.0.mixer.map#3", KERNEL),
    KernelFault("rope counts from the start of the chunk",
                [("kernels/rope/cpu.cc", "call.inputs[1].as<const int32_t>()[t]);", "static_cast<int32_t>(t));")],
                "kernels/rope/cpu.cc", "llama", "rope", L0 + "self_attn.rope", ROPE, [STATE, KERNEL], flags=["--chunk", "7"]),
    KernelFault("last head of a batched product by the weights of the one before",
                [("kernels/linear/batched_linear.cc", "w.as<const std::byte>() + head * head_bytes,", "w.as<const std::byte>() + std::min(head, heads - 2) * head_bytes,")],
                "kernels/linear/batched_linear.cc", "deepseek_v3", "batched_linear", L0 + "self_attn.batched_linear", KERNEL, [WEIGHT]),
    KernelFault("last token left out of the experts' sums",
                [("runtime/run.cc", "if (row.token >= mine.begin && row.token < mine.end) {", "if (row.token >= mine.begin && row.token < mine.end && row.token + 1 < output.num_rows()) {")],
                "runtime/run.cc", "mixtral", "per_expert", L0 + "block_sparse_moe.experts", KERNEL, [ROUTING]),
    KernelFault("second and third of three products changed over by a pass",
                [("compiler/passes/merge_sibling_linears.cc", "graph_.node(members[i]).results[0], graph_.node(made).results[i]);",
                  "graph_.node(members[i]).results[0], graph_.node(made).results[members.size() == 3 && i > 0 ? 3 - i : i]);")],
                "compiler/passes/merge_sibling_linears.cc", "llama", "linear", L0 + "self_attn.k_proj", KERNEL, [WEIGHT]),
    KernelFault("norm fused into a product without its offset",
                [("compiler/passes/fuse_norms.cc", 'fused.norm_offset = norm.attributes.get_float("offset");', "fused.norm_offset = 0.0;")],
                "compiler/passes/fuse_norms.cc", "gemma2", "rms_norm linear fused_linear", L0 + "pre_feedforward_layernorm " + L0 + "input_layernorm", NORM, [KERNEL],
                layers=True, place="layers.0"),
    KernelFault("memory given to a result while an operand is still read",
                [("compiler/liveness.h", "return begin <= other.end && other.begin <= end;", "return begin < other.end && other.begin < end;")],
                "compiler/assign_arena.cc", "llama", "linear fused_linear attend map rope rms_norm fused_rows rope_append", "model.layers.0", KERNEL, [WIDTH, WEIGHT],
                layers=True, place="layers.0"),
    KernelFault("bias added twice before the epilogue of a product",
                [("kernels/linear/matmul.cc", "if (job_.weights[i].bias != nullptr) add_bias(job_.weights[i], tile, count, tokens, sums_[i]);",
                  "if (job_.weights[i].bias != nullptr) {\n        add_bias(job_.weights[i], tile, count, tokens, sums_[i]);\n"
                  "        add_bias(job_.weights[i], tile, count, tokens, sums_[i]);\n      }")],
                "kernels/linear/matmul.cc", "granite", "linear fused_linear map", L0 + "mlp.map", KERNEL, [WEIGHT], layers=True, place="layers.0"),
    KernelFault("generated formula's loop ends one too early",
                [("compiler/codegen/cpu_source.cc", "i = begin; i < end; ++i) {\\n\" + source.statements", "i = begin; i + 1 < end; ++i) {\\n\" + source.statements")],
                "compiler/codegen/cpu_source.cc", "llama", "map", f"{L0}self_attn.map {L0}mlp.map", KERNEL, flags=["--generated", "wait"], place="layers.0"),
    KernelFault("second sequence of a batch appended where the first was",
                [("kernels/append/spans.h", "    row += span.count;\n", "")],
                "kernels/append/cpu.cc kernels/rope_append/cpu.cc", "llama", "attend append rope_append", L0 + "self_attn.attend", STATE, [KERNEL], prompts=2),
    KernelFault("running softmax without rescaling what was summed, on a device",
                [(TEXTS, "      sums[i] = sums[i] * kept + v;", "      sums[i] = sums[i] + v;")],
                TEXTS, "llama", "attend", L0 + "self_attn.attend", KERNEL, base=["--backend", "simt", "--kv-dtype", "f32"], tokens=100),
    KernelFault("last element left out of a row's exponentials, on a device",
                [(TEXTS, "  FL_EACH(i, n) sum += fl_exp(FL_LOAD_X(x, first + i) - most);", "  FL_EACH(i, n - 1) sum += fl_exp(FL_LOAD_X(x, first + i) - most);")],
                TEXTS, "qwen3_moe", "softmax", L0 + "mlp.softmax", KERNEL, [ROUTING], base=["--backend", "simt", "--kv-dtype", "f32"]),
]  # fmt: skip


class Workshop:
    """Makes faulty programs in a folder of its own from the build that the program is of."""

    def __init__(self, program, folder):
        self.program, self.build, self.folder = pathlib.Path(program).resolve(), pathlib.Path(program).resolve().parent, folder
        commands = json.loads((self.build / "compile_commands.json").read_text())
        self.compile = {str(pathlib.Path(entry["directory"], entry["file"]).resolve()): entry for entry in commands}
        lines = subprocess.run(["ninja", "-C", self.build, "-t", "commands", self.program.name], capture_output=True, text=True, check=True).stdout
        self.link = next(line for line in reversed(lines.splitlines()) if f" -o {self.program.name} " in line)

    def place(self, name):
        return self.build / name[6:] if name.startswith("build:") else ROOT / "src" / name

    def make(self, fault):
        copies = self.folder / "copies"
        shutil.rmtree(copies, ignore_errors=True)
        for name, old, new in fault.edits:
            copy = copies / name.replace("build:", "")
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = copy.read_text() if copy.exists() else self.place(name).read_text()
            assert text.count(old) == 1, f"{name} has {old!r} {text.count(old)} times: the table is out of date"
            copy.write_text(text.replace(old, new))
        objects = [self.compiled(copies, unit, str(number)) for number, unit in enumerate(fault.units)]
        faulty = self.folder / "faulty"
        words = shlex.split(self.link)
        words = words[words.index("&&") + 1 : len(words) - words[::-1].index("&&") - 1]
        at = words.index("-o")
        words[at : at + 2] = [*objects, "-o", str(faulty)]
        subprocess.run(words, cwd=self.build, check=True)
        return faulty

    def compiled(self, copies, unit, number):
        source, copy = self.place(unit), copies / unit.replace("build:", "")
        if not copy.exists():  # a header of it is edited, or nothing
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
        entry = self.compile[str(source.resolve())]
        words = shlex.split(entry["command"])
        made = str(self.folder / f"{number}.o")
        words[words.index("-o") + 1], words[words.index("-c") + 1] = made, str(copy)
        words[1:1] = [f"-I{copies}"]
        subprocess.run([*words, "-w"], cwd=entry["directory"], check=True)
        return made


class Judge:
    effect_only = False

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.environment = {**os.environ, "FIRSTLIGHT_CACHE": str(folder / "cache")}

    def call(self, program, *words):
        shutil.rmtree(self.folder / "cache", ignore_errors=True)  # what the healthy program generated is not the faulty one's
        command = [program, "baseline", *map(str, words), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=self.environment)
        if done.returncode not in (0, 1) or not done.stdout:
            raise RuntimeError(f"{' '.join(map(str, command))}: status {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
        return json.loads(done.stdout)

    def model(self, fault):
        """The golden checkpoint; for longer prompts with more positions."""
        if fault.tokens <= 128:
            return DATA / fault.model
        copy = self.folder / "long"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(DATA / fault.model, copy)
        config = json.loads((copy / "config.json").read_text())
        config["max_position_embeddings"] = 512
        (copy / "config.json").write_text(json.dumps(config))
        return copy

    def judge(self, fault, faulty):
        model, pack, prompts = self.model(fault), self.folder / "pack", self.folder / "prompts.json"
        draw = random.Random(7)
        prompts.write_text(json.dumps([[draw.randrange(2, 60) for _ in range(fault.tokens)] for _ in range(fault.prompts)]))
        shutil.rmtree(pack, ignore_errors=True)
        operators = [] if fault.layers else ["--operators"]
        self.call(self.program, "record", model, "--prompts", prompts, *operators, "-o", pack)
        batched = ["--batched"] if fault.prompts > 1 else []
        healthy = {"findings": [], "passed": True} if self.effect_only else self.call(self.program, "locate", pack, "--model", model, *fault.flags)
        compared = self.call(faulty, "compare", pack, "--model", model, *fault.flags, *operators, *batched)
        found = {"findings": []} if self.effect_only else self.call(faulty, "locate", pack, "--model", model, *fault.flags)
        first = compared["first_wrong"]["name"] if compared["first_wrong"] else ""
        taps = [tap["name"] for tap in json.loads((pack / "manifest.json").read_text())["taps"]]
        wanted = {at for at in fault.at if at in taps} or {next(tap for tap in taps if tap.startswith("model.layers.0"))}
        return found["findings"], first, wanted, not compared["passed"], bool(healthy["findings"]) or not healthy["passed"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true", help="every fault there is")
    parser.add_argument("--effect", action="store_true", help="only whether the faults change anything: no locate")
    parser.add_argument("--json", help="file for what was found of each")
    options = parser.parse_args()
    if not (pathlib.Path(options.program).resolve().parent / "build.ninja").exists() or shutil.which("ninja") is None:
        print("no build folder of Ninja beside the program: skipped")
        return 77
    faults = [fault for fault in FAULTS if options.only in str(fault)]
    if not options.all and not options.only:
        faults = random.Random(options.seed).sample(faults, options.faults)
    count, alarms = Count(), 0
    with tempfile.TemporaryDirectory() as name:
        workshop, judge = Workshop(options.program, pathlib.Path(name)), Judge(options.program, pathlib.Path(name))
        judge.effect_only = options.effect
        for fault in faults:
            try:
                found, first, wanted, seen, alarm = judge.judge(fault, workshop.make(fault))
            except RuntimeError as error:
                print("ERROR", fault, error)
                found, first, wanted, seen, alarm = [], "", {"an error"}, True, False
            if alarm:
                print("ALARM of the healthy program:", fault)
            alarms += alarm
            count.add([fault], found, first, wanted, seen)
    report(count.matrix)
    n = count.total
    print(f"\n{n} faults of kernels, passes and the runtime: operator {count.operator}/{n}, kind {count.cause}/{n}, kind or one as good "
          f"{count.allowed}/{n}, compare names the first wrong value {count.compared}/{n}, {count.extra} findings beside them, "
          f"{count.silent} without effect; {alarms} alarms on {n} healthy runs")  # fmt: skip
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(count.rows, indent=1))
    return int(count.silent > 0 or alarms > 0 or count.operator < LEAST_OPERATOR * n or count.allowed < LEAST_KIND * n)


if __name__ == "__main__":
    sys.exit(main())
