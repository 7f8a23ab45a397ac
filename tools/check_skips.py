#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A test that could run must not be skipped: with ../shared present, "needs shared data" is a failure.

Reads the result files that ctest's test programs leave (GTEST_OUTPUT). Other skips (a CPU without a feature, say) are
listed and allowed. `--clean` empties the folder of results instead, before a run.
"""

import argparse
import pathlib
import sys
import xml.etree.ElementTree as xml


def skipped(folder):
    """(program, test, message) of every skipped test."""
    for path in sorted(folder.glob("*.xml")):
        for case in xml.parse(path).getroot().iter("testcase"):
            node = case.find("skipped")
            if node is not None:
                message = (node.get("message") or node.text or "").strip().splitlines()
                yield path.stem, f"{case.get('classname')}.{case.get('name')}", message[-1] if message else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shared", type=pathlib.Path, required=True)
    parser.add_argument("--clean", action="store_true")
    arguments = parser.parse_args()
    if arguments.clean:
        for path in arguments.folder.glob("*.xml"):
            path.unlink()
        return
    wrong = 0
    for program, test, message in skipped(arguments.folder):
        needless = arguments.shared.is_dir() and "shared" in message
        wrong += needless
        print(f"check_skips: {'BREACH: ' if needless else ''}{program} {test}: {message}")
    if wrong:
        print(f"check_skips: {wrong} test(s) skipped although {arguments.shared} is there", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
