#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long files, functions and folders may become, and the line budget of src/.

The limits are the "surely wrong" marks; what is above them needs a named exemption with its reason in
tools/size_exemptions.toml. tools/budget holds one number: the most lines src/ may have, tests apart. It is raised by a
commit that touches nothing else, so that growth is a decision and never a side effect.
"""

import re
import shutil
import subprocess

import source_tree

LIMITS = {  # kind: (aim or "think again" mark that is reported, hard limit)
    "source": (500, 1000),
    "header": (250, 400),
    "kernel": (500, 800),
    "test": (500, 1000),
    "spec": (120, 200),
    "spec template": (250, 400),
    "function": (60, 120),
    "kernel function": (120, 200),
    "folder": (25, 40),
    "header closure": (40, 80),
}

_NOT_A_FUNCTION = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$")
_CONTROL = re.compile(r"\b(if|for|while|switch|catch|do|else|try)\b\s*(constexpr\b)?\s*(\(|$)")
_QUOTED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def file_kind(path):
    if path.suffix == ".lua":
        return "spec template" if "std" in path.parts else "spec"
    if source_tree.is_test(path):
        return "test"
    if source_tree.module_of(path) == "kernels":
        return "kernel"  # headers too: templates of kernel bodies live nowhere else
    return "header" if path.suffix in (".h", ".cuh") else "source"


def functions(text):
    """(name, first line, number of lines) of every function body at namespace or class level.

    Reads formatted code without a grammar: a brace opens a function when what stands before it since the last ; { or }
    has a parameter list, and everything around is a namespace or a type.
    """
    code = source_tree.without_noise(text)
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group()), code, flags=re.MULTILINE)
    stack = []
    head_start = 0
    line = 1
    line_of = {}
    for i, c in enumerate(code):
        line_of[i] = line
        if c == "\n":
            line += 1
        elif c == "{":
            head = code[head_start:i]
            outer = all(kind == "scope" for kind, _, _ in stack)
            if not outer:
                kind = "inner"
            elif _NOT_A_FUNCTION.search(head):
                kind = "scope"
            elif "(" in head and not head.rstrip().endswith(("=", ",", "(")) and not _CONTROL.match(head.strip()):
                kind = "function"
            else:
                kind = "inner"
            start = head_start + len(head) - len(head.lstrip())
            stack.append((kind, head, line_of.get(start, line)))
            head_start = i + 1
        elif c == "}":
            if stack:
                kind, head, first = stack.pop()
                if kind == "function":
                    name = re.search(r"([\w:~]+|operator[^\s(]*)\s*\(", head)
                    yield (name.group(1) if name else "?"), first, line - first + 1
            head_start = i + 1
        elif c == ";":
            head_start = i + 1


def closure(header, includes):
    seen, queue = set(), [header]
    while queue:
        for target in includes.get(queue.pop(), ()):
            if target not in seen:
                seen.add(target)
                queue.append(target)
    return len(seen)


def measures(root):
    """(kind, name, value) of everything that has a limit."""
    specs = sorted(p.relative_to(root) for p in (root / "architectures").rglob("*.lua"))
    files = source_tree.source_files(root)
    folders, includes = {}, {}
    for path in files + specs:
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        yield file_kind(path), str(path), text.count("\n")
        if path.suffix == ".lua":
            continue
        folders.setdefault(path.parent, set()).add(path.stem)  # x.h and x.cc are one unit
        includes["/".join(path.parts[1:])] = _QUOTED.findall(text)
        in_kernels = source_tree.module_of(path) == "kernels" and not source_tree.is_test(path)
        for name, line, length in functions(text):
            yield ("kernel function" if in_kernels else "function"), f"{path}:{name}", length
    for folder, stems in folders.items():
        yield "folder", str(folder), len(stems)
    for name in includes:
        if name.endswith(".h"):
            yield "header closure", f"src/{name}", closure(name, includes)


def budget_breaches(root, total):
    path = root / "tools" / "budget"
    if not path.exists():
        return [f"{path}: missing; it holds the most lines that src/ may have"]
    budget = int(path.read_text().split()[0])
    breaches = []
    if total > budget:
        breaches.append(f"src/ has {total} lines, tools/budget allows {budget}: make it smaller, or raise the number in "
                        "a commit of its own that says why")
    return breaches + raised_with_others(root)


def raised_with_others(root):
    """The last commit that changed the number must have changed nothing else. Without git there is nothing to ask."""
    def git(*arguments):
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    if not (root / ".git").exists() or shutil.which("git") is None:
        return []
    commit = git("log", "-1", "--diff-filter=M", "--format=%H", "--", "tools/budget").stdout.strip()
    if not commit:
        return []
    touched = git("show", "--format=", "--name-only", commit).stdout.split()
    if touched == ["tools/budget"]:
        return []
    return [f"tools/budget was changed by {commit[:12]} together with other files: wanted, a commit of its own"]


def main():
    root = source_tree.root_from_arguments(__doc__)
    exempt = source_tree.Exemptions(root / "tools" / "size_exemptions.toml", "exempt")
    breaches, thoughts = [], []
    for kind, name, value in measures(root):
        think, wrong = LIMITS[kind]
        unit = {"folder": "units", "header closure": "project headers reached"}.get(kind, "lines")
        if value > wrong:
            if not exempt.allows(name):
                breaches.append(f"{name}: {kind} of {value} {unit}, at most {wrong} wanted")
        elif value > think:
            thoughts.append(f"{name}: {kind} of {value} {unit}, think again above {think}")
    lines = {True: 0, False: 0}
    for path in source_tree.source_files(root):
        lines[source_tree.is_test(path)] += (root / path).read_text(encoding="utf-8", errors="replace").count("\n")
    breaches += list(exempt.breaches()) + budget_breaches(root, lines[False])
    for thought in sorted(thoughts):
        print(f"check_sizes: note: {thought}")
    if sum(lines.values()) == 0:
        breaches.append(f"{root}: no sources, nothing was checked")
    source_tree.finish("check_sizes", breaches, f"src/ has {lines[False]} lines and {lines[True]} lines of tests")


if __name__ == "__main__":
    main()
