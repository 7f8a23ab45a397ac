#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`firstlight serve` as its users meet it: a tiny golden checkpoint with a tokenizer of single characters, the cases of
serve_cases.json, clients that hang up, load, and an orderly end. Standard library only.

    serve_test.py PROGRAM
"""

import concurrent.futures
import http.client
import json
import math
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden" / "data" / "llama"
TEMPLATE = (
    "{{ bos_token }}{% if messages[0].role == 'assistant' %}{{ raise_exception('users come first') }}{% endif %}"
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789 \n.,:;!?'-()[]<>/_*+=ABCD"


def make_model(folder, golden=GOLDEN):
    """The golden checkpoint with a tokenizer; returns the vocabulary by id."""
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((golden / name).read_bytes())
    special = ["<unk>", "<s>", "</s>"]
    pieces = special + list(CHARACTERS)
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": s, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
            for i, s in enumerate(special)
        ],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "unk_token": "<unk>", "vocab": {p: i for i, p in enumerate(pieces)}, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return pieces


CLAIMS = []  # of this process, as long as it lives


def free_port():
    """A port for a server that is started later: none of those that the system gives to connections meanwhile, and nobody
    else's who asks here."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        end = min(int(file.read().split()[0]), 32768)
    while True:
        port = random.randrange(end - min(20000, end // 2), end)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0firstlight test port {port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        CLAIMS.append(claim)
        return port


def request(port, method, path, body=None, key="k"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if key:
        headers["Authorization"] = "Bearer " + key
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def filled(value, names):
    """The value with "$name" replaced, at any depth."""
    if isinstance(value, str) and value.startswith("$"):
        return names[value[1:]]
    if isinstance(value, list):
        return [filled(v, names) for v in value]
    if isinstance(value, dict):
        return {k: filled(v, names) for k, v in value.items()}
    return value


def at(document, path):
    for part in path.split("."):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def read_stream(text):
    """Texts and finish reasons by choice; checks the shape."""
    events = text.split("\n\n")
    assert events.pop() == "" and events.pop() == "data: [DONE]", text[-200:]
    texts, finishes, ids = {}, {}, set()
    for event in events:
        assert event.startswith("data: "), event
        chunk = json.loads(event[6:])
        ids.add(chunk["id"])
        for choice in chunk["choices"]:
            index = choice["index"]
            assert index not in finishes, "a chunk after the finish"
            if "delta" in choice:
                assert index in texts or choice["delta"].get("role") == "assistant", "the role comes first"
            piece = choice["text"] if "text" in choice else choice["delta"].get("content", "")
            texts[index] = texts.get(index, "") + piece
            if choice["finish_reason"] is not None:
                finishes[index] = choice["finish_reason"]
    assert len(ids) == 1, "one id per stream"
    assert sorted(texts) == sorted(finishes), "one finish per choice"
    return [texts[i] for i in sorted(texts)], [finishes[i] for i in sorted(finishes)]


def check_case(port, case, names):
    method = "GET" if "get" in case else "POST"
    body = None
    if method == "POST":
        body = case["raw"] if "raw" in case else json.dumps(filled(case["body"], names))
    status, text = request(port, method, case.get("get") or case["post"], body)
    assert status == case["status"], f"status {status}: {text[:300]}"
    if "contains" in case:
        assert case["contains"] in text, text[:300]
    if case.get("stream"):
        texts, finishes = read_stream(text)
        assert finishes == case["finishes"], finishes
        if "texts" in case:
            assert texts == filled(case["texts"], names), texts
        return
    for path, wanted in filled(case.get("is", {}), names).items():
        assert at(json.loads(text), path) == wanted, f"{path}: {at(json.loads(text), path)!r}, {wanted!r} wanted"
    for path in case.get("has", []):
        assert at(json.loads(text), path) is not None, f"{path} is missing"


def gauge(port, name):
    _, text = request(port, "GET", "/metrics")
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " "))


def check_hang_ups(port, names):
    """Clients that go away in mid-stream: their requests end, and all state is given back."""
    body = json.dumps({"prompt": names["prompt"], "n": 4, "stream": True, "ignore_eos": True, "max_tokens": 80})
    head = f"POST /v1/completions HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer k\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall((head + body).encode())
            client.recv(200)
    deadline = time.monotonic() + 30
    while gauge(port, "firstlight_requests_running") or gauge(port, "firstlight_http_requests_in_flight"):
        assert time.monotonic() < deadline, "requests of clients that are gone still run"
        time.sleep(0.05)
    # The engine tells the state it holds with each step: one more request, and it must be all there is.
    request(port, "POST", "/v1/completions", json.dumps({"prompt": names["prompt"], "max_tokens": 2}))
    while gauge(port, "firstlight_state_bytes") != 0:  # told at the end of a step, a moment after the answer
        assert time.monotonic() < deadline, "state of requests that have ended is still held"
        time.sleep(0.01)


def check_load(port, names):
    """Many clients at once get what each gets alone; liveness answers meanwhile."""
    body = json.dumps({"prompt": names["prompt"], "max_tokens": 16, "temperature": 0, "skip_special_tokens": False})
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        answers = [pool.submit(request, port, "POST", "/v1/completions", body) for _ in range(24)]
        started = time.monotonic()
        assert request(port, "GET", "/health")[0] == 200
        assert time.monotonic() - started < 5
        for answer in answers:
            status, text = answer.result()
            assert status == 200 and json.loads(text)["choices"][0]["text"] == names["continuation"], text[:300]


def check_scores(port, names, folder):
    """A prompt's log-probabilities are those of `firstlight logits`, cached beginning or not, streamed or not."""
    ids = names["prompt"]
    command = [sys.argv[1], "logits", folder, "--backend", "reference", "--json", "--tokens", ",".join(map(str, ids))]
    rows = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["logits"]
    sums = [math.log(sum(math.exp(x) for x in row)) for row in rows]
    wanted = [rows[i][ids[i + 1]] - sums[i] for i in range(len(ids) - 1)]
    body = {"prompt": [ids, ids[:5]], "n": 2, "max_tokens": 0, "echo": True, "logprobs": 1, "skip_special_tokens": False,
            "ignore_eos": True}
    for tokens in (0, 2):
        body["max_tokens"] = tokens
        answer = json.loads(request(port, "POST", "/v1/completions", json.dumps(body))[1])
        stream = request(port, "POST", "/v1/completions", json.dumps({**body, "stream": True}))[1]
        chunks = [json.loads(event[6:])["choices"][0] for event in stream.split("\n\n")[:-2]]
        for choice in answer["choices"]:
            length = len(ids) if choice["index"] < 2 else 5
            told = choice["logprobs"]
            streamed = [x for chunk in chunks if chunk["index"] == choice["index"]
                        for x in chunk["logprobs"]["token_logprobs"]]
            for found in (told["token_logprobs"], streamed):
                assert len(found) == length + tokens and found[0] is None, found
                assert all(abs(a - b) < 1e-4 for a, b in zip(found[1:length], wanted)), found
            assert told["top_logprobs"][0] is None
            for i in range(1, length):
                assert abs(max(told["top_logprobs"][i].values()) - (max(rows[i - 1]) - sums[i - 1])) < 1e-4
            assert "".join(told["tokens"]) == choice["text"], choice
            assert [choice["text"][at:at + 1] for at in told["text_offset"][3:]] == [t[:1] for t in told["tokens"][3:]]


def check_port_in_use(command, port):
    """A mistake of whoever starts it, as a wrong flag is."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and f"port {port}" in done.stderr, done


def spoil_row(path, tensor, row):
    """Puts NaN into one row of a float32 matrix of a safetensors file."""
    raw = bytearray(path.read_bytes())
    length = int.from_bytes(raw[:8], "little")
    entry = json.loads(raw[8:8 + length])[tensor]
    columns = entry["shape"][1]
    begin = 8 + length + entry["data_offsets"][0] + 4 * columns * row
    raw[begin:begin + 4 * columns] = b"\x00\x00\xc0\x7f" * columns
    path.write_bytes(raw)


def check_no_number(names):
    """A model whose logits are no numbers after one token: that request fails with the cause, and others do not."""
    broken = names["prompt"][0]
    with tempfile.TemporaryDirectory() as folder:
        make_model(pathlib.Path(folder))
        spoil_row(pathlib.Path(folder) / "model.safetensors", "model.embed_tokens.weight", broken)
        port = free_port()
        command = [sys.argv[1], "serve", folder, "--backend", "reference", "--port", str(port)]
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until_ready(port, program)
            fine = [i for i in names["prompt"] if i != broken]
            for prompt, wanted in ((fine, 200), ([*fine, broken], 500), (fine, 200)):
                for temperature in (0, 1):
                    wait_until_ready(port, program)  # such logits are a fault: the golden prompt is checked again
                    body = json.dumps({"prompt": prompt, "max_tokens": 1, "temperature": temperature})
                    status, text = request(port, "POST", "/v1/completions", body)
                    check_status(status, wanted)
                    assert wanted == 200 or "NaN" in json.loads(text)["error"]["message"], text
            wait_until_ready(port, program)
            body = json.dumps({"prompt": [*fine, broken], "max_tokens": 1, "stream": True})
            assert "NaN" in request(port, "POST", "/v1/completions", body)[1]
            wait_until_ready(port, program)
            checks = gauge(port, 'firstlight_golden_checks_total{result="passed"}')
            assert checks == 4, f"{checks} checks, one at the start and one for each fault wanted"
        finally:
            program.kill()
            program.wait()


def wait_until_ready(port, program):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert program.poll() is None, f"the program ended with {program.returncode}"
        try:
            if request(port, "GET", "/ready")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError("not ready in time")


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        pieces = make_model(pathlib.Path(folder))
        golden = json.loads((GOLDEN / "golden.json").read_text())
        names = {
            "prompt": golden["prompt"],
            "prompt_tokens": len(golden["prompt"]),
            "continuation": "".join(pieces[i] for i in golden["continuation"]),
            "too_long": [5] * 5000,
        }
        port = free_port()
        command = [sys.argv[1], "serve", folder, "--backend", "reference", "--port", str(port), "--api-key", "k"]
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_until_ready(port, program)
            checks = [(case["name"], lambda case=case: check_case(port, case, names))
                      for case in json.loads((HERE / "serve_cases.json").read_text())]
            checks.append(("wrong key", lambda: check_status(request(port, "GET", "/v1/models", key="x")[0], 401)))
            checks.append(("hang-ups", lambda: check_hang_ups(port, names)))
            checks.append(("a port in use", lambda: check_port_in_use(command, port)))
            checks.append(("scores of prompts", lambda: check_scores(port, names, folder)))
            checks.append(("load", lambda: check_load(port, names)))
            checks.append(("logits that are no numbers", lambda: check_no_number(names)))
            for name, check in checks:
                try:
                    check()
                except Exception as error:  # every case is told, whatever went wrong in it
                    failures += 1
                    print(f"FAILED {name}: {type(error).__name__}: {error}")
            # Nothing runs any more: the end must not wait for connections whose clients are gone.
            program.send_signal(signal.SIGTERM)
            assert program.wait(timeout=10) == 0, f"exit status {program.returncode} after SIGTERM"
        finally:
            program.kill()
            program.wait()
        print(f"{len(checks)} checks, {failures} failed")
    return 1 if failures else 0


def check_status(found, wanted):
    assert found == wanted, f"status {found}, {wanted} wanted"


if __name__ == "__main__":
    sys.exit(main())
