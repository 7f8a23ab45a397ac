#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source file has its test, and every file is built.

src/<module>/a/x.cc wants src/<module>/test/x_test.cc (or test/a/x_test.cc, or test/a_x_test.cc). Two tables in
tools/test_exemptions.toml name what has none: [covered] gives a file, or a folder with its slash, and the test that covers
it (which must exist); [exempt] gives a file and the reason why it has no test. A source or test that the module's
CMakeLists.txt does not name is never built, so it is a breach too.
"""

import pathlib
import re

import source_tree


def wanted_tests(path):
    """The places where the test of a source file may be."""
    module, folders, stem = path.parts[1], path.parts[2:-1], path.stem
    test = pathlib.Path("src", module, "test")
    yield test / f"{stem}_test.cc"
    if folders:
        yield test.joinpath(*folders, f"{stem}_test.cc")
        yield test / f"{'_'.join(folders)}_{stem}_test.cc"
        yield test / f"{folders[-1]}_{stem}_test.cc"


def is_built(root, path):
    listing = root / "src" / path.parts[1] / "CMakeLists.txt"
    if not listing.exists():
        return False
    text = re.sub(r"#[^\n]*", "", listing.read_text())
    name = "/".join(path.parts[2:])
    return re.search(rf"(?<![\w./]){re.escape(name)}(?![\w.])", text) is not None


class Covered:
    """Files and folders whose test has another name. The longest entry that fits decides."""

    def __init__(self, root, path):
        self.entries = source_tree.load_toml(path).get("covered", {})
        self.name, self.root, self.used = path.name, root, set()

    def covers(self, path):
        fits = [e for e in self.entries if e == str(path) or (e.endswith("/") and str(path).startswith(e))]
        self.used.update(fits)
        return bool(fits)

    def breaches(self):
        for entry, test in self.entries.items():
            if not (self.root / test).is_file():
                yield f"{self.name}: '{entry}' is covered by {test}, which does not exist"
            if entry not in self.used:
                yield f"{self.name}: '{entry}' covers nothing that lacks a test, take it out"


def main():
    root = source_tree.root_from_arguments(__doc__)
    listing = root / "tools" / "test_exemptions.toml"
    exempt = source_tree.Exemptions(listing, "exempt")
    covered = Covered(root, listing)
    files = [p for p in source_tree.source_files(root, (".cc",)) if len(p.parts) > 2]
    present = set(files)
    breaches, num_tested = [], 0
    for path in files:
        if not is_built(root, path):
            breaches.append(f"{path}: not named in src/{path.parts[1]}/CMakeLists.txt, so it is never built")
        if source_tree.is_test(path):
            continue
        if any(test in present for test in wanted_tests(path)):
            num_tested += 1
        elif not covered.covers(path) and not exempt.allows(str(path)):
            breaches.append(f"{path}: no test, wanted {next(wanted_tests(path))} or an exemption with its reason")
    breaches += list(exempt.breaches()) + list(covered.breaches())
    if not files:
        breaches.append(f"{root}: no sources, nothing was checked")
    source_tree.finish("check_tests", breaches, f"{num_tested} source files have their own test, {len(exempt.used)} exempt")


if __name__ == "__main__":
    main()
