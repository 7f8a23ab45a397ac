#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `baseline locate` beside the drills: what a finding says, a reproduction that shows the fault in an empty folder
with the command that stands in it, devices, out of core, and faults below the noise of two float32 codes, seen against
a recording in float64 that knows its noise. Standard library only.

    locate_test.py PROGRAM
"""

import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MOST_BYTES = 400_000  # of a reproduction of a tiny model


class Verb:
    def __init__(self, program):
        self.program = str(pathlib.Path(program).resolve())

    def __call__(self, *words, status=0, folder=None):
        command = [self.program, "baseline", *map(str, words), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=folder)
        assert done.returncode == status, f"{' '.join(command)}: exit status {done.returncode}, {status} wanted: {done.stderr[-400:]}"
        return json.loads(done.stdout)


def changed(model, folder, key, value):
    """A copy of a checkpoint with another number in its config."""
    copy = folder / f"{model}.changed"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(GOLDEN / "data" / model, copy)
    whole = config = json.loads((copy / "config.json").read_text())
    *places, last = key.split(".")
    for place in places:
        config = config[place]
    config[last] = value
    (copy / "config.json").write_text(json.dumps(whole))
    return copy


def record(verb, model, folder):
    prompt = json.loads((GOLDEN / "data" / model / "golden.json").read_text())["prompt"]
    pack = folder / f"{model}.pack"
    verb("record", GOLDEN / "data" / model, "--tokens", ",".join(map(str, prompt)), "--operators", "-o", pack)
    return pack


def reproduced(verb, folder, said, status):
    """The command in README.txt, run in that folder with this program."""
    line = next(line.strip() for line in (folder / "README.txt").read_text().splitlines() if line.startswith("    "))
    words = shlex.split(line)
    assert words[:3] == ["firstlight", "baseline", "reproduce"], line
    assert all(word in line for word in said), line
    return verb(*words[2:], status=status, folder=folder)


def check_finding(verb, folder):
    """A window of 9 for 8, against a recording of transformers."""
    model = changed("gpt_oss", folder, "sliding_window", 9)
    out = folder / "reproduction"
    found = verb("locate", GOLDEN / "packs" / "gpt_oss.transformers", "--model", model, "--backend", "reference", "-o", out, status=1)
    first = found["findings"][0]
    assert first["operator"] == "attend" and first["cause"] == "mask or window" and found["healed"], first
    assert first["concerns"] == ["sliding_window = 9.0"], first["concerns"]
    assert "std/attention.lua:" in first["made_at"] and "gpt_oss.lua:" in first["made_at"], first["made_at"]
    assert sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) < MOST_BYTES
    fresh = folder / "fresh"
    shutil.copytree(out, fresh)
    shutil.rmtree(out)
    shutil.rmtree(model)  # it runs by itself
    again = reproduced(verb, fresh, [], 1)
    assert not again["passed"] and abs(again["own_error"] - first["own_error"]) < 1e-3 * first["own_error"], again
    graph = (fresh / "graph.txt").read_text()
    assert "window = 9" in graph
    (fresh / "graph.txt").write_text(graph.replace("window = 9", "window = 8"))
    assert reproduced(verb, fresh, [], 0)["passed"], "with the fix it agrees"


def check_devices(verb, folder):
    """The cache in half precision counts as a fault; and a model's fault is found with a device asked for, out of core."""
    for backend in ["simt", "opencl"]:
        devices = subprocess.run([verb.program, "devices"], capture_output=True, text=True, check=False).stdout
        if f"{backend} 0" not in devices:
            print(f"no {backend} here")
            continue
        out = folder / backend
        flags = ["--backend", backend, "--kv-dtype", "f16"]
        found = verb("locate", record(verb, "gemma3", folder), "--model", GOLDEN / "data" / "gemma3", *flags, "--exact", "-o", out, status=1)
        first = found["findings"][0]
        assert first["side"] == "backend" and first["operator"] == "attend" and first["cause"] == "state handling", first
        assert "attend" in first["kernel"], first
        assert not reproduced(verb, out, flags, 1)["passed"]
    model = changed("gemma3", folder, "sliding_window", 9)
    limit = ["--memory-limit", 4 << 30]
    found = verb("locate", record(verb, "gemma3", folder), "--model", model, "--backend", "simt", "--kv-dtype", "f32", *limit, status=1)
    assert [f["operator"] for f in found["findings"]] == ["attend"] and found["findings"][0]["cause"] == "mask or window", found


def check_noise(verb, folder):
    """Last digits of a base: below what two float32 codes may differ by, above their measured noise."""
    model = changed("llama", folder, "rope_parameters.rope_theta", 10000.2)
    flags = ["--model", model, "--backend", "reference"]
    assert verb("compare", GOLDEN / "packs" / "llama.transformers", *flags)["passed"]
    exact = GOLDEN / "packs" / "llama.float64"
    assert not verb("compare", exact, *flags, status=1)["passed"]
    first = verb("locate", exact, *flags, status=1)["findings"][0]
    assert first["operator"] == "rope" and first["cause"] == "position or rope pairing", first
    assert "base 10000.0" in first["hypothesis"], first
    for backend in ["reference", "cpu"]:
        healthy = ["--model", GOLDEN / "data" / "llama", "--backend", backend, "--compute", "f32", "--kv-dtype", "f32"]
        assert verb("locate", exact, *healthy)["passed"]


def main():
    verb = Verb(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_finding(verb, folder)
        check_devices(verb, folder)
        check_noise(verb, folder)


if __name__ == "__main__":
    main()
