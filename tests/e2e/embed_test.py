#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Embeddings as users meet them: verb `embed` and /v1/embeddings against the original code's hidden states
(tests/golden/embeddings.json), the files of sentence-transformers, a base model without an output head, faults, and
clients that hang up. Standard library only.

    embed_test.py PROGRAM
"""

import base64
import json
import math
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile

from serve_test import free_port, make_model, request, wait_until_ready

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
CASES = [case for case in json.loads((GOLDEN / "embeddings.json").read_text()) if case["model"] == "llama"]
EXACT = ["--compute", "f32", "--kv-dtype", "f32", "--threads", "1"]


def check(condition, message):
    if not condition:
        raise SystemExit(f"FAILED: {message}")


def normed(vector):
    length = math.sqrt(sum(v * v for v in vector))
    return [v / length for v in vector]


def expect_near(found, wanted, what):
    check(len(found) == len(wanted), f"{what}: {len(found)} dimensions, {len(wanted)} wanted")
    worst = max(abs(a - b) for a, b in zip(found, wanted)) / max(abs(b) for b in wanted)
    check(worst < 2e-5, f"{what}: off by {worst:.2g} of the largest")


def embed(program, model, *words, stdin=None):
    done = subprocess.run([program, "embed", model, *EXACT, *map(str, words), "--json"], input=stdin, capture_output=True, text=True, timeout=120)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def check_verb(program, model):
    for case in CASES:
        ids = ",".join(map(str, case["tokens"]))
        for pooling in ("last", "mean", "cls"):
            status, found, err = embed(program, model, "--tokens", ids, "--pooling", pooling, "--no-normalise")
            check(status == 0 and found["tokens"] == [len(case["tokens"])] and not found["normalised"], err)
            expect_near(found["embeddings"][0], case["first" if pooling == "cls" else pooling], f"{len(case['tokens'])} tokens, {pooling}")
    status, found, err = embed(program, model, "--tokens", ids)
    check(status == 0 and found["pooling"] == "last" and found["normalised"], err)
    expect_near(found["embeddings"][0], normed(CASES[-1]["last"]), "normalised")
    status, found, err = embed(program, model, "--tokens", ids, "--dimensions", 8)
    expect_near(found["embeddings"][0], normed(CASES[-1]["last"][:8]), "the first 8")
    status, lines, err = embed(program, model, "--lines", stdin='"hello"\n"a b"\n')
    check(status == 0 and len(lines["embeddings"]) == 2, err)
    status, texts, err = embed(program, model, "-t", "hello", "-t", "a b")
    check(status == 0 and texts == lines, "the same texts, another way in")
    for words, wanted in ((["--tokens", "3", "--pooling", "max"], "'max'"), (["--tokens", "3", "--dimensions", "99"], "99"), ([], "-t TEXT"),
                          (["--tokens", ",".join(["3"] * 129)], "129 tokens, at most 128"), (["--lines"], "nothing")):
        status, found, err = embed(program, model, *words, stdin="5\n" if words == ["--lines"] else None)
        check(status == 2, f"{words}: {status} {err}")
        check(wanted in err or words == ["--lines"], f"{words}: {err}")


def post(port, body):
    status, text = request(port, "POST", "/v1/embeddings", json.dumps(body))
    return status, json.loads(text)


def check_server(port, name):
    for case in CASES:
        for pooling in ("last", "mean", "first"):
            status, answer = post(port, {"model": name, "input": case["tokens"], "pooling": pooling, "normalize": False})
            check(status == 200 and answer["usage"] == {"prompt_tokens": len(case["tokens"]), "total_tokens": len(case["tokens"])}, str(answer))
            expect_near(answer["data"][0]["embedding"], case[pooling], f"served, {len(case['tokens'])} tokens, {pooling}")
    many = [case["tokens"] for case in CASES] * 30
    status, answer = post(port, {"input": many, "encoding_format": "base64"})
    check(status == 200 and [one["index"] for one in answer["data"]] == list(range(len(many))), "90 texts, in order")
    for i, one in enumerate(answer["data"]):
        raw = base64.b64decode(one["embedding"], validate=True)
        expect_near(struct.unpack(f"<{len(raw) // 4}f", raw), normed(CASES[i % 3]["last"]), f"text {i} of 90, base64")
    check(answer["usage"]["prompt_tokens"] == sum(map(len, many)), "tokens of all")
    status, answer = post(port, {"input": ["hello", "a b"]})
    check(status == 200 and len(answer["data"]) == 2 and abs(math.hypot(*answer["data"][0]["embedding"]) - 1) < 1e-5, str(answer)[:200])
    for body, param in (({}, "input"), ({"input": ""}, "input"), ({"input": []}, "input"), ({"input": 5}, "input"), ({"input": [[]]}, "input[0]"),
                        ({"input": ["a", 1]}, "input[1]"), ({"input": "a", "dimensions": 4}, "dimensions"), ({"input": "a", "dimensions": 999}, "dimensions"),
                        ({"input": "a", "encoding_format": "x"}, "encoding_format"), ({"input": "a", "pooling": "max"}, "pooling"), ({"input": "a", "y": 1}, "y")):
        status, answer = post(port, body)
        check(status == 400 and answer["error"]["param"] == param, f"{body}: {status} {answer}")
    status, answer = post(port, {"input": ["a", "b" * 300]})
    check(status == 400 and answer["error"]["param"] == "input[1]" and "128" in answer["error"]["message"] and "30" in answer["error"]["message"], str(answer))
    status, answer = post(port, {"input": "a", "model": "other"})
    check(status == 404, str(answer))
    # Text at the same time, and somebody who does not wait.
    body = json.dumps({"input": many * 10}).encode()
    with socket.create_connection(("127.0.0.1", port)) as gone:
        gone.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
    status, text = request(port, "POST", "/v1/completions", json.dumps({"prompt": [5, 6], "max_tokens": 4, "ignore_eos": True}))
    check(status == 200 and json.loads(text)["usage"]["completion_tokens"] == 4, text)


def serve(program, model, *words):
    port = free_port()
    server = subprocess.Popen([program, "serve", model, "--port", str(port), *EXACT, "--api-key", "k", *words],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return port, server


def stop(server):
    server.terminate()
    check(server.wait(timeout=60) == 0, "an orderly end")


def check_files(program, model):
    """sentence-transformers' files choose the pooling, and open the route."""
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}))
    kinds = ("Transformer", "Pooling", "Normalize")
    (model / "modules.json").write_text(json.dumps([{"idx": i, "path": "1_Pooling" if k == "Pooling" else "", "type": f"sentence_transformers.models.{k}"}
                                                    for i, k in enumerate(kinds)]))
    port, server = serve(program, model)
    try:
        wait_until_ready(port, server)
        status, answer = post(port, {"input": CASES[1]["tokens"]})
        check(status == 200, str(answer))
        expect_near(answer["data"][0]["embedding"], normed(CASES[1]["mean"]), "as the files say")
    finally:
        stop(server)


