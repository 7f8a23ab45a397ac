#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faulty programs before the gates: each fault of kernel_faults.py (a small edit of one source, linked into a program)
must close the operator gate or the layer gate of a healthy model, and the healthy program with the same flags must pass
both. Standard library only; needs a build folder of Ninja beside the program (77 where there is none).

    gate_faults.py PROGRAM [--seed N] [--faults N] [--only TEXT] [--all] [--json FILE]
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

from kernel_faults import FAULTS, Judge, Workshop

# Where a fused plan would not have the faulty kernel at all (a recording of every operator's result, which the other
# test makes, has it): what is left out.
UNFUSED = {
    "weight of the norm ignored in the tail of a row": ["--no-pass", "all"],
    "rope counts from the start of the chunk": ["--no-pass", "fuse_rope_appends"],
    "second sequence of a batch appended where the first was": ["--no-pass", "fuse_rope_appends"],
    "last element left out of a row's exponentials, on a device": ["--no-pass", "fuse_routers"],
    "generated formula's loop ends one too early": ["--no-pass", "all"],
}


def flags_of(fault):
    """Of validate: the gates choose chunks themselves."""
    flags = list(fault.flags)
    if "--chunk" in flags:
        at = flags.index("--chunk")
        del flags[at : at + 2]
    return flags + UNFUSED.get(fault.kind, [])


def verdict(judge, program, fault, level):
    shutil.rmtree(judge.folder / "cache", ignore_errors=True)
    command = [program, "validate", judge.model(fault), "--level", level, *flags_of(fault), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=judge.environment)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"{' '.join(map(str, command))}: status {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
    gate = json.loads(done.stdout)["gates"][-1]
    return gate["passed"], gate["summary"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true", help="every fault there is")
    parser.add_argument("--json", help="file for what was found of each")
    options = parser.parse_args()
    if not (pathlib.Path(options.program).resolve().parent / "build.ninja").exists() or shutil.which("ninja") is None:
        print("no build folder of Ninja beside the program: skipped")
        return 77
    faults = [fault for fault in FAULTS if options.only in str(fault)]
    if not options.all and not options.only:
        faults = random.Random(options.seed).sample(faults, options.faults)
    rows, missed, alarms = [], 0, 0
    with tempfile.TemporaryDirectory() as name:
        workshop, judge = Workshop(options.program, pathlib.Path(name)), Judge(options.program, pathlib.Path(name))
        for fault in faults:
            program = workshop.make(fault)
            row = {"fault": str(fault)}
            for level in ("op", "layer"):
                healthy, why = verdict(judge, judge.program, fault, level)
                if not healthy:
                    alarms += 1
                    print("ALARM of the healthy program:", fault, why)
                row[level], row[level + "_says"] = verdict(judge, program, fault, level)
            closed = [level for level in ("op", "layer") if not row[level]]
            missed += not closed
            print(f"{'+'.join(closed) or 'MISSED':9} {fault}: {row['op_says' if 'op' in closed else 'layer_says'][:160]}", flush=True)
            rows.append(row)
    by = {level: sum(not row[level] for row in rows) for level in ("op", "layer")}
    print(f"\n{len(rows)} faults: the operator gate closed for {by['op']}, the layer gate for {by['layer']}, {missed} missed by both; "
          f"{alarms} alarms on {2 * len(rows)} healthy runs")  # fmt: skip
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    return int(missed > 0 or alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
