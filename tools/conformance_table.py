#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The operator x backend table of the conformance suite.

    python3 tools/conformance_table.py BUILD [--write docs/conformance.md]

Runs the conformance tests of a build folder and prints, per operator and backend, the cases run, the failures and the
worst error in units of its bound, the same per element type and backend, and the time each suite takes. --write puts the
tables between the marks of that file; what stands around them stays. The tests record the figures as properties (tests/conformance/ledger.h).
Ends with 1 where a test failed.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

TESTS = ["kernels", "hostile", "generated", "devices"]
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
COLUMNS = ["reference", "cpu", "cpu avx2", "cpu avx512", "generated", "simt32", "simt64", "simt128", "opencl"]


def run_test(folder, name, kept):
    """What googletest writes of the test, or of an earlier run."""
    if kept:
        return json.loads((pathlib.Path(kept) / f"{name}.json").read_text())
    program = pathlib.Path(folder) / "tests" / "conformance" / f"conformance_{name}_test"
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "result.json"
        subprocess.run([program, f"--gtest_output=json:{out}"], stdout=subprocess.DEVNULL, check=False)
        return json.loads(out.read_text())


def figures_of(result):
    """{(operator, place, type): [cases, failures, worst]}."""
    figures = {}
    for suite in result["testsuites"]:
        for test in suite["testsuite"]:
            for key, value in test.items():
                if not key.startswith("count/"):
                    continue
                cases, failures, worst = value.split()
                add(figures, tuple(key.split("/")[1:]), int(cases), int(failures), float(worst))
    return figures


def add(figures, key, cases, failures, worst):
    entry = figures.setdefault(key, [0, 0, 0.0])
    entry[0] += cases
    entry[1] += failures
    entry[2] = max(entry[2], worst)


def cell(entry):
    if entry is None:
        return ""
    cases, failures, worst = entry
    text = f"{cases:,}" + (f", **{failures} failed**" if failures else "")
    return text + (f" ({worst:.2f})" if worst else "")


def table(figures, axis, title):
    rows = collections.defaultdict(dict)
    for key, (cases, failures, worst) in figures.items():
        add(rows[key[axis]], key[1], cases, failures, worst)
    places = [place for place in COLUMNS if any(place in row for row in rows.values())]
    lines = [f"| {title} | " + " | ".join(places) + " |", "|---" * (len(places) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(cell(row.get(place)) for place in places) + " |" for name, row in sorted(rows.items())]
    total = {}
    for (_, place, _), (cases, failures, worst) in figures.items():
        add(total, place, cases, failures, worst)
    return lines + ["| **all** | " + " | ".join(cell(total.get(place)) for place in places) + " |"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--write")
    parser.add_argument("--tests", default=",".join(TESTS), help="which of them to run")
    parser.add_argument("--kept", help="a folder with NAME.json of tests run before with --gtest_output=json:NAME.json")
    options = parser.parse_args()
    figures, times, passed = {}, [], True
    for name in options.tests.split(","):
        result = run_test(options.build, name, options.kept)
        own, seconds = figures_of(result), float(result["time"].rstrip("s"))
        passed = passed and result["failures"] == 0
        times.append(f"| conformance_{name}_test | {sum(e[0] for e in own.values()):,} | "
                     f"{sum(e[1] for e in own.values())} | {seconds:.0f} s |")
        for key, entry in own.items():
            add(figures, key, *entry)
    lines = table(figures, 0, "operator") + [""] + table(figures, 2, "narrowest type") + [""]
    lines += ["| suite | cases | failures | time |", "|---|---|---|---|"] + times
    text = "\n".join(lines)
    print(text)
    if options.write:
        path = pathlib.Path(options.write)
        before, rest = path.read_text().split(BEGIN)
        path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
