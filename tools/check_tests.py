#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source file has its test, and every file is built.

src/<module>/a/x.cc wants src/<module>/test/x_test.cc (or test/a/x_test.cc, or test/a_x_test.cc). What has none is named
with its reason in tools/test_exemptions.toml. A source or test that the module's CMakeLists.txt does not name is never
built, so it is a breach too.
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


def main():
    root = source_tree.root_from_arguments(__doc__)
    exempt = source_tree.Exemptions(root / "tools" / "test_exemptions.toml", "exempt")
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
        elif not exempt.allows(str(path)):
            breaches.append(f"{path}: no test, wanted {next(wanted_tests(path))} or an exemption with its reason")
    breaches += list(exempt.breaches())
    if not files:
        breaches.append(f"{root}: no sources, nothing was checked")
    source_tree.finish("check_tests", breaches, f"{num_tested} source files have their own test, {len(exempt.used)} exempt")


if __name__ == "__main__":
    main()