def make_base(model):
    """The same weights as their base model alone has them: no head, and no "model." in front."""
    raw = (model / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, data, blob = json.loads(raw[8:8 + length]), raw[8 + length:], b""
    kept = {}
    for name, entry in header.items():
        if not name.startswith("model."):
            continue
        begin, end = entry["data_offsets"]
        kept[name.removeprefix("model.")] = {**entry, "data_offsets": [len(blob), len(blob) + end - begin]}
        blob += data[begin:end]
    text = json.dumps(kept).encode()
    text += b" " * (-len(text) % 8)
    (model / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + blob)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "architectures": ["LlamaModel"], "tie_word_embeddings": False}))


def check_base(program, model):
    make_base(model)
    case = CASES[1]
    status, found, err = embed(program, model, "--tokens", ",".join(map(str, case["tokens"])), "--pooling", "last", "--no-normalise")
    check(status == 0, err)
    expect_near(found["embeddings"][0], case["last"], "a base model")
    refused = subprocess.run([program, "run", model, "--tokens", "3", "--json"], capture_output=True, text=True, timeout=60)
    check(refused.returncode == 2 and "embeddings alone" in refused.stderr, refused.stderr)
    port, server = serve(program, model)
    try:
        wait_until_ready(port, server)
        status, answer = post(port, {"input": case["tokens"], "pooling": "last", "normalize": False})
        check(status == 200, str(answer))
        expect_near(answer["data"][0]["embedding"], case["last"], "a base model, served")
        status, text = request(port, "POST", "/v1/completions", json.dumps({"prompt": [5], "max_tokens": 1}))
        check(status in (400, 501) and "embeddings alone" in text, f"{status} {text}")
    finally:
        stop(server)


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="firstlight-embed-") as folder:
        model = pathlib.Path(folder)
        make_model(model)
        check_verb(program, model)
        port, server = serve(program, model)
        try:
            wait_until_ready(port, server)
            status, answer = post(port, {"input": "a"})
            check(status == 404 and "--embeddings" in answer["error"]["message"], str(answer))
        finally:
            stop(server)
        port, server = serve(program, model, "--embeddings")
        try:
            wait_until_ready(port, server)
            check_server(port, model.name)
        finally:
            stop(server)
        check_files(program, model)
        check_base(program, model)
    print("ok")


if __name__ == "__main__":
    main()
