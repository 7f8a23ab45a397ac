#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the verbs say, held against each other and against the model's files: perplexity and log-probabilities against
`logits`, ways of running against each other, stages of the graph, the evidence that `adapt` leaves. On a tiny golden
checkpoint; exit status and errors are verbs_test.py's. Standard library only.

    verbs_numbers_test.py PROGRAM
"""

import array
import json
import math
import pathlib
import subprocess
import sys
import tempfile

from serve_test import GOLDEN, make_model, spoil_row
from verbs_test import make_files

TOLERANCE = 2e-5


class Verbs:
    def __init__(self, program, names):
        self.program, self.names = program, names

    def text(self, *words, status=0, stdin=None):
        command = [self.program, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, input=stdin)
        assert done.returncode == status, f"exit status {done.returncode}, {status} wanted: {done.stderr[-300:]}"
        return done.stdout

    def __call__(self, *words, **options):
        return json.loads(self.text(*words, "--json", **options))

    def logits(self, ids, *flags):
        return self("logits", self.names["model"], "--tokens", comma(ids), "--backend", "reference", *flags)["logits"]


def comma(ids):
    return ",".join(map(str, ids))


def log_probability(row, token):
    top = max(row)
    return row[token] - top - math.log(sum(math.exp(x - top) for x in row))


def close(rows, wanted, tolerance=TOLERANCE):
    assert len(rows) == len(wanted) and rows
    for a, b in zip(rows, wanted):
        assert len(a) == len(b)
        worst = max(abs(x - y) for x, y in zip(a, b)) / max(map(abs, b))
        assert worst <= tolerance, f"off by {worst}"


def check_logits(verbs, golden):
    ids = golden["prompt"]
    rows = verbs.logits(ids)
    assert len(rows) == len(ids) and len(rows[0]) == 64
    assert verbs.logits(ids, "--last") == [rows[-1]]
    for flags in (["--chunk", 1], ["--chunk", 5], ["--chunk", 36], ["--stepwise"]):
        close(verbs.logits(ids, *flags), rows)
    assert verbs.logits(ids, "--stepwise") == verbs.logits(ids, "--chunk", 1)
    printed = verbs.text("logits", verbs.names["model"], "--tokens", comma(ids), "--backend", "reference")
    close([[float(x) for x in line.split()] for line in printed.splitlines()], rows, 1e-7)


def check_npy(verbs, golden):
    path = pathlib.Path(verbs.names["out"]).with_suffix(".npy")
    rows = verbs.logits(golden["prompt"], "-o", path)
    raw = path.read_bytes()
    assert raw[:6] == b"\x93NUMPY"
    length = int.from_bytes(raw[8:10], "little")
    header = raw[10:10 + length].decode()
    assert "'<f4'" in header and f"({len(rows)}, 64)" in header and "False" in header, header
    values = array.array("f", raw[10 + length:])
    close([list(values[i:i + 64]) for i in range(0, len(values), 64)], rows, 1e-7)


def check_perplexity(verbs, _golden):
    """The definition in the open: windows, their overlap, the first position that nothing stands in front of."""
    model, text = verbs.names["model"], verbs.names["text"]
    ids = verbs("tokenize", model, "-t", text.read_text(), "--no-special")["ids"]
    for window, stride in ((32, 32), (32, 20), (400, 400)):
        total, scored, done = 0.0, 0, 0
        for start in range(0, len(ids), stride):
            if done >= len(ids):
                break
            piece = ids[start:start + window]
            rows = verbs.logits(piece)
            for at in range(max(done - start, 1), len(piece)):
                total -= log_probability(rows[at - 1], piece[at])
                scored += 1
            done = start + len(piece)
        found = verbs("perplexity", model, text, "--window", window, "--stride", stride, "--backend", "reference")
        assert found["tokens"] == len(ids) and found["scored_tokens"] == scored, found
        assert abs(found["perplexity"] / math.exp(total / scored) - 1) < 1e-5, found


def check_run(verbs, golden):
    model, ids, wanted = verbs.names["model"], golden["prompt"], golden["continuation"]
    common = ["run", model, "--tokens", comma(ids), "--backend", "reference", "--ignore-eos", "--max-tokens"]
    found = verbs(*common, len(wanted), "--logprobs", 3)
    assert found["tokens"] == wanted and found["prompt_tokens"] == len(ids) and found["finish_reason"] == "length"
    assert all(found["timing"][key] > 0 for key in ("load_s", "ttft_s", "prompt_tps", "decode_tps"))
    rows = verbs.logits(ids + wanted)[len(ids) - 1:]
    for entry, row, token in zip(found["logprobs"], rows, wanted, strict=False):
        assert entry["token"] == token == entry["top"][0]["token"] and len(entry["top"]) == 3
        for one in [entry, *entry["top"]]:
            assert abs(one["logprob"] - log_probability(row, one["token"])) < 1e-4, one
    text = verbs("tokenize", model, "--decode", comma(wanted), "--no-special")["text"]
    assert found["text"] == text
    stopped = verbs(*common, len(wanted), "--stop", text[3:5])
    assert stopped["text"] == text[:text.index(text[3:5])] and stopped["finish_reason"] == "stop"
    by_id = verbs(*common, len(wanted), "--stop-ids", comma(wanted[4:6]))
    cut = min(wanted.index(wanted[4]), wanted.index(wanted[5]))
    assert by_id["tokens"] == wanted[:cut] and by_id["finish_reason"] == "stop"
    pushed = verbs(*common, 3, "--logit-bias", "7=100")
    assert pushed["tokens"] == [7, 7, 7]
    warm = [verbs(*common, 24, "--temperature", 1.5, "--seed", seed)["tokens"] for seed in (1, 1, 2)]
    assert warm[0] == warm[1] != warm[2]
    assert verbs(*common, 8, "--temperature", 1.5, "--seed", 3, "--top-k", 1)["tokens"] == wanted[:8]
    assert verbs.text(*common, len(wanted)).rstrip("\n") == text


def check_tokenize(verbs, _golden):
    model = verbs.names["model"]
    ids = verbs("tokenize", model, "-t", "hello world.")["ids"]
    assert verbs.text("tokenize", model, "--decode", comma(ids)).rstrip("\n") == "hello world."
    assert verbs("tokenize", model, stdin="hello world.")["ids"] == ids
    assert verbs("tokenize", model / "tokenizer.json", "-t", "hello world.")["ids"] == ids
    lines = ["abc", "", "two\nlines", "</s>"]
    answers = verbs.text("tokenize", model, "--lines", stdin="".join(json.dumps(line) + "\n" for line in lines))
    assert [json.loads(answer) for answer in answers.splitlines()] == \
        [verbs("tokenize", model, "-t", line)["ids"] for line in lines]
    verbs.text("tokenize", model, "--lines", stdin='"fine"\n7\n', status=2)
    verbs.text("tokenize", model, "--lines", "--decode", "3", status=2)


def check_inspect(verbs, _golden):
    found = verbs("inspect", verbs.names["model"])
    raw = (GOLDEN / "model.safetensors").read_bytes()
    header = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
    header.pop("__metadata__", None)
    assert found["parameters"] == sum(math.prod(entry["shape"]) for entry in header.values())
    assert found["bytes"] == sum(entry["data_offsets"][1] - entry["data_offsets"][0] for entry in header.values())
    assert sorted(found["coverage"]["tensors"]["bound"]) == sorted(header)
    config = json.loads((GOLDEN / "config.json").read_text())
    known = set(found["coverage"]["config"]["bound"]) | set(found["coverage"]["config"]["waived"])
    assert {key.split(".")[0].split("[")[0] for key in known} == set(config), known ^ set(config)
    tokenizer = json.loads((verbs.names["model"] / "tokenizer.json").read_text())
    assert found["tokenizer"]["vocabulary"] == len(tokenizer["model"]["vocab"])
    assert "error" not in found["chat_template"] and found["max_positions"] == 128


def check_graph(verbs, _golden):
    model = verbs.names["model"]
    plan = verbs("graph", model, "--stage", "plan")
    assert plan["lower_bound_bytes"] <= plan["arena_bytes"] <= plan["sum_bytes"] and plan["steps"] > 10
    passes = [record["name"] for record in plan["passes"]]
    assert len(passes) > 2
    for stage in ["spec", "fused", *passes]:
        text = verbs.text("graph", model, "--stage", stage)
        document = verbs("graph", model, "--stage", stage)
        assert document["text"] == text and text.startswith("graph @"), stage
        assert verbs.text("graph", model, "--stage", stage, "--format", "dot").startswith("digraph"), stage
    prints = {stage: verbs("graph", model, "--stage", stage)["fingerprint"] for stage in ("spec", "fused")}
    assert prints["spec"] != prints["fused"], "the passes do something"
    switched_off = verbs("graph", model, "--stage", "fused", *(word for name in passes for word in ("--no-pass", name)))
    assert switched_off["fingerprint"] != prints["fused"], "--no-pass leaves something out"
    verbs.text("graph", model, "--stage", "plan", "--format", "dot", status=2)


def record(verbs, model, pack):
    verbs("baseline", "record", model, "--tokens", "5,9,2,7,11,4,30,8,12,6", "--greedy", "4", "-o", pack)
    return pack


def check_adapt(verbs, _golden):
    folder = pathlib.Path(str(verbs.names["out"]) + ".evidence")
    pack = record(verbs, verbs.names["model"], folder.with_suffix(".pack"))
    found = verbs("adapt", verbs.names["model"], "--report", folder, "--baseline", pack)
    levels = [gate["level"] for gate in found["gates"]]
    assert found["passed"] and levels == [
        "intake", "coverage", "plan", "load", "operator", "layer", "model", "performance", "answer"], levels
    assert json.loads((folder / "report.json").read_text())["gates"] == found["gates"]
    for gate in found["gates"]:
        assert gate["passed"] and gate["seconds"] >= 0
        assert json.loads((folder / f"{gate['level']}.json").read_text()) == gate["evidence"]
    assert pathlib.Path(found["report"]) == folder / "report.html" and "<html" in (folder / "report.html").read_text()
    of_another = record(verbs, GOLDEN.parent / "llama_bias", folder.with_suffix(".other"))
    other = verbs("adapt", verbs.names["model"], "--baseline", of_another, status=1)
    assert not other["passed"] and other["gates"][-1]["level"] == "model", "a verdict"
    absent = verbs("adapt", verbs.names["model"], "--baseline", verbs.names["missing"], status=2)
    assert absent["gates"][-1]["evidence"]["error"]["code"] == "not found", "bad input"


def check_no_number(verbs, golden):
    """Logits that are no numbers: `logits` shows them, and whoever would draw a conclusion from them says so."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_model(folder)
        spoil_row(folder / "model.safetensors", "lm_head.weight", 5)
        for backend in ("reference", "cpu"):
            on = ["--backend", backend]
            rows = verbs("logits", folder, "--tokens", "3,4", *on)["logits"]
            assert all(row[5] is None and row[6] is not None for row in rows)
            for flags in ([], ["--temperature", 1], ["--logprobs", 2]):
                found = verbs("run", folder, "--tokens", comma(golden["prompt"]), *on, *flags, status=3)
                assert "NaN" in found["error"]["message"], found
            assert "NaN" in verbs("perplexity", folder, verbs.names["text"], *on, status=3)["error"]["message"]
            gate = verbs("adapt", folder, *on, status=2)["gates"][-1]
            assert gate["level"] == "model" and "NaN" in gate["summary"], gate


def check_common_flags(verbs, _golden):
    """Every verb takes --backend and --threads."""
    model = verbs.names["model"]
    for words in (["inspect", model], ["tokenize", model, "-t", "a"], ["devices"],
                  ["render", model, "--messages", verbs.names["messages"]]):
        verbs.text(*words, "--backend", "cpu", "--threads", "1")
        verbs.text(*words, "--backend", "abacus", status=2)


def main():
    program, failures = str(pathlib.Path(sys.argv[1]).resolve()), 0
    checks = [check_logits, check_npy, check_perplexity, check_run, check_tokenize, check_inspect, check_graph, check_adapt,
              check_no_number, check_common_flags]
    with tempfile.TemporaryDirectory() as folder:
        names, golden = make_files(pathlib.Path(folder))
        for check in checks:
            try:
                check(Verbs(program, names), golden)
            except Exception as error:  # every check is told, whatever went wrong in it
                failures += 1
                line = error.__traceback__.tb_next.tb_lineno if error.__traceback__.tb_next else 0
                print(f"FAILED {check.__name__} (line {line}): {type(error).__name__}: {error}")
    print(f"{len(checks)} checks, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
