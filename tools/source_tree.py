# SPDX-License-Identifier: Apache-2.0
"""What the checks of the tree share: the files of src/, C++ text without comments and strings, exemption lists.

Standard library only. Every check takes --root, so that its own test can point it at a small tree with a planted breach.
"""

import argparse
import pathlib
import re
import sys
import tomllib

CODE = (".h", ".cc", ".cu", ".cuh", ".def", ".cl")

# Comments, raw strings, strings and characters, in the order in which they must be recognised.
_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)


def root_from_arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    return parser.parse_args().root


def source_files(root, suffixes=CODE):
    """Paths of the code under root/src, relative to root, sorted."""
    found = (p for p in (root / "src").rglob("*") if p.suffix in suffixes and p.is_file())
    return sorted(p.relative_to(root) for p in found)


def module_of(path):
    """'engine' of src/engine/test/x.cc."""
    return path.parts[1]


def is_test(path):
    return "test" in path.parts[2:-1]


def without_noise(text):
    """The text with comments and literals blanked; line breaks stay, so that line numbers do too."""
    return _NOISE.sub(lambda m: "".join(c if c == "\n" else " " for c in m.group()), text)


def without_comments(text):
    """The text with comments alone blanked: include lines keep their quoted names."""
    blank = lambda m: "".join(c if c == "\n" else " " for c in m.group()) if m.group().startswith("/") else m.group()
    return _NOISE.sub(blank, text)


def load_toml(path):
    if not path.exists():
        return {}
    with open(path, "rb") as file:
        return tomllib.load(file)


class Exemptions:
    """A table of path = reason. An entry that is not used, or has no reason, is itself a breach."""

    def __init__(self, path, section):
        self.path = path
        self.reasons = load_toml(path).get(section, {})
        self.used = set()

    def allows(self, name):
        if name in self.reasons:
            self.used.add(name)
            return True
        return False

    def breaches(self):
        for name, reason in self.reasons.items():
            if not isinstance(reason, str) or len(reason.split()) < 3:
                yield f"{self.path.name}: '{name}' is exempt without a reason"
            if name not in self.used:
                yield f"{self.path.name}: '{name}' needs no exemption, take it out"


def finish(name, breaches, summary):
    """Prints the breaches and ends with status 1 if there are any, else prints the summary."""
    for breach in breaches:
        print(f"{name}: {breach}", file=sys.stderr)
    if breaches:
        print(f"{name}: {len(breaches)} breach(es)", file=sys.stderr)
        sys.exit(1)
    print(f"{name}: {summary}")
