#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial_new_operator.md as a newcomer follows it: every block of commands, in one shell, with what each prints held
against the text behind it; then what the page claims, measured: as many steps with the new operators as without, and logits
that equal the reference backend's. Standard library only.

    tutorial_test.py PROGRAM
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial_new_operator.md"
TOKENS = "9,18,7,23,49,24,13,28,34,16"
# docs/numerics.md, "Whole models": the bound of float32 products and states, for up to 300 layers.
BOUND = 2e-5


def blocks_of(text):
    """(commands, what they print or None), in order."""
    found = re.findall(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", text, re.DOTALL | re.MULTILINE)
    assert len(found) == text.count("```sh\n") > 5 and sum(bool(wanted) for _, wanted in found) == text.count("```text\n")
    return [(commands, wanted or None) for commands, wanted in found]


def matches(wanted, printed):
    return re.fullmatch(".*".join(map(re.escape, wanted.rstrip("\n").split("…"))), printed.rstrip("\n"))


def run_page(folder, blocks):
    """What each block prints; all of them in one shell, which stops at the first command that fails."""
    mark = "=== end of block"
    script = "".join(f"{commands}\necho '{mark}'\n" for commands, _ in blocks)
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True, check=False,
                          timeout=900)
    printed = done.stdout.split(mark + "\n")
    assert done.returncode == 0 and len(printed) == len(blocks) + 1, \
        f"block {len(printed)} ends with status {done.returncode}:\n{blocks[len(printed) - 1][0]}{printed[-1]}{done.stderr}"
    return printed


def without(backends, text):
    """The page on a machine that lacks some backends: their words go, and the lines they would have printed."""
    for backend in backends:
        text = re.sub(rf"(for backend in [^;]*?) {backend}\b", r"\1", text)
    return text


def answer(program, *words):
    done = subprocess.run([program, *map(str, words), "--json"], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: status {done.returncode}: {done.stderr}"
    return json.loads(done.stdout)


def distance(found, wanted):
    """The largest over rows of |a - b| / |b|."""
    def norm(row):
        return sum(x * x for x in row) ** 0.5
    return max(norm([a - b for a, b in zip(f, w, strict=True)]) / norm(w) for f, w in zip(found, wanted, strict=True))


def check_claims(program, folder, backends):
    firefly = [folder / "build/trial/firefly", "--spec", folder / "build/trial/firefly.lua"]
    llama = [ROOT / "tests/golden/data/llama"]
    exact = ["--compute", "f32", "--kv-dtype", "f32"]
    judge = answer(program, "logits", *firefly, "--tokens", TOKENS, "--backend", "reference")["logits"]
    plain = answer(program, "logits", *llama, "--tokens", TOKENS, "--backend", "reference")["logits"]
    assert distance(judge, plain) > 0.1, "the new operators change nothing"
    for backend in backends:
        on = ["--backend", backend]

        def steps(*words, on=tuple(on)):
            return answer(program, "graph", *words, "--stage", "plan", *on)["steps"]
        new, old, apart = steps(*firefly), steps(*llama), steps(*firefly, "--no-pass", "fuse_epilogues")
        assert new == old < apart, f"{backend}: {new} steps, {old} of Llama, {apart} with the activation apart"
        for way in ([], ["--chunk", 4], ["--stepwise"]):
            found = answer(program, "logits", *firefly, "--tokens", TOKENS, *on, *exact, *way)["logits"]
            error = distance(found, judge)
            print(f"{backend} {' '.join(map(str, way))}: {error:.1e}")
            assert error < BOUND, f"{backend} {way}: {error} from the reference backend"


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    wanted = ["cpu", "opencl", "simt"]
    there = {device["backend"] for device in answer(program, "devices")["devices"]}
    backends = [backend for backend in wanted if backend in there]
    for backend in set(wanted) - set(backends):
        print(f"skipped: {backend}: this machine has no such device")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "build").mkdir()
        (folder / "build" / "firstlight").symlink_to(program)
        for part in ("architectures", "tests", "tools", "docs"):
            (folder / part).symlink_to(ROOT / part)
        blocks = blocks_of(without(set(wanted) - set(backends), PAGE.read_text()))
        for (commands, text), printed in zip(blocks, run_page(folder, blocks)):
            if text is not None and text.count("\n") == len(wanted) and "for backend in" in commands:
                lines = text.splitlines()
                text = "\n".join(line for line, backend in zip(lines, wanted) if backend in backends)
            assert text is None or matches(text, printed), f"{commands}prints\n{printed}and not\n{text}"
        check_claims(program, folder, backends)
    return 0


if __name__ == "__main__":
    os.environ["GIT_CEILING_DIRECTORIES"] = tempfile.gettempdir()
    sys.exit(main())
