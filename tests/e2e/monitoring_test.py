#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/metrics.md, monitoring/alerts.yml and monitoring/grafana.json against a live server's /metrics: the table has
every name that is served, with its kind and labels, and no other; alert rules and panels ask for nothing that is not
served; their expressions are well formed. `promtool`, where it is installed, judges the rules too. The tests that
docs/serving_traps.md names exist. Standard library only.

    monitoring_test.py PROGRAM
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import serve_test

ROOT = pathlib.Path(__file__).resolve().parents[2]
GROUPS = ("Load", "Latency", "Throughput", "Cache", "Memory", "Errors")
FUNCTIONS = {"rate", "increase", "sum", "max", "min", "avg", "absent", "histogram_quantile"}
WORDS = {"by", "on", "and", "or", "unless", "ignoring", "without"}
UNITS = {"counter": ("_total",), "histogram": ("_seconds", "_bytes", "_tokens", "_sequences")}


class Family:
    def __init__(self, kind):
        self.kind, self.labels = kind, set()

    def series(self, name):
        return {name + end for end in ("_bucket", "_sum", "_count")} if self.kind == "histogram" else {name}


def read_exposition(text):
    """Families by name; every line must be one of the format's."""
    families = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in families, f"{name} twice"
            families[name] = Family(kind)
        elif not line.startswith("#"):
            found = re.fullmatch(r'([a-z_:][a-z0-9_:]*)(?:\{((?:[a-z]+="[^"]*",?)*)\})? (?:[-+0-9.e]+|NaN|\+Inf)', line)
            assert found, f"not a sample: {line}"
            family = next(f for n, f in families.items() if found[1] in f.series(n))
            family.labels |= set(re.findall(r'([a-z]+)="', found[2] or "")) - {"le"}
    return families


def documented():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|", (ROOT / "docs" / "metrics.md").read_text(), re.M)
    table = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert len(table) == len(rows), "a name twice"
    return table


def check_table(families):
    table = documented()
    assert set(table) == set(families), f"only in one of docs/metrics.md and /metrics: {set(table) ^ set(families)}"
    for name, (kind, labels) in table.items():
        assert families[name].kind == kind, f"{name}: {families[name].kind}, documented as {kind}"
        assert families[name].labels == labels, f"{name}: labels {families[name].labels}, documented as {labels}"
        ends = UNITS.get(kind)
        assert ends is None or name.endswith(ends), f"{name}: a {kind} ends in one of {ends}"


