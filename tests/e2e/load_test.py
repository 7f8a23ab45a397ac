#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`firstlight serve --invariant` under three times the load it can take: an open loop of requests for a few distinct
prompts of random lengths and priorities, in a thousand streams at once, with little room for state, so that requests
are put out, swapped and computed again. Some clients hang up, some give their request a short time. Each request must
end exactly once: as the text that the prompt gets alone (greedy, or drawn with a seed), as 429, or as its own cancellation; the server's counts must
add up to ours, all pages come back, and memory stays flat. Standard library only; loopback only.

    load_test.py PROGRAM [--requests N] [--streams N] [--prompts N] [--seed N] [--json FILE]
"""

import argparse
import asyncio
import collections
import json
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

import serve_test

LOAD = 3  # times the measured rate
EVENT = b"data: "
DONE = b"data: [DONE]"


def make_prompts(rng, count):
    """Distinct prompts as ids, some of which share a beginning, each with the length of its answer."""
    stems = [[rng.randrange(3, 64) for _ in range(rng.randrange(100, 300))] for _ in range(8)]
    prompts = []
    for i in range(count):
        stem = rng.choice(stems) if rng.random() < 0.3 else []
        length = int(2 ** rng.uniform(2, 7.5))
        prompts.append((stem + [rng.randrange(3, 64) for _ in range(length)] + [3 + i % 60, 3 + i // 60],
                        int(2 ** rng.uniform(2, 7))))
    return prompts


class Client(asyncio.Protocol):
    """One request on a connection of its own; reads to its end, or leaves after some events or some time."""

    def __init__(self, loop, request, leave_after_events=None):
        self.request, self.leave_after_events = request, leave_after_events
        self.received = bytearray()
        self.left = False
        self.first_event = None
        self.ended = loop.create_future()
        self.num_events = 0

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data):
        self.received += data
        if self.first_event is None and EVENT in data:
            self.first_event = time.monotonic()
        if self.leave_after_events is not None:
            self.num_events += data.count(EVENT)
            if self.num_events >= self.leave_after_events:
                self.leave()

    def leave(self):
        if not self.ended.done():
            self.left = True
            self.transport.abort()

    def connection_lost(self, _):
        if not self.ended.done():
            self.ended.set_result(None)


def http_request(body):
    raw = json.dumps(body).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(raw)) + raw


def read_answer(raw):
    """Status, headers and body of an answer; chunks are joined as far as they are whole."""
    head, _, rest = bytes(raw).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    if headers.get("transfer-encoding") != "chunked":
        return int(lines[0].split()[1]), headers, rest
    body = b""
    while True:
        size, mark, rest = rest.partition(b"\r\n")
        count = int(size, 16) if mark else 0
        if count == 0 or len(rest) < count + 2:
            return int(lines[0].split()[1]), headers, body
        body, rest = body + rest[:count], rest[count + 2:]


def read_events(body):
    """Text, finish reason, error and whether the end mark came, of a stream that may be cut."""
    text, finish, error, done = "", None, None, False
    for event in body.split(b"\n\n"):
        assert not (done and event), "something after the end mark"
        if event == DONE:
            done = True
        elif event.startswith(EVENT):
            chunk = json.loads(event[len(EVENT):])
            if "error" in chunk:
                error = chunk["error"]
                continue
            for choice in chunk["choices"]:
                assert finish is None, "text after the finish"
                text += choice["text"]
                finish = choice["finish_reason"]
    return text, finish, error, done


class Load:
    def __init__(self, port, prompts, rng):
        self.port, self.prompts, self.rng = port, prompts, rng
        self.alone = []  # (text, finish) of each prompt
        self.outcomes = collections.Counter()
        self.failures = []
        self.first_token_s, self.resident = [], []
        self.open_streams = self.most_streams = 0

    async def send(self, body, leave_after_events=None, leave_after_s=None):
        loop = asyncio.get_running_loop()
        client = Client(loop, http_request(body), leave_after_events)
        self.open_streams += 1
        self.most_streams = max(self.most_streams, self.open_streams)
        begin = time.monotonic()
        try:
            await loop.create_connection(lambda: client, "127.0.0.1", self.port)
            if leave_after_s is not None:
                loop.call_later(leave_after_s, client.leave)
            await client.ended
        finally:
            self.open_streams -= 1
        if client.first_event:
            self.first_token_s.append(client.first_event - begin)
        return client

    def body(self, index, **more):
        ids, length = self.prompts[index]
        choice = {"temperature": 0} if index % 2 else {"temperature": 0.8, "seed": index}
        return {"prompt": ids, "max_tokens": length, "ignore_eos": True, "stream": True, **choice, **more}

    async def learn(self):
        """What each prompt gets alone."""
        for index in range(len(self.prompts)):
            client = await self.send(self.body(index))
            status, _, body = read_answer(client.received)
            text, finish, error, done = read_events(body)
            assert status == 200 and done and finish == "length" and error is None, (status, body[-300:])
            self.alone.append(text)

    async def measure(self, count, streams):
        """Requests per second, as many streams at once as keep the engine busy."""
        indexes = iter([self.rng.randrange(len(self.prompts)) for _ in range(count)])

        async def worker():
            for index in indexes:
                await self.one(index, {})

        begin = time.monotonic()
        await asyncio.gather(*(worker() for _ in range(streams)))
        return count / (time.monotonic() - begin)

    async def one(self, index, options, **leave):
        try:
            client = await self.send(self.body(index, **options), **leave)
            self.outcomes[self.judge(index, options, client)] += 1
        except Exception as error:
            self.outcomes["failed"] += 1
            self.failures.append(f"prompt {index} {options} {leave}: {type(error).__name__}: {error}"[:300])

    def judge(self, index, options, client):
        """How a request ended; raises where it must not end so."""
        wanted = self.alone[index]
        if client.left:
            status, _, body = read_answer(client.received) if b"\r\n\r\n" in client.received else (0, {}, b"")
            text = read_events(body[:body.rfind(b"\n\n") + 2])[0] if status == 200 else ""
            assert status in (0, 200, 429), f"status {status} before it left"
            assert wanted.startswith(text), f"left with other text: {text!r}"
            return "left"
        status, headers, body = read_answer(client.received)
        if status == 429:
            assert int(headers["retry-after"]) >= 1, headers
            return "429"
        if status == 504:
            assert "timeout" in options, "a time-out that nobody asked for"
            return "timed out"
        assert status == 200, f"status {status}: {body[:200]!r}"
        text, finish, error, done = read_events(body)
        assert done, f"no end mark: {body[-200:]!r}"
        if error is not None:
            assert error["code"] == "timeout" and "timeout" in options, error
            assert finish is None and wanted.startswith(text), f"timed out with other text: {text!r}"
            return "timed out"
        assert finish == "length" and text == wanted, f"{finish}: {text!r}, {wanted!r} wanted"
        return "complete"

    def random_request(self):
        index = self.rng.randrange(len(self.prompts))
        options = {"priority": self.rng.choice((0, 0, 0, 0, 1, 5, -1)), "user": f"user {self.rng.randrange(20)}"}
        kind = self.rng.random()
        if kind < 0.06:
            return index, options, {"leave_after_events": self.rng.randrange(1, 20)}
        if kind < 0.12:
            return index, options, {"leave_after_s": self.rng.expovariate(2)}
        if kind < 0.17:
            options["timeout"] = round(10 ** self.rng.uniform(-2, 0.3), 3)
        return index, options, {}

    async def flood(self, count, rate):
        """An open loop: requests come when they come, whatever has become of the others. Returns the rate it came to: on
        a busy machine this client falls behind."""
        tasks, due = [], time.monotonic()
        begin = due
        for _ in range(count):
            due += self.rng.expovariate(rate)
            pause = due - time.monotonic()
            await asyncio.sleep(max(0, pause))
            index, options, leave = self.random_request()
            tasks.append(asyncio.create_task(self.one(index, options, **leave)))
        sent = count / (time.monotonic() - begin)
        await asyncio.gather(*tasks)
        return sent

    async def watch(self, period):
        while True:
            text = await asyncio.to_thread(metrics_text, self.port)
            self.resident.append(metric(text, "process_resident_memory_bytes"))
            await asyncio.sleep(period)


def metrics_text(port):
    return serve_test.request(port, "GET", "/metrics", key="")[1]


def metric(text, name):
    """The sum over a name's labels; `name` may have some."""
    found = re.findall(rf"^{re.escape(name)}({{[^}}]*}})? (\S+)$", text, re.M)
    return sum(float(value) for _, value in found)


