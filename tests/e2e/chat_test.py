#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Thoughts and tool calls of a served model, streamed and whole. The model is tiny and writes noise, so the format comes to
the answer: its marks are cut out of what the model says to a prompt, written to a format file, and the same prompt must then
give the thoughts, the call and the text between those marks. Standard library only.

    chat_test.py PROGRAM
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from serve_test import free_port, make_model, request, wait_until_ready

TEMPLATE = (
    "{% for t in tools or [] %}({{ t.function.name }}){% endfor %}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n"
    "{% for c in m.tool_calls %}<{{ c.function.name }}{{ c.function.arguments | tojson }}>{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
LETTERS = "abcdefghijkl"
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in LETTERS]


def chat(port, **fields):
    body = {"messages": [{"role": "user", "content": "say it"}], "tools": TOOLS, "temperature": 1, "seed": 7,
            "max_tokens": 60, "ignore_eos": True, **fields}
    status, text = request(port, "POST", "/v1/chat/completions", json.dumps(body))
    assert status == 200, f"status {status}: {text[:300]}"
    return text


def message(port, **fields):
    choice = json.loads(chat(port, **fields))["choices"][0]
    return choice["message"], choice["finish_reason"]


def joined(stream):
    """The message that the deltas of a stream make, as a client puts it together."""
    out, finish = {"content": "", "reasoning_content": "", "tool_calls": []}, None
    for event in stream.split("\n\n")[:-2]:
        for choice in json.loads(event.removeprefix("data: "))["choices"]:
            finish = choice["finish_reason"] or finish
            for name in ("content", "reasoning_content"):
                out[name] += choice["delta"].get(name) or ""
            for call in choice["delta"].get("tool_calls", []):
                if call["index"] == len(out["tool_calls"]):
                    out["tool_calls"].append({"id": call["id"], "type": call["type"], "function": {"name": call["function"]["name"], "arguments": ""}})
                out["tool_calls"][call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return out, finish


def split(text):
    """A format file whose marks are pieces of this text, and what it makes of it: thoughts A, text B, a call of one letter
    with one parameter, and the rest as text."""
    bounds = [2, 6, 8, 12, 15, 16, 18, 20, 22, 25, 30, 32, 34]  # open A close B call name args first key sep value after last
    parts, at = [], 0
    for bound in bounds:
        parts.append(text[at:bound])
        at = bound
    opened, thoughts, closed, before, call, name, args, first, key, sep, value, after, last = parts
    rest = text[at:]
    # White space at the ends of things is not part of them.
    if name not in LETTERS or len(rest) < 10 or any(part != part.strip() for part in parts) or "\n" in text[:34]:
        return None
    if any(" " in mark for mark in (opened, closed, call, args, first, sep, after, last)):
        return None
    marks = {opened: 0, closed: 6, call: 12, args: 16, first: 18, sep: 22, after: 30, last: 32}
    if len(marks) < 8 or text.find(opened) != 0:
        return None
    # Each mark is found where it was cut out, and not before.
    if any(text.find(mark, start) != start for mark, start in marks.items()):
        return None
    searched = [(closed, 2, 6), (call, 8, 12), (args, 15, 16), (sep, 20, 22), (after, 25, 30)]
    if any(0 <= text.find(mark, begin) < end for mark, begin, end in searched):
        return None
    if call in rest or closed in text[8:15] or last in text[18:32]:
        return None
    q = json.dumps
    toml = (f"[recognise]\ntemplate = \"x\"\n[[thinking]]\nopen = {q(opened)}\nclose = {q(closed)}\n[calls]\n"
            f"call = {q(call + '{name}' + args + '{parameters}' + last)}\n"
            f"parameter = {q(first + '{key}' + sep + '{value}' + after)}\n")
    try:
        typed = json.loads(value)
        typed = value if isinstance(typed, str) else typed
    except ValueError:
        typed = value
    # Text behind a mark goes on in a new line where no white space stands there.
    joint = "" if rest[0] in " \n" else "\n"
    return toml, {"content": before + joint + rest, "reasoning": thoughts, "calls": [(name, {key: typed})]}


def check_run(program, folder):
    """`run` tells thoughts apart too: the answer alone on stdout, thoughts on stderr, no mark anywhere."""
    def run(seed, *flags):
        command = [program, "run", folder, "--backend", "reference", "-p", "say it", "-n", "30", "--ignore-eos",
                   "--temperature", "1", "--seed", str(seed), *flags]
        return subprocess.run(command, capture_output=True, text=True, check=True)

    for seed in range(1, 60):
        text = json.loads(run(seed, "--chat-format", "none", "--json").stdout)["text"]
        opened, thoughts, closed, rest = text[:2], text[2:6], text[6:8], text[8:]
        if not set(" \n") & set(text[:9]) and opened != closed and text.find(closed) == 6 and opened not in text[2:]:
            break
    else:
        raise AssertionError("no answer that can be cut into marks")
    path = pathlib.Path(folder) / "thoughts.toml"
    path.write_text(f'[recognise]\ntemplate = "x"\n[[thinking]]\nopen = {json.dumps(opened)}\nclose = {json.dumps(closed)}\n')
    found = json.loads(run(seed, "--chat-format", str(path), "--json").stdout)
    assert found["reasoning"] == thoughts and found["text"] == rest, f"{found}, {text!r} by {opened} and {closed}"
    shown = run(seed, "--chat-format", str(path))
    assert shown.stdout == rest + "\n" and (thoughts + "\n") in shown.stderr, shown


def check_closed_pipe(program, folder):
    """Generation ends when nobody reads the answer any more."""
    command = [program, "run", folder, "--backend", "reference", "-p", "say it", "-n", "60", "--ignore-eos", "--temperature", "0"]
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=True)
    os.close(write_end)
    generated = int(re.search(r"(\d+) generated", done.stderr)[1])
    assert generated < 60, done.stderr


