#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The direction of includes. src/floors.toml is the allow-list; CMake links from the same file.

Refused: a module that is not in the table or depends on its own or a higher floor; an include of a module that is not in
the list; an include that is not written from src; a namespace of a module that may not be included, opened to declare its
types ahead (that is an include in disguise); linking past the table; a heavy library in a header.
"""

import re

import source_tree

_QUOTED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
_ANGLED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>", re.MULTILINE)
_NAMESPACE = re.compile(r"\bnamespace\s+([A-Za-z_][\w:]*)\s*\{")
_LINKED = re.compile(r"\bfirstlight_([a-z_]+)\b")

# Libraries that cost seconds per file: in .cc files only, so that no other module pays for them or comes to lean on them.
_HEAVY = ("nlohmann/", "boost/", "simdjson", "spdlog/", "fmt/", "prometheus/", "CLI/", "toml++/", "gtest/", "sentencepiece")
_LIGHT = ("nlohmann/json_fwd.hpp",)


def table_breaches(modules):
    for name, row in modules.items():
        for dep in row["deps"]:
            if dep not in modules:
                yield f"src/floors.toml: {name} lists '{dep}', which has no line"
            elif modules[dep]["floor"] >= row["floor"]:
                yield (f"src/floors.toml: {name} (floor {row['floor']}) lists {dep} (floor {modules[dep]['floor']}); "
                       "wanted: lower floors only")


def is_light(path):
    """Whether a heavy library may not come in here: headers, but for those that only tests include."""
    return path.suffix in (".h", ".cuh") and not source_tree.is_test(path)


def include_breaches(root, path, text, allowed, modules, heavy):
    for match in _QUOTED.finditer(text):
        target = match.group(1)
        where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        module = target.split("/")[0]
        if target.endswith(".fl.h") and (root / "src" / source_tree.module_of(path) / target).exists():
            continue  # a part of a device kernel's text, from the module's folder
        if "/" not in target or ".." in target.split("/"):
            yield f'{where}: include "{target}", wanted: a path from src, such as "base/status.h"'
        elif module not in modules:
            yield f'{where}: include "{target}": no module \'{module}\' in src/floors.toml'
        elif module not in allowed:
            yield (f'{where}: include "{target}": {source_tree.module_of(path)} may include '
                   f"{', '.join(sorted(allowed))} only")
        elif not (root / "src" / target).exists():
            yield f'{where}: include "{target}": no such file'
        elif is_light(path) and f"src/{target}" in heavy.reasons and not heavy.allows(str(path)):
            yield f'{where}: include "{target}" in a header: it is heavy, wanted in .cc files only'


def heavy_breaches(path, text, heavy):
    if not is_light(path):
        return
    for match in _ANGLED.finditer(text):
        if match.group(1).startswith(_HEAVY) and match.group(1) not in _LIGHT and not heavy.allows(str(path)):
            yield f"{path}: <{match.group(1)}> in a header: heavy libraries belong in .cc files"


def namespace_breaches(path, text, allowed, modules):
    for match in _NAMESPACE.finditer(text):
        for part in match.group(1).split("::"):
            if part in modules and part not in allowed:
                line = text.count("\n", 0, match.start()) + 1
                yield (f"{path}:{line}: opens namespace '{match.group(1)}': {source_tree.module_of(path)} may not know "
                       f"'{part}', not even by a forward declaration")


def link_breaches(root, modules):
    for path in sorted((root / "src").glob("*/CMakeLists.txt")):
        module = path.parent.name
        text = re.sub(r"#[^\n]*", "", path.read_text())
        for name in _LINKED.findall(text):
            if name in modules and name != module and name not in modules.get(module, {"deps": []})["deps"]:
                yield f"{path.relative_to(root)}: links firstlight_{name}, which is not in {module}'s list"


def main():
    root = source_tree.root_from_arguments(__doc__)
    modules = source_tree.load_toml(root / "src" / "floors.toml").get("modules", {})
    breaches = list(table_breaches(modules)) + list(link_breaches(root, modules))
    # Headers that carry a heavy library in, and may. Whoever includes them in a header is as heavy and named as well.
    heavy = source_tree.Exemptions(root / "tools" / "layer_exemptions.toml", "heavy_headers")
    files = [p for p in source_tree.source_files(root) if len(p.parts) > 2]
    for path in files:
        module = source_tree.module_of(path)
        if module not in modules:
            breaches.append(f"{path}: module '{module}' has no line in src/floors.toml")
            continue
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        code = source_tree.without_comments(text)
        allowed = {module, *modules[module]["deps"]}
        breaches += include_breaches(root, path, code, allowed, modules, heavy)
        breaches += heavy_breaches(path, code, heavy)
        breaches += namespace_breaches(path, source_tree.without_noise(text), allowed, modules)
    breaches += heavy.breaches()
    if not modules or not files:
        breaches.append(f"{root}: no floor table or no sources, nothing was checked")
    source_tree.finish("check_layers", breaches, f"{len(files)} files of {len(modules)} modules keep their floors")


if __name__ == "__main__":
    main()
