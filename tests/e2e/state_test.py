#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The state of sequences as users choose it: quantised keys and values (--kv-dtype fp8, int8, int4), and contexts of
which full attention keeps the first tokens and the last (--evict). Standard library only.

    state_test.py PROGRAM
"""

import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from serve_test import GOLDEN, free_port, make_model, request

ROOT = pathlib.Path(__file__).resolve().parents[2]
F32 = ["--compute", "f32", "--kv-dtype", "f32"]
SINKS, WINDOW = 3, 6
EVICT = ["--evict", f"sinks:{SINKS},window:{WINDOW}"]
# docs/numerics.md, "Whole models": what a cache's rounding explains; the factors of src/tolerance/tolerances.h.
ROUNDING = {"f16": 3.1e-4, "int8": 1.1e-2, "fp8": 5.7e-2, "int4": 0.15}
FLOOR, SPREAD, HONEST, APART, PRODUCTS_PER_LAYER = 2e-5, 4, 3, 2, 9


def tokens(count):
    return ",".join(str(3 + i * 37 % 58) for i in range(count))


def logits(program, model, *flags):
    command = [program, "logits", model, "--json", *map(str, flags)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return json.loads(done.stdout)["logits"]


def distance(found, wanted):
    """The largest relative L2 distance of a row."""
    def norm(row):
        return math.sqrt(sum(v * v for v in row))
    return max(norm([a - b for a, b in zip(x, y, strict=True)]) / norm(y) for x, y in zip(found, wanted, strict=True))


def check_formats(program):
    layers = json.loads((GOLDEN / "config.json").read_text())["num_hidden_layers"]
    text = ["--tokens", tokens(60)]
    exact = logits(program, GOLDEN, *text, "--backend", "reference")
    last = 0.0
    for name, rounding in ROUNDING.items():
        plain = logits(program, GOLDEN, *text, "--backend", "reference", "--kv-dtype", name)
        rounded = distance(plain, exact)
        bound = max(FLOOR, SPREAD * rounding * math.sqrt(PRODUCTS_PER_LAYER * layers))
        assert FLOOR / 10 < rounded <= bound, f"{name}: {rounded} from float32, at most {bound} explained"
        assert rounded > last, f"{name}: {rounded} is no more than what finer formats cost, {last}"
        last = rounded
        for way in ([], ["--chunk", 7], ["--stepwise"], ["--no-tuned"]):
            fast = logits(program, GOLDEN, *text, "--backend", "cpu", "--compute", "f32", "--kv-dtype", name, *way)
            assert distance(fast, exact) <= HONEST * rounded, f"{name} {way}: {distance(fast, exact)}, plain {rounded}"
            assert distance(fast, plain) <= APART * rounded, f"{name} {way}: {distance(fast, plain)} from the plain path"
        print(f"passed: {name}, {rounded:.1e} from float32")
    done = subprocess.run([program, "logits", GOLDEN, "--tokens", "3,4", "--backend", "simt", "--kv-dtype", "int8"],
                          capture_output=True, text=True)
    assert done.returncode != 0 and "q8_0" in done.stderr and "simt" in done.stderr, done.stderr
    print("passed: refused by name on devices")


def masked_spec(folder):
    """Llama's spec, with the same visibility written as a score over a log that keeps everything."""
    text = (ROOT / "architectures" / "llama.lua").read_text()
    line = "    p.rope = std.rope.from_config(c, { dim = p.head_dim })\n"
    assert line in text
    score = (f"    p.score = function(s, q, k, head)\n"
             f"      return where(max(lt(k, {SINKS}), lt(q - k, {WINDOW})), s, -1e30)\n    end\n")
    path = folder / "masked.lua"
    path.write_text(text.replace(line, line + score))
    return path