def check_counts(before, after, outcomes, total):
    """The server's counts of this load against ours."""
    def grown(name):
        return metric(after, name) - metric(before, name)

    codes = {code: grown(f'firstlight_http_requests_total{{code="{code}",route="/v1/completions"}}')
             for code in (200, 429, 499, 504)}
    codes[200] -= 1  # of settle()
    # One that left may have been answered a moment before the server saw it go.
    others = grown('firstlight_http_requests_total{code="200",route="/metrics"}') + 1
    assert sum(codes.values()) == total == grown("firstlight_http_requests_total") - others, (codes, total)
    left = outcomes["left"]
    assert codes[504] == outcomes["timed out"], (codes, outcomes)
    for code, name in ((200, "complete"), (429, "429")):
        assert outcomes[name] <= codes[code] <= outcomes[name] + left, (codes, outcomes)
    ended = {reason: grown(f'firstlight_requests_total{{reason="{reason}"}}')
             for reason in ("stop", "length", "cancelled", "error")}
    ended["length"] -= 1  # of settle()
    assert ended["error"] == ended["stop"] == 0 and ended["length"] >= outcomes["complete"], (ended, outcomes)
    assert codes[200] <= sum(ended.values()) <= total - codes[429], (ended, codes)
    return codes, ended


def settle(port):
    """All pages come back once nothing runs."""
    deadline = time.monotonic() + 60
    serve_test.request(port, "POST", "/v1/completions", json.dumps({"prompt": [5], "max_tokens": 1, "ignore_eos": True}))
    while True:
        text = metrics_text(port)
        left = {name: metric(text, name) for name in
                ("firstlight_requests_waiting", "firstlight_requests_running", "firstlight_http_requests_in_flight",
                 "firstlight_swap_bytes")}
        left["pages"] = metric(text, "firstlight_state_bytes") - metric(text, "firstlight_state_reusable_bytes")
        if not any(left.values()):
            return text
        assert time.monotonic() < deadline, f"not given back: {left}"
        time.sleep(0.1)