def main():
    program_path = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_model(folder)
        config = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": TEMPLATE}))

        def serve(*flags):
            port = free_port()
            command = [program_path, "serve", name, "--backend", "reference", "--port", str(port), "--api-key", "k", *flags]
            program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until_ready(port, program)
            return port, program

        def end(program):
            program.send_signal(signal.SIGTERM)
            assert program.wait(timeout=20) == 0, f"exit status {program.returncode}"

        port, program = serve()
        found, seed, plain = None, 0, {}
        for seed in range(1, 400):
            plain, finish = message(port, seed=seed)
            assert finish == "length" and "tool_calls" not in plain
            found = split(plain["content"])
            if found:
                break
        assert found, "no answer that can be cut into marks"
        end(program)

        marks, wanted = found
        (folder / "mine.toml").write_text(marks)
        port, program = serve("--chat-format", str(folder / "mine.toml"))
        whole, finish = message(port, seed=seed)
        got = {"content": whole["content"], "reasoning": whole.get("reasoning_content"),
               "calls": [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in whole.get("tool_calls", [])]}
        assert got == wanted, f"{got}\nwanted {wanted}\nof {plain['content']!r}\nby {marks}"
        assert finish == "length"
        streamed, stream_finish = joined(chat(port, seed=seed, stream=True))
        assert stream_finish == finish
        assert streamed["content"] == whole["content"] and streamed["reasoning_content"] == whole["reasoning_content"]
        assert [c["function"] for c in streamed["tool_calls"]] == [c["function"] for c in whole["tool_calls"]]
        one, finish = message(port, seed=seed, parallel_tool_calls=False)
        assert finish == "tool_calls" and len(one["tool_calls"]) == 1, one
        none, finish = message(port, seed=seed, tool_choice="none")
        assert "tool_calls" not in none
        history = [{"role": "user", "content": "say it"}, {**whole, "content": "x"},
                   {"role": "tool", "tool_call_id": whole["tool_calls"][0]["id"], "content": "done"}]
        message(port, messages=history, max_tokens=8)
        end(program)
        check_run(program_path, name)
        check_closed_pipe(program_path, name)
        refused = subprocess.run([program_path, "serve", name, "--chat-format", "nothing"], capture_output=True, text=True)
        assert refused.returncode == 2 and "hermes" in refused.stderr, refused.stderr
    print("thoughts, a call, and text of a served model: streamed as whole")
    return 0


if __name__ == "__main__":
    sys.exit(main())
