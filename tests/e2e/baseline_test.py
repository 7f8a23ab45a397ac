#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `baseline` on tiny golden checkpoints: recordings in other pieces are the same to the bit; packs of the vendor's
code (tests/golden/packs, made by tools/record) agree with ours and show planted faults of the spec; what is rounded
honestly passes, and what is not is named. Standard library only.

    baseline_test.py PROGRAM
"""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
# Attention of every kind; a shared state; groups of tokens; experts; several streams.
MODELS = ["llama", "gemma3", "deepseek_v3", "gemma4_shared", "minimax_m3", "deepseek_v4", "gpt_oss"]
RECURRENT = ["kimi_linear", "jamba"]
VENDOR = GOLDEN / "packs" / "llama.transformers"
LIMIT = 256 << 20  # more than a tiny model needs: what is tested here is the cutting


class Verb:
    def __init__(self, program):
        self.program = program

    def __call__(self, *words, status=0):
        command = [self.program, "baseline", *map(str, words), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        said = f"{' '.join(command)}: exit status {done.returncode}, {status} wanted: {done.stderr[-400:]}"
        assert done.returncode == status, said
        return json.loads(done.stdout)


def prompts_of(model, folder):
    """The golden prompt and its beginning: two sequences of different lengths."""
    prompt = json.loads((GOLDEN / "data" / model / "golden.json").read_text())["prompt"]
    path = folder / f"{model}.prompts.json"
    path.write_text(json.dumps([prompt, prompt[:11]]))
    return path


def tensors(pack):
    return (pack / "tensors.safetensors").read_bytes()


def check_pieces(verb, folder, model, ways):
    prompts = prompts_of(model, folder)
    record = ["record", GOLDEN / "data" / model, "--prompts", prompts, "--operators", "--greedy", "2", "-o"]
    whole = verb(*record, folder / "whole")
    assert whole["segments"] == 1 and whole["bytes"] <= 8_000_000
    for way in ways:
        made = verb(*record, folder / "pieces", *way)
        assert tensors(folder / "pieces") == tensors(folder / "whole"), f"{model} {way}: other bits than at once"
        if "--memory-limit" in way:
            assert made["segments"] > 2, f"{model}: {made['segments']} pieces"
    shutil.rmtree(folder / "whole")
    shutil.rmtree(folder / "pieces")


def check_rounding(verb, folder, model):
    """The CPU's bf16 products against the reference: explained by rounding, and more so by the rounded reference."""
    source = GOLDEN / "data" / model
    verb("record", source, "--prompts", prompts_of(model, folder), "--operators", "-o", folder / "reference")
    for compute, state, most in [("f32", "f32", 2e-5), ("bf16", "f16", 0.2)]:
        found = verb("compare", folder / "reference", "--model", source, "--backend", "cpu", "--compute", compute,
                     "--kv-dtype", state)  # fmt: skip
        logits = next(value for value in found["layers"] if value["name"] == "logits")
        assert found["passed"] and logits["rel_l2"] <= most and not found["not_compared"], found["first_wrong"]
        if compute == "bf16":
            assert logits["beyond_rounding"]["rel_l2"] < 0.5 * logits["rel_l2"], "the rounded reference does not explain it"
    shutil.rmtree(folder / "reference")


def check_other_model(verb, folder):
    """Another model's values are no rounding, however its products are computed."""
    verb("record", GOLDEN / "data" / "llama", "--tokens", "1,2,3,4,5,6,7,8", "--operators", "-o", folder / "llama")
    for flags in [["--compute", "f32"], ["--compute", "bf16"], []]:
        found = verb("compare", folder / "llama", "--model", GOLDEN / "data" / "qwen3", "--backend", "cpu", *flags, status=1)
        assert not found["passed"] and found["first_wrong"], flags
    shutil.rmtree(folder / "llama")


def check_devices(verb, folder):
    """The same on a device, in one plan and in pieces, whose inputs are brought over."""
    source = GOLDEN / "data" / "gemma3"
    verb("record", source, "--prompts", prompts_of("gemma3", folder), "-o", folder / "reference")
    for way in [[], ["--memory-limit", 4 << 30], ["--batched", "--chunk", "9"]]:
        found = verb("compare", folder / "reference", "--model", source, "--backend", "simt", "--kv-dtype", "f32", *way)
        assert found["passed"] and found["layers"][-1]["rel_l2"] > 0


def check_rounded_pack(verb, folder):
    """Honest rounding from a pack made beforehand: no reference is run for it."""
    source = GOLDEN / "data" / "llama"
    record = ["record", source, "--prompts", prompts_of("llama", folder), "--operators", "-o"]
    verb(*record, folder / "reference")
    # Attention in float32 over halves: the rounded reference does all that the backend does. In bfloat16, where the machine
    # has it, attention rounds its weights too, which stay below the rest of the rounding.
    for kind, state in [("exact", ["--kv-dtype", "f16"]), ("usual", [])]:
        flags = ["--backend", "cpu", "--compute", "bf16", *state]
        verb(*record, folder / "rounded", "--rounded", *flags)
        verb(*record, folder / "cpu", *flags)
        found = verb("compare", folder / "reference", folder / "cpu", "--rounded", folder / "rounded")
        last = found["layers"][-1]
        most = 1e-3 if kind == "exact" else last["rounding"]["rel_l2"]
        assert found["passed"] and last["beyond_rounding"]["rel_l2"] < most, (kind, last)
    two = verb("compare", folder / "reference", folder / "cpu")
    assert two["passed"] and "rounding" not in two["layers"][-1]
    assert two["layers"][-1]["allowed"] > found["layers"][-1]["allowed"], "measured rounding is the tighter bound"


