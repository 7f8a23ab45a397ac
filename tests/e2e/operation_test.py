#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`firstlight serve` as its operators meet it: liveness under load, the bound of the queue, time-outs, clients that
leave, limits that name both numbers, log lines, traces, and orderly and hasty ends. Standard library only.

    operation_test.py PROGRAM
"""

import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import serve_test

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
LONG = {"prompt": [5, 6, 7], "max_tokens": 4000, "ignore_eos": True, "temperature": 0, "stream": True}


def make_model(folder):
    serve_test.make_model(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 8192}))


@contextlib.contextmanager
def serving(*flags):
    """A ready server: its port, the process and the file its log goes to."""
    with tempfile.TemporaryDirectory() as folder:
        make_model(pathlib.Path(folder))
        port = serve_test.free_port()
        log = pathlib.Path(folder) / "log"
        command = [sys.argv[1], "serve", folder, "--backend", "reference", "--port", str(port), "--log-format", "json", *flags]
        with log.open("wb") as file:
            program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file)
        try:
            serve_test.wait_until_ready(port, program)
            yield port, program, log
        finally:
            program.kill()
            program.wait()


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    raw = body if isinstance(body, (str, bytes, type(None))) else json.dumps(body)
    connection.request(method, path, raw, {"Content-Type": "application/json", **(headers or {})})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text, response.headers


def begin(port, body, path=TEXT):
    """A request whose answer has begun or that waits; the socket."""
    raw = json.dumps(body).encode()
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(b"POST %s HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(raw)) + raw)
    return client


def read_to_end(client):
    text = b""
    while part := client.recv(65536):
        text += part
        if text.endswith(b"0\r\n\r\n"):
            break
    return text.decode()


def metric(port, name):
    text = ask(port, "GET", "/metrics")[1]
    return sum(float(line.split()[-1]) for line in text.splitlines()
               if line.startswith((name + " ", name + "{")))


def wait_for(port, name, value, seconds=30):
    deadline = time.monotonic() + seconds
    while metric(port, name) != value:
        assert time.monotonic() < deadline, f"{name} is {metric(port, name)}, {value} wanted"
        time.sleep(0.01)


def code_of(text):
    return json.loads(text)["error"]["code"]


def check_health_under_load(port, _program, _log):
    """Long prompts are computed and large texts tokenised; /health answers within 50 ms in 99 of 100 cases."""
    stop = threading.Event()
    text = json.dumps({"prompt": "a b c d " * 120_000, "max_tokens": 1})
    prompt = json.dumps({"prompt": [5 + i % 50 for i in range(6000)], "max_tokens": 1})

    def press(path, body):
        while not stop.is_set():
            ask(port, "POST", path, body)

    def measure():
        times, noise = [], []
        while len(times) < 200:
            start = time.monotonic()
            status = ask(port, "GET", "/health")[0]
            times.append(time.monotonic() - start)
            assert status == 200
            start = time.monotonic()
            time.sleep(0.005)
            noise.append(time.monotonic() - start - 0.005)
        return sorted(times)[198], sorted(noise)[198]

    before = metric(port, "firstlight_prompt_tokens_total")
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        loads = [pool.submit(press, *args) for args in ((TEXT, prompt), (TEXT, prompt), (TEXT, text), (TEXT, text))]
        # The best of three: others may use this machine too.
        p99, noise = min(measure() for _ in range(3))
        busy = metric(port, "firstlight_prompt_tokens_total") - before
        stop.set()
        for load in loads:
            load.result()
    print(f"/health under load: p99 {1000 * p99:.1f} ms; of this client's own waits {1000 * noise:.1f} ms")
    assert p99 < 0.05 + noise, f"p99 {p99} s, {noise} s of it for want of a processor"
    assert busy > 0, "there was no load"


def check_queue_bound(port, _program, _log):
    """One runs and two wait (--max-sequences 1 --max-waiting 2); the next is told to come back."""
    clients = [begin(port, LONG)]
    wait_for(port, "firstlight_requests_running", 1)
    clients += [begin(port, LONG) for _ in range(2)]
    wait_for(port, "firstlight_requests_waiting", 2)
    for path, body in ((TEXT, LONG), (CHAT, {"messages": [{"role": "user", "content": "hi"}]})):
        status, text, headers = ask(port, "POST", path, body)
        assert status == 429 and code_of(text) == "queue_full", text
        assert 1 <= int(headers["Retry-After"]) <= 60, headers["Retry-After"]
    assert ask(port, "GET", "/ready")[0] == 200, "full is not unready"
    status, text, _ = ask(port, "POST", TEXT, {**LONG, "n": 3})
    assert status == 400 and json.loads(text)["error"]["param"] == "n", "more choices than may ever wait"
    for client in clients:
        client.close()
    wait_for(port, "firstlight_requests_running", 0)


def check_leavers(port, _program, _log):
    """Who leaves ends within about a step; who waited never starts; all pages come back."""
    prompts = metric(port, "firstlight_prompt_tokens_total")
    running = begin(port, LONG)
    running.recv(1000)
    waiting = begin(port, {**LONG, "prompt": [9] * 500})
    wait_for(port, "firstlight_requests_waiting", 1)
    waiting.close()
    wait_for(port, "firstlight_requests_waiting", 0)
    running.close()
    steps = metric(port, "firstlight_step_tokens_count")
    wait_for(port, "firstlight_requests_running", 0)
    later = metric(port, "firstlight_step_tokens_count") - steps
    assert later <= 200, f"{later} of some 4,000 steps after its client had gone"
    assert metric(port, "firstlight_prompt_tokens_total") - prompts <= 3, "one that waited was computed"
    ask(port, "POST", TEXT, {"prompt": [5], "max_tokens": 1})
    deadline = time.monotonic() + 10
    while metric(port, "firstlight_state_bytes") != metric(port, "firstlight_state_reusable_bytes"):
        assert time.monotonic() < deadline, "pages are still held"
        time.sleep(0.01)


def check_time_outs(port, _program, _log):
    """The field `timeout`: of one that runs and of one that waits."""
    start = time.monotonic()
    running = begin(port, {**LONG, "timeout": 1})
    running.recv(1000)
    status, text, _ = ask(port, "POST", TEXT, {**LONG, "stream": False, "timeout": 0.2})
    assert status == 504 and code_of(text) == "timeout" and "0.2 seconds" in text, text
    rest = read_to_end(running)
    assert '"code":"timeout"' in rest and rest.rstrip().endswith("0"), rest[-300:]
    assert 0.9 < time.monotonic() - start
    wait_for(port, "firstlight_requests_running", 0)
    status, text, _ = ask(port, "POST", TEXT, {**LONG, "timeout": 21})  # --request-timeout 20
    assert status == 400 and "21" in text and "20" in text, text


def check_limits(port, _program, _log):
    """413 and 400 name what came and what is taken, on every endpoint."""
    for path in (CHAT, TEXT, "/tokenize", "/detokenize"):
        status, text, _ = ask(port, "POST", path, b"x" * ((1 << 20) + 1))  # --max-body 1MB
        assert status == 413 and "1048577" in text and "1048576" in text, f"{path}: {status} {text}"
    for path, body in ((TEXT, {"prompt": [5] * 9000}), (TEXT, {"prompt": "a" * 9000}),
                       (CHAT, {"messages": [{"role": "user", "content": "a" * 9000}]})):
        status, text, _ = ask(port, "POST", path, body)
        assert status == 400 and code_of(text) == "context_length_exceeded" and "8192" in text, f"{path}: {text}"
    for path, body in ((TEXT, {"prompt": [5] * 8000, "max_tokens": 200}),
                       (CHAT, {"messages": [{"role": "user", "content": "a" * 8000}], "max_tokens": 200})):
        status, text, _ = ask(port, "POST", path, body)
        assert status == 400 and "200" in text and "8192" in text, f"{path}: {text}"


def check_log_and_trace(port, _program, log):
    """A line per request without its words; the spans of one that asks."""
    body = {"messages": [{"role": "user", "content": "unspeakable"}], "max_tokens": 5, "ignore_eos": True, "user": "ann"}
    status, _, headers = ask(port, "POST", CHAT, body, {"X-Request-Id": "order-7", "X-Trace": "1"})
    assert status == 200 and headers["X-Request-Id"] == "order-7"
    odd = ask(port, "POST", CHAT, {**body, "temperature": 9}, {"X-Request-Id": "a b\t<c>"})[2]["X-Request-Id"]
    assert odd.startswith("req-"), odd
    assert ask(port, "POST", "/tokenize", {"prompt": "unspeakable"}, {"X-Request-Id": "tokens"})[0] == 200
    lines = {}
    for line in log.read_text().splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            lines[entry.get("id")] = entry
    good, bad = lines["order-7"], lines[odd]
    wanted = {"message": "request", "status": 200, "route": CHAT, "client": "ann", "output_tokens": 5, "finish": "length",
              "peer": "127.0.0.1", "choices": 1, "stream": 0, "cached_tokens": 0}
    assert {k: good.get(k) for k in wanted} == wanted, good
    assert good["prompt_tokens"] > 10 and 0 < good["queue_s"] <= good["first_token_s"] <= good["total_s"], good
    assert lines["tokens"]["status"] == 200 and lines["tokens"]["route"] == "/tokenize", lines["tokens"]
    assert bad["status"] == 400 and bad["error"] == "temperature", bad
    assert "unspeakable" not in log.read_text(), "words of a prompt in the log"
    trace = json.loads(ask(port, "GET", "/v1/traces/order-7")[1])
    spans = {event["name"]: event for event in trace["traceEvents"]}
    assert list(spans) == ["wait", "prepare", "queue", "prefill", "decode"], list(spans)
    end = 0
    for span in spans.values():
        assert abs(span["ts"] - end) < 1 and span["ph"] == "X", "spans follow each other"
        end = span["ts"] + span["dur"]
    assert abs(end / 1e6 - good["total_s"]) < 1e-3, (end, good["total_s"])
    assert ask(port, "GET", f"/v1/traces/{odd}")[0] == 404, "nobody asked for it"


def check_drain():
    """SIGTERM: not ready at once, nothing new, what runs ends as it would have, exit status 0."""
    with serving("--trace-requests") as (port, program, _):
        client = begin(port, {**LONG, "max_tokens": 1500})  # still running when all that follows has been asked
        client.recv(1000)
        ask(port, "POST", TEXT, {"prompt": [5], "max_tokens": 1}, {"X-Request-Id": "all"})
        assert ask(port, "GET", "/v1/traces/all")[0] == 200, "--trace-requests"
        program.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        while ask(port, "GET", "/ready")[0] == 200:
            assert time.monotonic() < deadline, "ready after SIGTERM"
        status, text, _ = ask(port, "GET", "/ready")
        assert status == 503 and json.loads(text)["reason"] == "draining", text
        status, text, headers = ask(port, "POST", TEXT, LONG)
        assert status == 503 and code_of(text) == "draining" and int(headers["Retry-After"]) >= 1, text
        assert ask(port, "GET", "/health")[0] == 200
        rest = read_to_end(client)
        assert '"finish_reason":"length"' in rest and "data: [DONE]" in rest, rest[-300:]
        client.close()
        assert program.wait(timeout=60) == 0
        with contextlib.suppress(ConnectionError):
            ask(port, "GET", "/health")
            raise AssertionError("it still listens")


def check_hasty_end(second_signal):
    """What runs at the end of --drain-timeout, or at a second signal, gets an error that says so."""
    with serving("--drain-timeout", "60" if second_signal else "0.5") as (port, program, _):
        client = begin(port, LONG)
        client.recv(1000)
        program.send_signal(signal.SIGTERM)
        if second_signal:
            while ask(port, "GET", "/ready")[0] == 200:
                pass
            program.send_signal(signal.SIGINT)
        rest = read_to_end(client)
        assert '"code":"shutting_down"' in rest and "data: [DONE]" in rest, rest[-300:]
        client.close()
        assert program.wait(timeout=60) == 0


def check_refused_flags(program):
    """What would be taken as if it were not there, or let no request through, is refused before anything is loaded."""
    for verb, flag, value, wanted in (("serve", "--api-key", "", "an empty value"),
                                      ("serve", "--request-timeout", "nan", "seconds wanted"),
                                      ("serve", "--drain-timeout", "inf", "seconds wanted"),
                                      ("serve", "--max-body", "0", "from 1 up"),
                                      ("run", "--regex", "", "an empty value"),
                                      ("run", "--json-schema", "", "an empty value"),
                                      ("run", "--grammar", "", "an empty value"),
                                      ("run", "--stop", "", "an empty value")):
        done = subprocess.run([program, verb, "MODEL", f"{flag}={value}"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and flag in done.stderr and wanted in done.stderr, (flag, done)


def main():
    failures = 0

    def run(name, check, *arguments):
        nonlocal failures
        start = time.monotonic()
        try:
            check(*arguments)
            print(f"passed {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception as error:  # every check is told, whatever went wrong in it
            failures += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)

    with serving("--max-sequences", "1", "--max-waiting", "2", "--max-body", "1MB", "--request-timeout", "20") as server:
        for check in (check_log_and_trace, check_limits, check_queue_bound, check_leavers, check_time_outs,
                      check_health_under_load):
            run(check.__name__, check, *server)
    run("refused flags", check_refused_flags, sys.argv[1])
    run("drain", check_drain)
    run("end of the drain's time", check_hasty_end, False)
    run("second signal", check_hasty_end, True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
