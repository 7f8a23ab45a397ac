# SPDX-License-Identifier: Apache-2.0
"""What a spec can be written with, read from the sources: operators with their operands and attributes, traced functions,
and the templates of architectures/std with what they say about themselves.

    python3 tools/vocabulary.py           one line per entry
    python3 tools/vocabulary.py norm      in full, of the entries whose name contains a word
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
STRING = r'"((?:[^"\\]|\\.)*)"'
# Operators whose spelling in Lua is not NAME(operands…, { attributes }); None: made by the program itself.
SPELLED = {
    "append": "state:append { component = rows, … }", "fused_linear": None, "dequantize": None, "pack_weight": None,
    "pack_mxfp4": None, "if": "cond(flag, function … end, function … end, x, …)", "repeat": "loop(count, function … end, x, …)",
    "per_expert": "experts { x, idx, weight, num_experts, stacked, body, weight_on }", "reshape": "reshape(x, \"T\", 4, 8)",
    "transpose": "transpose(x, 0, 2, 1)", "map": "map(function(x, …) return … end, x, …); formulas on values need no map",
    "imap": "imap(function(x, …) return … end, x, …)", "cast": "cast(x, type)", "fused_rows": None, "route": None,
    "rope_append": None, "shift": "shift { x, state, component }", "constant": "constant({ values }, sizes…)",
    "attend_segments": "attend_segments { q, scale, value_width, sinks, score, segments = { { state, key, value, window, "
                       "chunk, causal, mask, select, block }, … } }",
    "recent_tokens": "recent_tokens(state, { count })", "stack": "w:stack(\"experts.{}.name\", count, shape); stack(x, …)",
}
NAMED = ("attend", "attend_segments", "index_scores", "window_emit", "conv1d")  # one table of operands and attributes


def text_of(source, field):
    """All string literals of `def.field = …;`, joined."""
    found = re.search(rf"def\.{field} =((?:[^;\"]|{STRING})*);", source)
    return unquoted("".join(m.group(1) for m in re.finditer(STRING, found.group(1)))) if found else ""


def unquoted(text):
    return text.replace('\\"', '"')


def block(source, field):
    found = re.search(rf"def\.{field} = ((?:[^;\"]|{STRING})*);", source)
    return found.group(1) if found else ""


def operands(source):
    names = []
    for name, rest in re.findall(r'\{"(\w+)"([^{}]*)\}', block(source, "operands")):
        names.append(name + ("?" if "kOptional" in rest else "…" if "kVariadic" in rest else ""))
    return names


def attributes(source):
    return re.findall(rf'\{{"(\w+)", AttributeType::k(\w+), (true|false)(?:[^"]|"(?!,))*?{STRING}\}}', block(source, "attributes"))


def spelling(name, given, keys):
    if name in SPELLED:
        return SPELLED[name]
    named = [g.rstrip("…") if g.endswith("…") else g for g in given]
    if name.startswith("recur_"):
        return "recur { form = \"" + name[6:] + "\", " + ", ".join(named + ["component"]) + " }"
    if name in NAMED:
        return f"{name} {{ {', '.join(named + keys)} }}"
    return f"{name}({', '.join(given + (['{ ' + ', '.join(keys) + ' }'] if keys else []))})"


def operators():
    for path in sorted((ROOT / "src/ops").glob("*/*.cc")):
        for source in re.split(r"\nOpDef ", path.read_text())[1:]:
            name, given, found = text_of(source, "name"), operands(source), attributes(source)
            shown = spelling(name, given, [a[0] for a in found])
            if name and shown:
                notes = [f"{a[0]}{'' if a[2] == 'true' else ' (optional)'}: {unquoted(a[3])}" for a in found]
                yield name, shown, [text_of(source, "meaning")] + notes


def traced():
    source = (ROOT / "src/intake/lua/expressions.cc").read_text()
    names = re.findall(r'\{"([a-z]\w*)", ExprOp', source)
    integers = ["xor", "mod"]
    plain = [name for name in names if name not in integers]
    yield "functions", "inside map, score, mask, act: " + " ".join(plain), [
        "+ - * / ^ and numbers as well", "inside imap alone: " + " ".join(integers)]


def templates():
    for path in sorted((ROOT / "architectures/std").glob("*.lua")):
        comment, text = [], path.read_text()
        returned = re.findall(r"^return (\w+)$", text, re.MULTILINE)
        for line in text.splitlines():
            found = re.match(r"function (\w+)\.(\w+\([^)]*\))", line)
            if found and found.group(1) in returned:
                shown = f"std.{path.stem}.{found.group(2)}"
                yield shown, shown, [" ".join(comment)]
            comment = comment + [line[3:]] if line.startswith("-- ") else []


    names = re.findall(r"^(?:function )?known\.(\w+)", (ROOT / "architectures/std/activation.lua").read_text(), re.MULTILINE)
    yield "std.activation", "std.activation(name)", ["of " + " ".join(names)]


def main(words):
    for title, entries in (("operators", operators()), ("traced functions", traced()), ("templates", templates())):
        print(f"# {title}")
        for name, shown, lines in entries:
            if not shown or words and not any(word in name or word in shown for word in words):
                continue
            print(shown)
            for line in lines if words else []:
                print("    " + line)


if __name__ == "__main__":
    main(sys.argv[1:])
