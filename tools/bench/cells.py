# SPDX-License-Identifier: Apache-2.0
"""What is measured, and how a worker hands it over.

A cell is one figure of one engine on one file: `prompt` (tokens per second from a prompt of `prompt` tokens, nothing
before it, to the logits of its last one) or `decode` (tokens per second of `batch` sequences that each have `depth`
tokens, or 16 at depth 0, over `steps` steps together). Greedy, no stop tokens, random ids, so that nothing is reused.

A worker is a script that is run as `python worker_X.py FILE THREADS CELLS` and prints JSON lines: first
{"peer": {name, version, flags}}, then {"cell": [...], "tps": figure} in order; one it cannot do has {"missing": reason}.
"""

import json
import random
import sys

SHORT_PROMPT = 16


def cell(metric, prompt=SHORT_PROMPT, depth=0, batch=1, steps=64):
    return {"metric": metric, "prompt": prompt, "depth": depth, "batch": batch, "steps": 0 if metric == "prompt" else steps}


def key(one):
    return one["metric"], one["prompt"], one["depth"], one["batch"]


FULL = ([cell("prompt", prompt=n) for n in (128, 512, 2048, 8192)] +
        [cell("decode", depth=n, steps=k) for n, k in ((0, 128), (4096, 64), (16384, 32))] +
        [cell("decode", batch=n) for n in (4, 8, 16, 32)])
SHORT = ([cell("prompt", prompt=n) for n in (512, 2048)] +
         [cell("decode", depth=n, steps=k) for n, k in ((0, 64), (4096, 32))] +
         [cell("decode", batch=n, steps=32) for n in (8, 32)])


QUICK = [cell("prompt", prompt=128), cell("decode", batch=4, steps=16)]


def context_of(one):
    """Tokens that one sequence of a cell has in the end."""
    return max(one["depth"], one["prompt"]) + one["steps"] + 1


def ids(count, vocab):
    """Ids that no run has seen before, clear of control tokens at the vocabulary's ends."""
    return [random.randrange(1000, min(vocab, 40000)) for _ in range(count)]


def work(make_engine):
    """The main function of a worker. `make_engine(path, threads, cells)` gives an object with `peer` and
    `measure(cell)`."""
    path, threads, wanted = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    engine = make_engine(path, threads, wanted)
    print(json.dumps({"peer": engine.peer}), flush=True)
    for one in wanted:
        try:
            print(json.dumps({"cell": key(one), "tps": engine.measure(one)}), flush=True)
        except RuntimeError as fault:
            print(json.dumps({"cell": key(one), "missing": str(fault)[:200]}), flush=True)
