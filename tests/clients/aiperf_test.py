#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A load generator's view: NVIDIA's aiperf streams chats and completions at concurrency, and all its requests are answered
with the tokens it asked for.

    FIRSTLIGHT_CLIENTS=VENV aiperf_test.py PROGRAM
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import clients

NUM_REQUESTS, NUM_TOKENS, CONCURRENCY = 60, 20, 16


def profile(aiperf, model, port, kind, out):
    """What aiperf measured, after its own checks."""
    command = [aiperf, "profile", "-m", model.name, "--url", f"http://127.0.0.1:{port}", "--endpoint-type", kind, "--streaming", "--ui", "none",
               "--concurrency", str(CONCURRENCY), "--request-count", str(NUM_REQUESTS), "--tokenizer", str(model), "--isl", "100", "--osl",
               str(NUM_TOKENS), "--extra-inputs", "ignore_eos:true", "--extra-inputs", "skip_special_tokens:false", "--random-seed", "1",
               "--api-key", "k", "--artifact-dir", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    found = json.loads(next(out.rglob("profile_export_aiperf.json")).read_text())
    assert found["request_count"]["avg"] == NUM_REQUESTS, found["request_count"]
    assert not found.get("error_summary") and not found.get("was_cancelled"), found.get("error_summary")
    # It counts by reading the text again, which can join or drop a token at an edge.
    tokens = found["output_sequence_length"]
    assert 0.8 * NUM_TOKENS <= tokens["avg"] <= NUM_TOKENS + 1, tokens
    return found


def main():
    aiperf = shutil.which("aiperf", path=str(pathlib.Path(os.environ.get("FIRSTLIGHT_CLIENTS", "nowhere")) / "bin")) or shutil.which("aiperf")
    if aiperf is None:
        print("SKIPPED: no aiperf; FIRSTLIGHT_CLIENTS names no environment that has it (make check-clients makes one)")
        return clients.SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "tiny"
        model.mkdir()
        clients.make_model(model)
        with clients.served(sys.argv[1], model, "--api-key", "k") as port:
            for kind in ("chat", "completions"):
                found = profile(aiperf, model, port, kind, pathlib.Path(folder) / kind)
                figures = ", ".join(f"{name} {found[field]['avg']:.1f} {found[field]['unit']}" for name, field in (
                    ("first token", "time_to_first_token"), ("between tokens", "inter_token_latency"), ("throughput", "output_token_throughput")))
                print(f"{kind}: {NUM_REQUESTS} requests, {CONCURRENCY} at a time: {figures}")
            metrics = clients.serve_test.request(port, "GET", "/metrics")[1]
            ended = {line.split('"')[1]: float(line.split()[-1]) for line in metrics.splitlines() if line.startswith("firstlight_requests_total{")}
            assert ended.get("length", 0) >= 2 * NUM_REQUESTS, ended
    return 0


if __name__ == "__main__":
    sys.exit(main())
