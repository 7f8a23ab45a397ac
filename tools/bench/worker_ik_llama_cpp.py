# SPDX-License-Identifier: Apache-2.0
"""ik_llama.cpp through its own llama-batched-bench (protocol: cells.py), whose path FL_PEERS_IK_LLAMA names, made
in a clone of it by

    cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_BUILD_SERVER=OFF -DLLAMA_CURL=OFF
    ninja -C build llama-batched-bench

Its program fills the sequences of a cell and then decodes them together, as the other workers do; ids are all 0, which
costs it nothing more or less."""

import os
import subprocess
import tempfile

import cells

UBATCH = 512


class Engine:
    def __init__(self, path, threads, _wanted):
        self.program = os.path.abspath(os.environ["FL_PEERS_IK_LLAMA"])
        self.options = ["-m", os.path.abspath(path), "-t", str(threads), "-tb", str(threads), "-b", "2048", "-ub", str(UBATCH), "-fa", "on",
                        "-rtr"]
        version = subprocess.run([self.program, "--version"], capture_output=True, text=True, check=False)
        words = (version.stderr + version.stdout).strip().splitlines()
        self.peer = {"name": "ik_llama.cpp", "version": next((one for one in words if "version" in one), "unknown"),
                     "flags": {"n_batch": 2048, "n_ubatch": UBATCH, "kv": "f16", "flash attention": True,
                               "repacked at load": True}}

    def measure(self, one):
        length, steps = max(one["depth"], one["prompt"]), max(one["steps"], 1)
        room = one["batch"] * (length + steps) + 64
        command = [self.program, *self.options, "-c", str(room), "-npp", str(length), "-ntg", str(steps), "-npl",
                   str(one["batch"])]
        with tempfile.TemporaryDirectory() as folder:  # it leaves a llama.log where it runs
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        rows = [line.split("|") for line in (done.stdout + done.stderr).splitlines() if line.startswith("|")]
        figures = [row for row in rows if row[1].strip().isdigit()]
        if not figures:
            raise RuntimeError(f"status {done.returncode}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
        prompt, decode = 6, 8
        return float(figures[-1][prompt if one["metric"] == "prompt" else decode])


if __name__ == "__main__":
    cells.work(Engine)