def check_expression(expression, families):
    """Brackets close, and names and labels are those that are served."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    stack = []
    for c in bare:
        if c in "([{":
            stack.append(c)
        elif c in ")]}":
            assert stack and "([{".index(stack.pop()) == ")]}".index(c), f"brackets of {expression}"
    assert not stack, f"brackets of {expression}"
    labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"\"", bare))
    for names in re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", bare):
        labels |= {name.strip() for name in names.split(",")}
    rest = re.sub(r"\{[^}]*\}|\[\d+[smhd]\]|\b(?:by|on|without|ignoring)\s*\([^)]*\)", " ", bare)
    assert "[" not in rest, f"a range of {expression}"
    words = set(re.findall(r"(?<![\w.])[a-zA-Z_:][\w:]*", rest)) - WORDS
    called = set(re.findall(r"([a-z_]+)\s*\(", rest)) - WORDS
    assert called <= FUNCTIONS, f"unknown functions {called - FUNCTIONS} in {expression}"
    series = {s: family for name, family in families.items() for s in family.series(name)}
    names = words - FUNCTIONS
    assert names and names <= set(series), f"not served: {names - set(series)} in {expression}"
    known = {"le", "instance"}.union(*(series[name].labels for name in names))
    assert labels <= known, f"no such labels: {labels - known} in {expression}"
    return names


def check_alerts(families):
    path = ROOT / "monitoring" / "alerts.yml"
    rules = re.split(r"^      - alert: ", path.read_text(), flags=re.M)[1:]
    assert len(rules) >= 8
    names = [rule.split("\n", 1)[0] for rule in rules]
    assert len(set(names)) == len(names)
    for rule in rules:
        for part in (r"^        expr: .+$", r"^        labels: \{severity: (critical|warning)\}$", r"^          summary: .+$"):
            assert len(re.findall(part, rule, re.M)) == 1, f"{part} in {rule}"
        assert re.findall(r"^        for: (.*)$", rule, re.M) in ([],) or re.search(r"^        for: \d+[smh]$", rule, re.M), rule
        check_expression(re.search(r"^        expr: (.+)$", rule, re.M)[1], families)
    promtool = shutil.which("promtool")
    if promtool:
        subprocess.run([promtool, "check", "rules", str(path)], check=True)
    return len(rules)


def check_dashboard(families):
    board = json.loads((ROOT / "monitoring" / "grafana.json").read_text())
    for field in ("title", "uid", "schemaVersion", "panels", "templating", "time"):
        assert field in board, field
    assert [p["title"] for p in board["panels"] if p["type"] == "row"] == list(GROUPS)
    ids = [p["id"] for p in board["panels"]]
    assert len(set(ids)) == len(ids)
    cells, group, used = set(), None, {name: set() for name in GROUPS}
    for panel in board["panels"]:
        place = panel["gridPos"]
        own = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not own & cells and place["x"] + place["w"] <= 24, f"{panel['title']} lies over another"
        cells |= own
        if panel["type"] == "row":
            group = panel["title"]
            continue
        assert panel["datasource"]["uid"] == "${datasource}" and panel["fieldConfig"]["defaults"]["unit"]
        refs = [target["refId"] for target in panel["targets"]]
        assert refs and len(set(refs)) == len(refs), panel["title"]
        for target in panel["targets"]:
            used[group] |= check_expression(target["expr"], families)
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert label == "instance" or f"by ({label})" in target["expr"], target
    assert all(used.values()), "a group without panels"
    return len(ids)


def check_traps():
    """Every test that docs/serving_traps.md names exists."""
    shown = re.findall(r"^\|[^|]*\|[^|]*\| (`.*) \|$", (ROOT / "docs" / "serving_traps.md").read_text(), re.M)
    assert len(shown) > 10
    for path, names in re.findall(r"`([\w./]+)` ([\w, ]+)", " ".join(f"{row};" for row in shown)):
        text = (ROOT / path).read_text()
        for name in names.split(", "):
            form = rf"def {name}\(" if path.endswith(".py") else rf"TEST\w*\(\w+, {name}\)"
            assert re.search(form, text), f"{path} has no {name}"


def check_checker(families):
    """The checks above must be able to fail."""
    for wrong in ("rate(firstlight_nothing_total[5m])", "sum(firstlight_ready", "rate(firstlight_errors_total[5])",
                  'firstlight_errors_total{kind="x"}', "sum by (nothing) (firstlight_ready)", "deriv(firstlight_ready[5m])",
                  "rate(firstlight_request_seconds[5m])"):
        try:
            check_expression(wrong, families)
        except AssertionError:
            continue
        raise AssertionError(f"taken: {wrong}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        serve_test.make_model(pathlib.Path(folder))
        port = serve_test.free_port()
        command = [sys.argv[1], "serve", folder, "--backend", "reference", "--port", str(port)]
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            serve_test.wait_until_ready(port, program)
            serve_test.request(port, "POST", "/v1/completions", json.dumps({"prompt": [5, 6], "max_tokens": 3}), key="")
            text = serve_test.request(port, "GET", "/metrics", key="")[1]
        finally:
            program.kill()
            program.wait()
    families = read_exposition(text)
    check_table(families)
    check_checker(families)
    check_traps()
    rules, panels = check_alerts(families), check_dashboard(families)
    print(f"{len(families)} metrics, {rules} alert rules, {panels} panels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
