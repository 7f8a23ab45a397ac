#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What fusion and memory planning are worth, as `graph --stage plan --json` says it.

    fusion_test.py PROGRAM [CONFIGS]

Golden checkpoints: at least half of the kernel launches per layer go, and fewer bytes are moved. With CONFIGS, a folder
of released configs: plans from the configs alone, whose arena is within a tenth of the lower bound. Standard library
only. Exit status 77 where CONFIGS is wanted and absent."""

import json
import pathlib
import subprocess
import sys

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "data"
# Launches per layer must at least halve: dense models, mixtures of experts, recurrent ones (minimax, lfm2).
CHECKPOINTS = ["smollm2", "llama", "phi3", "qwen3", "gemma3", "qwen3_moe", "glm4_moe", "minimax", "lfm2"]
# Named by the folder in CONFIGS.
CONFIGS = ["DeepSeek-V3", "Qwen3-Next-80B-A3B-Instruct", "GLM-5", "gpt-oss-120b", "Gemma-3-27b-it"]


def plan(program, model, *flags):
    command = [program, "graph", str(model), "--stage", "plan", "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"
    found = json.loads(done.stdout)
    del found["text"]
    return found, ""


def check_checkpoint(program, name):
    model = GOLDEN / name
    fused, why = plan(program, model)
    assert fused, f"{name}: {why}"
    plain, why = plan(program, model, "--no-pass", "all")
    assert plain, f"{name}: {why}"
    for after, before in zip(fused["decode"]["layers"], plain["decode"]["layers"]):
        assert after["layer"] == before["layer"]
        ratio = before["launches"] / after["launches"]
        print(f"{name:12} layer {after['layer']}: {before['launches']:3} launches, fused {after['launches']:3} ({ratio:.1f}x); "
              f"{before['activation_bytes']:6} bytes moved, fused {after['activation_bytes']:6}")
        assert ratio >= 2, f"{name}: {before['launches']} launches became {after['launches']}"
        assert after["activation_bytes"] < before["activation_bytes"]
    assert fused["lower_bound_bytes"] <= fused["arena_bytes"] <= fused["sum_bytes"]


def check_config(program, folder):
    found, why = plan(program, folder)
    assert found, f"{folder.name}: {why}"
    arena, least, total = found["arena_bytes"], found["lower_bound_bytes"], found["sum_bytes"]
    print(f"{folder.name:28} arena {arena / 2**20:8.1f} MiB, lower bound {least / 2**20:8.1f} MiB ({arena / least:.3f}x), "
          f"sum {total / 2**20:9.1f} MiB, {found['steps']} steps")
    assert least <= arena <= least * 1.1, f"{folder.name}: {arena} bytes, at least {least} needed"


def main():
    program = sys.argv[1]
    if len(sys.argv) == 2:
        for name in CHECKPOINTS:
            check_checkpoint(program, name)
        return 0
    configs = pathlib.Path(sys.argv[2])
    if not configs.is_dir():
        print("needs shared data: configs")
        return 77
    for name in CONFIGS:
        check_config(program, configs / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
