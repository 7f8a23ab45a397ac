#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of the chat template engine with Jinja2 in the environment transformers gives it.

  tools/golden/templates.py units     src/text/test/data/jinja_units.json -> expected texts filled in, in place
  tools/golden/templates.py contexts  src/text/test/data/chat_contexts.json x every template under ../shared/data
                                      -> src/text/test/data/chat_template_hashes.json (hashes only, no template text)

Needs jinja2 >= 3.1.6. Time is frozen at 2025-07-10 12:00:00.
"""
import datetime
import glob
import json
import os
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.path.join(ROOT, "..", "shared", "data")
NOW = datetime.datetime(2025, 7, 10, 12, 0, 0)


class Generation(jinja2.ext.Extension):
    """{% generation %}: prints its body (transformers also records where)."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class TemplateNamespace(jinja2.utils.Namespace):
    """A namespace without underscore attributes."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            TemplateNamespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        TemplateNamespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError("underscore attribute on a namespace: " + name)


class TemplateDict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(
        raise_exception=raise_exception,
        strftime_now=lambda text: NOW.strftime(text),
        dict=TemplateDict(),
        namespace=TemplateNamespace,
    )
    return env


def render(env, template, context):
    """The text, or None where Jinja2 or Python raises."""
    try:
        return env.from_string(template).render(**context)
    except Exception:  # whatever it is: no text comes out
        return None


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def load_templates():
    """(name, text) of every template file and of every tokenizer config with one embedded."""
    found = []
    for pattern in ("templates/**/*.jinja*", "configs/**/*.jinja"):
        for path in glob.glob(os.path.join(SHARED, pattern), recursive=True):
            found.append((os.path.relpath(path, SHARED), open(path, encoding="utf-8", newline="").read()))
    for path in glob.glob(os.path.join(SHARED, "configs/**/*tokenizer_config.json"), recursive=True):
        config = json.load(open(path, encoding="utf-8"))
        if isinstance(config.get("chat_template"), str):
            found.append((os.path.relpath(path, SHARED), config["chat_template"]))
    return sorted(found)


def make_contexts():
    env = environment()
    data = os.path.join(ROOT, "src/text/test/data")
    contexts = json.load(open(os.path.join(data, "chat_contexts.json"), encoding="utf-8"))
    rows = {}
    for name, text in load_templates():
        cells = []
        for case in contexts["cases"]:
            out = render(env, text, case["context"])
            cells.append("error" if out is None else "%d:%016x" % (len(out.encode()), fnv1a(out.encode())))
        rows[name] = cells
    out = {
        "made_by": "tools/golden/templates.py contexts, jinja2 " + jinja2.__version__,
        "form": "per template, in the order of the contexts: bytes:fnv1a-64 of the text, or error",
        "contexts": [case["name"] for case in contexts["cases"]],
        "templates": rows,
    }
    path = os.path.join(data, "chat_template_hashes.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(out, file, indent=0, ensure_ascii=False)
        file.write("\n")
    errors = sum(cell == "error" for cells in rows.values() for cell in cells)
    print(f"{len(rows)} templates x {len(contexts['cases'])} contexts, {errors} errors -> {path}")


def make_units():
    env = environment()
    path = os.path.join(ROOT, "src/text/test/data/jinja_units.json")
    units = json.load(open(path, encoding="utf-8"))
    for case in units["cases"]:
        case.pop("expected", None)
        case.pop("error", None)
        out = render(env, case["template"], case.get("context", {}))
        if out is None:
            case["error"] = True
        else:
            case["expected"] = out
    units["made_by"] = "tools/golden/templates.py units, jinja2 " + jinja2.__version__
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n")
        file.write(' "made_by": %s,\n "cases": [\n' % json.dumps(units["made_by"]))
        file.write(",\n".join("  " + json.dumps(case, ensure_ascii=False) for case in units["cases"]))
        file.write("\n ]\n}\n")
    errors = sum("error" in case for case in units["cases"])
    print(f"{len(units['cases'])} cases, {errors} errors")


if __name__ == "__main__":
    {"units": make_units, "contexts": make_contexts}[sys.argv[1]]()
