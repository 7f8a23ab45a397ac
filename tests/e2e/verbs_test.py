#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verbs as their users call them, on a tiny golden checkpoint: exit status, what goes to stdout and to stderr, one JSON
document with --json, and bad input of every kind. The cases are data (verbs_cases.json). Standard library only.

    verbs_test.py PROGRAM
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from serve_test import GOLDEN, make_model

HERE = pathlib.Path(__file__).resolve().parent


def make_files(folder):
    """The files that the cases name, by their "$name"."""
    model = folder / "model"
    model.mkdir()
    make_model(model)
    names = {"model": model, "out": folder / "out", "missing": folder / "missing"}

    def variant(name, change):
        copy = folder / name
        copy.mkdir()
        for file in model.iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
        change(copy)
        names[name] = copy

    def edit_config(copy, **changes):
        path = copy / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    def cut(path):
        path.write_bytes(path.read_bytes()[:-100])

    def edit_template(copy, words):
        path = copy / "tokenizer_config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps({**config, "chat_template": config["chat_template"] + "{# " + words + " #}"}))

    variant("thinker", lambda copy: edit_template(copy, "<think></think><tool_call></tool_call>"))
    variant("cut_weights", lambda copy: cut(copy / "model.safetensors"))
    variant("unknown_key", lambda copy: edit_config(copy, swiglu_limit=7.0))
    variant("unknown_model", lambda copy: edit_config(copy, model_type="never_heard_of"))
    def retype(copy, tensor, dtype):
        """The tensor's bytes under the name of a whole-number type of the same width."""
        path = copy / "model.safetensors"
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:8 + length])
        header[tensor]["dtype"] = dtype
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length:])

    for name, tensor in (("odd_norm", "model.norm.weight"), ("odd_embedding", "model.embed_tokens.weight"),
                         ("odd_matrix", "model.layers.1.self_attn.q_proj.weight")):
        variant(name, lambda copy, tensor=tensor: retype(copy, tensor, "I32"))
    for name in ("hf_quant_config.json", "generation_config.json", "config.json", "model.safetensors"):
        variant("empty_" + name.split(".")[0], lambda copy, name=name: (copy / name).write_bytes(b""))
    variant("no_weights", lambda copy: (copy / "model.safetensors").unlink())
    (folder / "text").write_text("the quick brown fox jumps over the lazy dog. " * 4)
    (folder / "messages").write_text(json.dumps([{"role": "user", "content": "hello <s> there"}]))
    (folder / "loop").write_text("while true do end")
    (folder / "escape").write_text('io.open("/etc/passwd")')
    (folder / "template").write_text("{% for m in messages %}{{ m.content | frobnicate }}{% endfor %}")
    (folder / "context").write_text("{}")
    (folder / "greeting").write_text("hi {{ who }}!")
    (folder / "who").write_text('{"who": "you"}')
    for name in ("text", "messages", "loop", "escape", "template", "context", "greeting", "who"):
        names[name] = folder / name
    golden = json.loads((GOLDEN / "golden.json").read_text())
    names["prompt"] = ",".join(map(str, golden["prompt"]))
    return names, golden


def filled(word, names):
    for name in sorted(names, key=len, reverse=True):
        word = word.replace("$" + name, str(names[name]))
    return word


def look_up(document, path):
    for part in path.split("."):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def check_case(program, case, names):
    command = [program, *(filled(word, names) for word in case["run"])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    tail = done.stderr.strip()[-300:]
    assert done.returncode == case.get("status", 0), f"exit status {done.returncode}, {case.get('status', 0)} wanted: {tail}"
    for words in case.get("stderr", []):
        assert filled(words, names) in done.stderr, f"stderr lacks '{filled(words, names)}': {tail}"
    for words in case.get("stdout", []):
        assert words in done.stdout, f"stdout lacks '{words}': {done.stdout[:300]}"
    for words in case.get("lacks", []):
        assert words not in done.stdout, f"stdout has '{words}': {done.stdout[:300]}"
    for file in case.get("files", []):
        assert pathlib.Path(filled(file, names)).is_file(), f"no file {filled(file, names)}"
    if "--json" not in case["run"]:
        return
    document = json.loads(done.stdout)  # one document and nothing else
    for path in case.get("has", []):
        look_up(document, path)
    for path, wanted in case.get("equals", {}).items():
        found = look_up(document, path)
        assert found == wanted, f"{path} is {found}, {wanted} wanted"


def check_golden_ids(program, names, golden, backend):
    """The greedy continuation that the reference code gives."""
    wanted = golden["continuation"]
    command = [program, "run", str(names["model"]), "--tokens", names["prompt"], "--temperature", "0", "--ignore-eos",
               "--max-tokens", str(len(wanted)), "--json", *backend]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["tokens"]
    assert found == wanted, f"{found}, {wanted} wanted"


def main():
    program, failures = str(pathlib.Path(sys.argv[1]).resolve()), 0
    with tempfile.TemporaryDirectory() as folder:
        names, golden = make_files(pathlib.Path(folder))
        cases = json.loads((HERE / "verbs_cases.json").read_text())
        checks = [(" ".join(case["run"]), lambda case=case: check_case(program, case, names)) for case in cases]
        for backend in (["--backend", "reference"], ["--compute", "f32", "--kv-dtype", "f32"]):
            checks.append((f"golden ids {backend[-1]}",
                           lambda backend=backend: check_golden_ids(program, names, golden, backend)))
        for name, check in checks:
            try:
                check()
            except Exception as error:  # every case is told, whatever went wrong in it
                failures += 1
                print(f"FAILED {name}: {type(error).__name__}: {error}")
    print(f"{len(checks)} checks, {failures} failed")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
