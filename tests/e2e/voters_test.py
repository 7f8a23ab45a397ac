#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`baseline vote` on recordings of one tiny model: the library's code, code from the model's own directory, bfloat16, logits
alone, and ours agree within their rounding; one reference with a patched module is named from the module on. And what
ranks of a sharded run recorded is joined to the whole (`baseline join`). The packs are made by tools/golden/voters.py and
tools/record/record.py (tools/record/README.md). Standard library only.

    voters_test.py PROGRAM
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODEL = GOLDEN / "data" / "llama"
LIBRARY, OWN = GOLDEN / "packs" / "llama.transformers", GOLDEN / "packs" / "llama.own_code"
BFLOAT16, PLANTED, LOGITS = (GOLDEN / "voters" / name for name in ("bfloat16", "planted", "logits"))
EXACT = ["--backend", "cpu", "--compute", "f32", "--kv-dtype", "f32"]
FIRST_WRONG = "model.layers.1.self_attn.o_proj"


class Baseline:
    def __init__(self, program):
        self.program = program

    def __call__(self, verb, *words, status=0):
        command = [self.program, "baseline", verb, *map(str, words), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == status, f"{command}: exit status {done.returncode}, {status} wanted: {done.stderr[-400:]}"
        return json.loads(done.stdout)


def check_healthy(baseline):
    """Five voices, none outside; each pair is held to what its two sides round."""
    found = baseline("vote", LIBRARY, OWN, BFLOAT16, LOGITS, "--model", MODEL, *EXACT)
    assert found["agreed"] and not found["outliers"] and found["no_majority"] is None, found["conclusion"]
    assert [voter["name"] for voter in found["voters"]][-1] == "llama on cpu"
    logits = found["values"][-1]
    assert logits["name"] == "logits" and logits["group"] == [0, 1, 2, 3, 4]
    pairs = {(pair["a"], pair["b"]): pair for pair in logits["pairs"]}
    assert pairs[0, 4]["rel_l2"] < 1e-5 < pairs[0, 2]["rel_l2"] < pairs[0, 2]["allowed"], pairs[0, 2]
    assert pairs[0, 2]["rel_l2"] > 100 * pairs[0, 4]["allowed"], "bfloat16 passes as what it is, not as float32"
    # Ours as it runs by default rounds too.
    assert baseline("vote", LIBRARY, OWN, "--model", MODEL, "--backend", "cpu", "--compute", "bf16")["agreed"]
    assert any("transformers LlamaForCausalLM" in note and "bfloat16" in note for note in found["notes"]), found["notes"]


def check_planted(baseline, folder):
    report = folder / "report.html"
    found = baseline("vote", LIBRARY, OWN, BFLOAT16, LOGITS, PLANTED, "--model", MODEL, *EXACT, "--html", report, status=1)
    (outlier,) = found["outliers"]
    assert outlier["voter"] == "planted" and outlier["first"]["name"] == FIRST_WRONG, outlier
    assert outlier["last_agreed"].startswith("model.layers.1.self_attn."), outlier["last_agreed"]
    assert outlier["only_inherits"] and [later["name"] for later in outlier["later"]] == ["model.layers.1", "logits"]
    layers = {value["name"]: value for value in found["values"] if value["layer_output"]}
    assert layers["model.layers.0"]["verdict"] == "agreed"
    assert layers["model.layers.1"]["outliers"] == [4] and layers["model.layers.1"]["verdict"] == "majority"
    page = report.read_text()
    assert f"planted is the outlier from {FIRST_WRONG}" in page and page.count("<polyline") == 6
    # The planted one among two others is found as well, whoever comes first.
    for order in [(PLANTED, OWN, LIBRARY), (OWN, PLANTED, LIBRARY), (OWN, LIBRARY, PLANTED)]:
        found = baseline("vote", *order, status=1)
        assert [outlier["voter"] for outlier in found["outliers"]] == ["planted"], order
        assert found["outliers"][0]["first"]["name"] == FIRST_WRONG


def check_our_fault(baseline, folder):
    """A fault of ours against two references: a spec's number that is wrong."""
    model = folder / "llama"
    model.mkdir()
    for path in MODEL.iterdir():
        if path.name != "config.json":
            (model / path.name).symlink_to(path)
    config = json.loads((MODEL / "config.json").read_text())
    config["rope_parameters"]["rope_theta"] *= 1.2
    (model / "config.json").write_text(json.dumps(config))
    found = baseline("vote", LIBRARY, OWN, "--model", model, *EXACT, status=1)
    (outlier,) = found["outliers"]
    assert outlier["voter"] == "llama on cpu" and outlier["first"]["name"] == "model.layers.0.self_attn.o_proj", outlier


def check_two(baseline):
    found = baseline("vote", f"right={LIBRARY}", f"wrong={PLANTED}", status=1)
    assert not found["outliers"] and found["no_majority"]["name"] == FIRST_WRONG
    assert "of two voters neither is a majority" in found["conclusion"], found["conclusion"]
    assert "a majority needs three voters" in baseline("vote", LIBRARY, OWN)["conclusion"]


def check_refusals(baseline):
    for words, said in [
        ([LIBRARY], "1 recordings"),
        ([LIBRARY, LIBRARY, OWN], "two voters are called"),
        ([LIBRARY, OWN, GOLDEN / "packs" / "gemma2.transformers"], "gemma2.transformers has none of the prompts"),
        ([LIBRARY, GOLDEN / "none"], "none"),
    ]:
        message = baseline("vote", *words, status=2)["error"]["message"]
        assert said in message, message


def check_own_code(baseline):
    """A model whose code lies in its own directory, run by no library: recorded, and it judges our spec."""
    origin = json.loads((OWN / "manifest.json").read_text())["origin"]
    assert origin["class"] == "PlainForCausalLM", origin
    found = baseline("compare", OWN, "--model", MODEL, *EXACT)
    assert found["passed"] and found["sees"]["spec"]["sees"] and found["logits"]["greedy_equal"]


def check_ranks(baseline, folder):
    """A real tensor-parallel run of two ranks; layers on two; columns, sums and rows on four."""
    for name, count in [("tensor_parallel", 2), ("pipeline", 2), ("cut", 4)]:
        ranks = [GOLDEN / "voters" / name / f"rank{i}" for i in range(count)]
        whole = folder / name
        made = baseline("join", *ranks[::-1], "-o", whole)
        assert made["ranks"] == count and made["values"] == 23 and not made["replicas_that_differ"], made
        sums = made["without_statistics"]
        assert bool(sums) == (name == "cut") and all("_proj" in value for value in sums), sums
        found = baseline("compare", LIBRARY, whole)
        worst = max(value["rel_l2"] for value in found["layers"])
        assert found["passed"] and not found["not_compared"] and worst < (1e-6 if name != "pipeline" else 1e-12), worst
        assert found["logits"]["top5"] == 1 and found["logits"]["greedy_equal"]
        assert baseline("compare", whole, "--model", MODEL, *EXACT)["passed"]
        if name == "pipeline":
            same, library = tensors(whole), tensors(LIBRARY)
            assert same.keys() == library.keys() and all(same[key] == library[key] for key in exact_parts(same))
        message = baseline("join", *ranks[1:], "-o", folder / "x", status=2)["error"]["message"]
        assert f"rank 0 of {count} is missing" in message, message
        message = baseline("join", *ranks, ranks[1], "-o", folder / "x", status=2)["error"]["message"]
        assert "rank 1 is there twice" in message, message
        message = baseline("compare", ranks[0], "--model", MODEL, status=2)["error"]["message"]
        assert "baseline join" in message, message
    # A fault of one rank: its columns of one product too large.
    faulty = folder / "faulty"
    faulty.mkdir()
    source = GOLDEN / "voters" / "tensor_parallel" / "rank1"
    (faulty / "manifest.json").write_text((source / "manifest.json").read_text())
    (faulty / "tensors.safetensors").write_bytes(scaled(source, "model.layers.1.mlp.up_proj", 1.1))
    baseline("join", source.parent / "rank0", faulty, "-o", folder / "joined")
    found = baseline("compare", LIBRARY, folder / "joined", status=1)
    assert found["first_wrong"]["name"] == "model.layers.1.mlp.up_proj", found["first_wrong"]
    # And of a value that both should have alike.
    (faulty / "tensors.safetensors").write_bytes(scaled(source, "model.layers.0.self_attn.o_proj", 1.1))
    made = baseline("join", source.parent / "rank0", faulty, "-o", folder / "joined", status=1)
    (finding,) = made["replicas_that_differ"]
    assert finding["name"] == "model.layers.0.self_attn.o_proj" and 0.05 < finding["rel_l2"] < 0.15, finding


def tensors(pack):
    data = (pack / "tensors.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    places = {name: entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"}
    return {name: data[8 + length + begin : 8 + length + end] for name, (begin, end) in places.items()}


def exact_parts(names):
    """All but what the join computes from kept rows, in another order than the recorder in Python summed."""
    return [name for name in names if name.split(".")[1] not in ("norms", "sketch", "log_sum_exp")]


def scaled(pack, name, factor):
    """The tensors of a pack with the sketches, norms and rows of one value multiplied."""
    manifest = json.loads((pack / "manifest.json").read_text())
    data = bytearray((pack / "tensors.safetensors").read_bytes())
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    tokens, layout = len(manifest["prompts"][0]["tokens"]), manifest["layout"]
    sampled = min(tokens, layout["sampled_rows"])

    def numbers(part, kind):
        begin, end = header[f"p0.{part}"]["data_offsets"]
        return 8 + length + begin, struct.unpack_from(f"<{(end - begin) // 4}{kind}", data, 8 + length + begin)

    _, kept = numbers("num_kept", "i")
    at = {"norms": 0, "sketch": 0, "rows": 0}
    for tap, count in zip(manifest["taps"], kept):
        sizes = {"norms": sampled, "sketch": sampled * layout["projections"], "rows": count * tap["width"]}
        if tap["name"] == name:
            for part, size in sizes.items():
                begin, values = numbers(part, "f")
                changed = [factor * value for value in values[at[part] : at[part] + size]]
                struct.pack_into(f"<{size}f", data, begin + 4 * at[part], *changed)
        for part, size in sizes.items():
            at[part] += size
    return bytes(data)


def main():
    baseline = Baseline(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_healthy(baseline)
        check_planted(baseline, folder)
        check_our_fault(baseline, folder)
        check_two(baseline)
        check_refusals(baseline)
        check_own_code(baseline)
        check_ranks(baseline, folder)


if __name__ == "__main__":
    main()