def check_flat(resident):
    """Memory of the second half of the load is that of the first, give or take little."""
    half = len(resident) // 2
    first, second = max(resident[:half]), max(resident[half:])
    assert second <= 1.03 * first + (8 << 20), f"memory grows: {first} to {second} bytes"
    return first, second


async def run(arguments, port):
    rng = random.Random(arguments.seed)
    load = Load(port, make_prompts(rng, arguments.prompts), rng)
    await load.learn()
    rate = await load.measure(arguments.requests // 10, 48)
    assert load.outcomes == {"complete": arguments.requests // 10}, (load.outcomes, load.failures[:5])
    print(f"{rate:.0f} requests/s measured", flush=True)
    load.outcomes.clear()
    load.first_token_s.clear()
    load.most_streams = 0
    before = metrics_text(port)
    watch = asyncio.create_task(load.watch(0.1))
    begin = time.monotonic()
    sent = await load.flood(arguments.requests, LOAD * rate)
    seconds = time.monotonic() - begin
    watch.cancel()
    after = settle(port)
    for failure in load.failures[:10]:
        print("FAILED", failure)
    print(dict(load.outcomes), flush=True)
    codes, ended = check_counts(before, after, load.outcomes, arguments.requests)
    first, second = check_flat(load.resident)
    waits = sorted(load.first_token_s)
    figures = {
        "rate_measured": round(rate, 1), "rate_wanted": round(LOAD * rate, 1), "rate_sent": round(sent, 1), "seconds": round(seconds, 1),
        "most_streams": load.most_streams, "outcomes": dict(load.outcomes), "codes": codes,
        "ended": ended, "first_token_p50_s": round(waits[len(waits) // 2], 3),
        "first_token_p99_s": round(waits[len(waits) * 99 // 100], 3),
        "preemptions_swap": metric(after, 'firstlight_preemptions_total{kind="swap"}'),
        "preemptions_recompute": metric(after, 'firstlight_preemptions_total{kind="recompute"}'),
        "prefix_hit_tokens": metric(after, "firstlight_prefix_cache_hit_tokens_total"),
        "prefix_query_tokens": metric(after, "firstlight_prefix_cache_query_tokens_total"),
        "output_tokens": metric(after, "firstlight_output_tokens_total"),
        "resident_first_half": first, "resident_second_half": second, "resident_last": load.resident[-1],
    }
    print(json.dumps(figures, indent=1))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(figures, indent=1))
    assert not load.failures, f"{len(load.failures)} requests ended as they must not"
    assert load.outcomes["complete"] and load.outcomes["429"] and load.outcomes["left"] and load.outcomes["timed out"]
    assert figures["preemptions_swap"] and figures["preemptions_recompute"], "nothing was put out: too much room"
    if sent < 2 * rate:
        print(f"note: {sent:.0f} requests/s sent: on this machine, now, the client is the bottleneck")
    assert load.most_streams >= arguments.streams * 0.9, f"{load.most_streams} streams at once at most"


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--requests", type=int, default=1500)
    parser.add_argument("--streams", type=int, default=0, help="at once; 0: as many as the load comes to in this time")
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="write the figures to this file")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        serve_test.make_model(path)
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 1024}))
        port = serve_test.free_port()
        command = [arguments.program, "serve", folder, "--port", str(port), "--invariant", "--threads", "1",
                   "--max-sequences", "24", "--max-waiting", str(max(200, arguments.streams - 24)),
                   "--max-connections", str(2 * max(1000, arguments.streams)), "--state-bytes", "1MB",
                   "--swap-memory", "256KB", "--log-format", "json"]
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            serve_test.wait_until_ready(port, program)
            asyncio.run(run(arguments, port))
            program.send_signal(signal.SIGTERM)
            assert program.wait(timeout=20) == 0, f"exit status {program.returncode} after SIGTERM"
        finally:
            program.kill()
            program.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
