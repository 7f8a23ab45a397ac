#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The trained mini checkpoint stories260K in its Hugging Face and GGUF forms, on both backends: 200 greedy ids, and the
first logits within 1e-5 (reference, and cpu in float32) of an independent float64 run. Standard library only.

    stories260k_test.py PROGRAM FOLDER

Without FOLDER there is nothing to do: that is told in the result file that tools/check_skips.py reads.
"""

import json
import os
import pathlib
import subprocess
import sys

F32 = ["--compute", "f32", "--kv-dtype", "f32"]
WAYS = [(["--backend", "reference"], 1e-5), (["--backend", "cpu", *F32], 1e-5), (["--backend", "cpu"], None)]
SKIPPED = 77


def skip(message):
    print("skipped: " + message)
    output = os.environ.get("GTEST_OUTPUT", "")
    if output.startswith("xml:"):
        path = pathlib.Path(output[4:])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('<testsuites><testsuite name="stories260k"><testcase classname="stories260k" name="all">'
                        f'<skipped message="{message}"/></testcase></testsuite></testsuites>\n')
    return SKIPPED


def firstlight(program, *words):
    command = [program, *map(str, words), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout)


def check(program, model, flags, bound, expected):
    """(figure, verdict): the largest difference of the first logits, and what is wrong, if anything."""
    bos, greedy, wanted = expected["bos_id"], expected["greedy_ids"][1:], expected["logits_after_bos"]
    row = firstlight(program, "logits", model, "--tokens", bos, *flags)["logits"][0]
    worst = max(abs(a - b) for a, b in zip(row, wanted, strict=True))
    tokens = firstlight(program, "run", model, "--tokens", bos, "--raw", "--temperature", 0, "--ignore-eos",
                        "--max-tokens", len(greedy), *flags)["tokens"]
    if tokens != greedy:
        at = next((i for i, (a, b) in enumerate(zip(tokens, greedy)) if a != b), min(len(tokens), len(greedy)))
        return worst, f"greedy ids split at {at} of {len(greedy)}"
    if bound is not None and not worst <= bound:
        return worst, f"first logits off by {worst:.2e}, {bound} wanted"
    return worst, ""


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if not (folder / "expected.json").exists():
        return skip("needs shared data: checkpoints/stories260K")
    expected = json.loads((folder / "expected.json").read_text())
    failed = 0
    for model in (folder / "hf", folder / "stories260K-f32.gguf"):
        for flags, bound in WAYS:
            worst, fault = check(program, model, flags, bound, expected)
            failed += bool(fault)
            print(f"{'FAILED ' + fault if fault else 'passed'}: {model.name} {' '.join(flags)}: first logits {worst:.1e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