def check_eviction(program, folder):
    spec = masked_spec(folder)
    text = ["--tokens", tokens(60)]
    wanted = logits(program, GOLDEN, *text, "--backend", "reference", "--spec", spec)
    full = logits(program, GOLDEN, *text, "--backend", "reference")
    seen = SINKS + WINDOW
    assert distance(wanted[:seen], full[:seen]) < 1e-6 and distance(wanted[seen:], full[seen:]) > 1e-3
    places = [(["--backend", "reference"], 1e-6), (["--backend", "cpu", *F32], FLOOR),
              (["--backend", "simt", "--kv-dtype", "f32"], FLOOR)]
    for place, bound in places:
        for way in ([], ["--chunk", 7], ["--stepwise"]):
            found = distance(logits(program, GOLDEN, *text, *place, *EVICT, *way), wanted)
            assert found <= bound, f"{place} {way}: {found} from the masked log, at most {bound} wanted"
    print("passed: the first and the last tokens, as a mask over everything")
    done = subprocess.run([program, "logits", ROOT / "tests/golden/data/deepseek_v32", "--tokens", "3,4", *EVICT],
                          capture_output=True, text=True)
    assert done.returncode != 0 and "eviction: state" in done.stderr, done.stderr
    print("passed: refused by name where rows are chosen")


class Server:
    def __init__(self, program, model, *flags):
        self.port = free_port()
        self.process = subprocess.Popen([program, "serve", model, "--port", str(self.port), *map(str, flags)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                if request(self.port, "GET", "/ready")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError("the server is not ready")

    def complete(self, **body):
        return request(self.port, "POST", "/v1/completions", json.dumps({"model": "model", "temperature": 0, **body}))

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def check_beyond_the_budget(program, folder):
    """1500 tokens on state for 640: refused without eviction, told with it; cold and warm the same."""
    model = folder / "model"
    model.mkdir()
    make_model(model)
    config = json.loads((model / "config.json").read_text())
    config["max_position_embeddings"] = 4096
    (model / "config.json").write_text(json.dumps(config))
    heads = config["num_key_value_heads"]
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    page = 128 * 2 * heads * width * 4 * config["num_hidden_layers"]
    flags = [*F32, "--state-bytes", 5 * page, "--step-tokens", 64, "--context", 4096]
    long = {"prompt": "abc def " * 20, "max_tokens": 1500, "ignore_eos": True}
    refused = subprocess.run([program, "serve", model, "--port", str(free_port()), *map(str, flags)], capture_output=True,
                             text=True, timeout=60)
    assert refused.returncode != 0 and "the longest context that fits" in refused.stderr, refused.stderr
    server = Server(program, model, *flags, "--evict", "sinks:4,window:200")
    try:
        answers = []
        for _ in range(2):
            status, text = server.complete(**long)
            assert status == 200, text
            answers.append(json.loads(text))
        for answer in answers:
            usage, choice = answer["usage"], answer["choices"][0]
            total = usage["prompt_tokens"] + usage["completion_tokens"]
            assert choice["finish_reason"] == "length" and usage["completion_tokens"] == 1500, usage
            assert choice["evicted_tokens"] == total - 204, (choice["evicted_tokens"], total)
        assert answers[0]["choices"][0]["text"] == answers[1]["choices"][0]["text"], "warm and cold differ"
        status, text = server.complete(**{**long, "max_tokens": 300}, stream=True)
        last = [json.loads(e[6:]) for e in text.split("\n\n") if e.startswith("data: {")][-1]
        assert last["choices"][0]["finish_reason"] == "length", last
        assert last["choices"][0]["evicted_tokens"] == answers[0]["usage"]["prompt_tokens"] + 300 - 204, last
        status, text = server.complete(prompt="abc", max_tokens=5)
        assert "evicted_tokens" not in json.loads(text)["choices"][0], text
    finally:
        server.stop()
    print("passed: 1500 tokens on pages for 640")


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        check_formats(program)
        check_eviction(program, folder)
        check_beyond_the_budget(program, folder)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
