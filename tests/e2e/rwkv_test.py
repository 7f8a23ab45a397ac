#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The trained mini checkpoint tiny-rwkv-5v2-730K in the two files of rwkv.cpp, on both backends: the logits after the bytes
of '"in' against those that rwkv.cpp's own tests expect, whole, in chunks and token by token. Standard library only.

    rwkv_test.py PROGRAM FOLDER

The expected logits are of weights in float32, so the file in float16 differs from them by what that rounds (the tests of
rwkv.cpp allow it a sum of differences of 0.46), and the one in Q5_0 by much more (25).
"""

import array
import json
import os
import pathlib
import subprocess
import sys

SKIPPED = 77
PROMPT = "34,105,110"
WAYS = [[], ["--chunk", 2], ["--stepwise"]]
BACKENDS = [["--backend", "reference"], ["--backend", "cpu", "--compute", "f32"], ["--backend", "cpu"]]
FILES = [("FP16", 5e-3, 0.46), ("Q5_0", 0.6, 30)]


def skip(message):
    print("skipped: " + message)
    output = os.environ.get("GTEST_OUTPUT", "")
    if output.startswith("xml:"):
        path = pathlib.Path(output[4:])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('<testsuites><testsuite name="rwkv"><testcase classname="rwkv" name="all">'
                        f'<skipped message="{message}"/></testcase></testsuite></testsuites>\n')
    return SKIPPED


def last_row(program, model, flags):
    command = [program, "logits", model, "--tokens", PROMPT, "--json", *map(str, flags)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout)["logits"][-1]


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if not (folder / "expected-logits.f32").exists():
        return skip("needs shared data: checkpoints/tiny-rwkv-5v2-730K")
    wanted = array.array("f")
    wanted.frombytes((folder / "expected-logits.f32").read_bytes())
    if sys.byteorder == "big":
        wanted.byteswap()
    failed = 0
    for name, most, summed in FILES:
        for backend in BACKENDS:
            for way in WAYS:
                row = last_row(program, folder / f"tiny-rwkv-5v2-730K-{name}.bin", [*backend, *way])
                differences = [a - b for a, b in zip(row, wanted, strict=True)]
                worst, total = max(map(abs, differences)), sum(differences)
                good = worst <= most and abs(total) <= summed and row.index(max(row)) == wanted.index(max(wanted))
                failed += not good
                print(f"{name} {' '.join(map(str, [*backend, *way]))}: largest {worst:.1e}, sum {total:.2f}"
                      f"{'' if good else ' FAILED'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
