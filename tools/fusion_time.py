#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What fusion is worth on a model: kernel launches and bytes moved per layer with all passes and with none, and the time
of a token, the two measured in turns in one run.

    fusion_time.py PROGRAM MODEL [--rounds N] [--threads N] [--decode N] [--without PASS,PASS]

Prints a table; `--without` leaves single passes out instead of all. Standard library only."""

import argparse
import json
import statistics
import subprocess


def run(program, verb, model, *words):
    command = [program, verb, model, "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-400:]}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--without", default="all")
    options = parser.parse_args()
    off = [word for name in options.without.split(",") for word in ("--no-pass", name)]
    fused = run(options.program, "graph", options.model, "--stage", "plan")["decode"]
    plain = run(options.program, "graph", options.model, "--stage", "plan", *off)["decode"]
    print(f"{'':10} {'launches':>10} {'activations':>12} {'weights':>14}")
    for name, found in [("all passes", fused), (f"without {options.without}", plain)]:
        print(f"{name:10} {found['launches']:10} {found['activation_bytes']:12} {found['weight_bytes']:14}")
    for after, before in zip(fused["layers"], plain["layers"]):
        print(f"layer {after['layer']:3}: launches {before['launches']} -> {after['launches']}, "
              f"activation bytes {before['activation_bytes']} -> {after['activation_bytes']}")
    speeds = {"fused": [], "plain": []}
    for _ in range(options.rounds):
        for name, words in [("fused", []), ("plain", off)]:
            row = run(options.program, "bench", options.model, "--prompt", "16", "--decode", str(options.decode),
                      "--threads", str(options.threads), *words)["rows"][0]
            speeds[name].append(row["decode_tps"])
    fused_tps, plain_tps = (statistics.median(speeds[name]) for name in ("fused", "plain"))
    print(f"tokens per second: {plain_tps:.1f} -> {fused_tps:.1f} ({fused_tps / plain_tps:.2f}x), median of {options.rounds}")


if __name__ == "__main__":
    main()