def changed(model, folder, change):
    """A copy of a checkpoint whose config is changed."""
    copy = folder / f"{model}.changed"
    shutil.copytree(GOLDEN / "data" / model, copy, dirs_exist_ok=True)
    config = json.loads((copy / "config.json").read_text())
    change(config)
    (copy / "config.json").write_text(json.dumps(config))
    return copy


def check_vendor(verb, folder, pack):
    model = pack.name.split(".")[0]
    source = GOLDEN / "data" / model
    for flags in [["--backend", "reference"], ["--backend", "cpu", "--compute", "f32", "--kv-dtype", "f32"]]:
        found = verb("compare", pack, "--model", source, *flags)
        assert found["passed"] and found["sees"]["spec"]["sees"], found["first_wrong"]
        assert len(found["layers"]) > 10 and found["logits"]["top1"] == 1 and found["logits"]["greedy_equal"]
    mine = verb("record", source, "--tokens", "1,2,3", "-o", folder / "mine")
    assert mine["weights_hash"] == json.loads((pack / "manifest.json").read_text())["weights_hash"], "another hash"


def check_faults(verb, folder):
    def epsilon(config):
        config["rms_norm_eps"] *= 4

    def theta(config):
        if "rope_parameters" in config:
            config["rope_parameters"]["rope_theta"] *= 1.2
        if "rope_theta" in config:
            config["rope_theta"] *= 1.2

    for change, wanted in [(epsilon, "model.layers.0.input_layernorm"), (theta, "model.layers.0.self_attn.o_proj")]:
        model = changed("llama", folder, change)
        report = folder / "report.html"
        found = verb("compare", VENDOR, "--model", model, "--backend", "reference", "--html", report,
                     status=1)  # fmt: skip
        assert found["first_wrong"]["name"] == wanted, found["first_wrong"]
        assert wanted in report.read_text()
    # The design's spelling.
    verb("compare", model, "--baseline", VENDOR, "--backend", "reference", status=1)


def check_experts(verb, folder, model):
    """Values inside experts: rows of tokens, whatever the batches; the same on another backend; a fault in them is named."""
    record = ["record", GOLDEN / "data" / model, "--prompts", prompts_of(model, folder), "--experts", "-o"]
    verb(*record, folder / "experts")
    for way in [["--chunk", "5"], ["--batched"], ["--memory-limit", LIMIT]]:
        verb(*record, folder / "pieces", *way)
        assert tensors(folder / "pieces") == tensors(folder / "experts"), f"{model} {way}"
    found = verb("compare", folder / "experts", "--model", GOLDEN / "data" / model, "--backend", "cpu", "--compute", "f32",
                 "--kv-dtype", "f32")  # fmt: skip
    inside = [value["name"] for value in found["layers"] if "[slot " in value["name"]]
    assert found["passed"] and not found["not_compared"] and len(inside) >= 8, (found["first_wrong"], inside)
    copy = changed(model, folder, lambda config: None)
    swap_rows(copy / "model.safetensors", ".experts.2.down_proj.weight")
    found = verb("compare", folder / "experts", "--model", copy, "--backend", "reference", status=1)
    assert "expert.linear#3[slot" in found["first_wrong"]["name"], found["first_wrong"]
    for name in ["experts", "pieces"]:
        shutil.rmtree(folder / name)


def swap_rows(path, ending):
    """The first two rows of the first tensor of that name's ending."""
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    name = min(name for name in header if name.endswith(ending))
    begin, end = (8 + length + place for place in header[name]["data_offsets"])
    row = (end - begin) // header[name]["shape"][0]
    first, second = data[begin : begin + row], data[begin + row : begin + 2 * row]
    data[begin : begin + 2 * row] = second + first
    path.write_bytes(bytes(data))


def check_errors(verb, folder):
    model = GOLDEN / "data" / "llama"
    small = verb("record", model, "--tokens", "1,2,3", "-o", folder / "x", "--memory-limit", "1000000", status=1)
    assert "available in the limit of 1000000" in small["error"]["message"]
    for words, said in [
        (["record", model, "-o", folder / "x"], "--prompts or --tokens"),
        (["record", model, "--tokens", "1,99999", "-o", folder / "x"], "token 99999"),
        (["record", model, "--tokens", "1", "--full", "nobody", "-o", folder / "x"], "nobody"),
        (["record", model, "--tokens", "1", "--batched", "--memory-limit", LIMIT, "-o", folder / "x"], "batches"),
        (["compare", folder / "none"], "none"),
        (["compare", VENDOR], "a second pack"),
    ]:
        message = verb(*words, status=2)["error"]["message"]
        assert said in message, message


def main():
    verb = Verb(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        limit = ["--memory-limit", str(LIMIT)]
        for model in MODELS:
            check_pieces(verb, folder, model, [limit, ["--chunk", "7"], ["--batched"], [*limit, "--chunk", "5"]])
        for model in RECURRENT:
            check_pieces(verb, folder, model, [limit, ["--batched"]])
        for model in ["llama", "deepseek_v3", "kimi_linear"]:
            check_rounding(verb, folder, model)
        check_other_model(verb, folder)
        check_rounded_pack(verb, folder)
        check_devices(verb, folder)
        for model in ["qwen3_moe", "deepseek_v3"]:
            check_experts(verb, folder, model)
        packs = sorted((GOLDEN / "packs").iterdir())
        assert len(packs) >= 3
        for pack in packs:
            check_vendor(verb, folder, pack)
        check_faults(verb, folder)
        check_errors(verb, folder)


if __name__ == "__main__":
    main()
