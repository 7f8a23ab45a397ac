#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls that are asked for, and constraints behind thoughts, of a served model that writes noise: whatever its tokens are, the
answer is a call of a tool with arguments of its schema, in several chat formats, streamed and whole; or thoughts and then a text
of the constraint. Standard library only.

    tool_choice_test.py PROGRAM
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

import serve_test
from chat_test import joined
from serve_test import free_port, request, wait_until_ready
from structured_output_test import check

# Letters that no mark needs make room for control tokens.
CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456 \n.,:'-()[]{}\"<>/_|="
TEMPLATE = ("{% for t in tools or [] %}({{ t.function.name }}){% endfor %}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n"
            "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}{% endfor %}"
            "{% if add_generation_prompt %}[assistant]{% if think %}<think>{% endif %}{% endif %}")
# Formats whose marks these characters can spell, and which of their marks are control tokens.
FORMATS = {
    "hermes": ["<think>", "</think>", "<tool_call>", "</tool_call>"],
    "harmony": ["<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|call|>"],
    "qwen3_coder": ["<think>", "</think>", "<tool_call>", "</tool_call>"],
    "python_list": [],
    "kimi_k2": ["<|tool_call_begin|>", "<|tool_call_end|>"],
    "gemma4": ["<|\"|>", "<|channel>", "<channel|>"],
}
CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 6},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "unit": {"enum": ["c", "f"]},
        "exact": {"type": "boolean"},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
NOW = {"type": "object", "properties": {"zone": {"enum": ["utc", "cet"]}}, "required": ["zone"], "additionalProperties": False}
SCHEMAS = {"weather": CITY, "now": NOW}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()]
NAMED = {"type": "function", "function": {"name": "now"}}


@contextlib.contextmanager
def served(program, folder, chat_format, marks):
    serve_test.CHARACTERS, serve_test.TEMPLATE = CHARACTERS, TEMPLATE
    pieces = serve_test.make_model(folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    for i, mark in enumerate(marks):
        tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": len(pieces) + i, "content": mark})
    path.write_text(json.dumps(tokenizer))
    config = json.loads((folder / "config.json").read_text())
    assert len(pieces) + len(marks) <= config["vocab_size"]
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 1024}))
    port = free_port()
    command = [program, "serve", str(folder), "--backend", "cpu", "--port", str(port), "--chat-format", chat_format]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(port, process)
        yield port, {len(pieces) + i: mark for i, mark in enumerate(marks)}
    finally:
        process.kill()
        process.wait()


def send(port, **fields):
    body = {"messages": [{"role": "user", "content": "say it"}], "max_tokens": 400, "seed": 3, **fields}
    return request(port, "POST", "/v1/chat/completions", json.dumps(body), key=None)


def choices(port, **fields):
    status, text = send(port, **fields)
    assert status == 200, text
    return json.loads(text)["choices"]


def check_calls(choice, names, finish, exactly=None):
    calls = choice["message"].get("tool_calls", [])
    assert choice["finish_reason"] in (finish, "length"), choice
    if choice["finish_reason"] == "length":
        calls = calls[:-1]  # cut
    else:
        assert exactly is None or len(calls) == exactly, calls
    for call in calls:
        name = call["function"]["name"]
        assert name in names, calls
        arguments = json.loads(call["function"]["arguments"])
        faults = check(arguments, SCHEMAS[name], SCHEMAS[name])
        assert not faults, (faults, call)
    assert not choice["message"]["content"], choice
    return len(calls)


def check_format(port, name):
    told = {"tools": TOOLS, "chat_template_kwargs": {"think": False}}
    found = [check_calls(c, SCHEMAS, "tool_calls") for c in choices(port, tool_choice="required", n=6, **told)]
    assert sum(found) >= 6, found
    one = [check_calls(c, SCHEMAS, "tool_calls", 1)
           for c in choices(port, tool_choice="required", parallel_tool_calls=False, n=6, **told)]
    named = choices(port, tool_choice=NAMED, n=4, **told)
    assert sum(check_calls(c, ["now"], "stop", 1) for c in named) >= 3, named
    status, stream = send(port, tool_choice=NAMED, stream=True, **told)
    message, finish = joined(stream)
    assert status == 200 and finish == named[0]["finish_reason"], stream
    assert [c["function"] for c in message["tool_calls"]] == [c["function"] for c in named[0]["message"]["tool_calls"]], stream
    # With a constraint beside: its text, or calls.
    either = choices(port, response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": NOW}}, n=8, **told)
    texts = [c["message"]["content"] for c in either if not c["message"].get("tool_calls")]
    for choice in either:
        if choice["message"].get("tool_calls"):
            check_calls(choice, SCHEMAS, "tool_calls")
        elif choice["finish_reason"] == "stop":
            assert json.loads(choice["message"]["content"])["zone"] in ("utc", "cet"), choice
    print(f"{name}: {sum(found)} calls of six answers, {sum(one)} of six singles, {len(texts)} texts of eight")


def check_cut(port, name):
    """Wherever calls are cut, nothing of them is text; names that are whole are there, streamed or not."""
    told = {"tools": TOOLS, "chat_template_kwargs": {"think": False}, "temperature": 1.5}
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": NOW}}
    named = 0
    for max_tokens in (2, 5, 9, 14, 20, 27, 40, 60):
        for fields in ({"tool_choice": "required"}, {"response_format": schema}):
            fields = {**told, **fields, "max_tokens": max_tokens}
            choice = choices(port, **fields)[0]
            message = choice["message"]
            calls = [c["function"] for c in message.get("tool_calls", [])]
            named += len(calls)
            assert all(c["name"] in SCHEMAS for c in calls), message
            if "tool_choice" in fields or calls:
                assert not message["content"], choice
            else:
                assert '{"zone":"utc"}{"zone":"cet"}'.find("".join(message["content"].split())) >= 0, choice
            status, stream = send(port, stream=True, **fields)
            streamed, finish = joined(stream)
            assert status == 200 and finish == choice["finish_reason"], stream
            assert (streamed["content"] or "") == (message["content"] or ""), (streamed, choice)
            assert [c["function"] for c in streamed.get("tool_calls", [])] == calls, (streamed, choice)
    assert named, "no cut call had a name"
    print(f"{name}: {named} calls of sixteen answers that were cut")


def check_control_tokens(port, marks):
    """Forced by a bias, one or all, they are no text, with tools or without; asked for, they are."""
    for bias in [{i: 100} for i in marks] + [{i: 20 for i in marks}]:
        for fields in ({"tools": TOOLS}, {}):
            for choice in choices(port, logit_bias=bias, n=3, max_tokens=24, ignore_eos=True, **fields):
                message = choice["message"]
                shown = [m for m in marks.values() for part in (message["content"], message.get("reasoning_content")) if m in (part or "")]
                assert not shown, (bias, choice)
    some = next(i for i, mark in marks.items() if "think" not in mark)  # those are never text
    forced = choices(port, logit_bias={some: 100}, max_tokens=3, ignore_eos=True, skip_special_tokens=False)[0]["message"]
    assert marks[some] in (forced["content"] or "") + forced.get("reasoning_content", ""), forced


def check_thoughts(port):
    """The prompt opens them, or the model does; what they close with is a control token here."""
    asked = {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": NOW}}, "n": 8}
    thought = 0
    for opened in (True, False):
        for choice in choices(port, chat_template_kwargs={"think": opened}, **asked):
            thought += bool(choice["message"].get("reasoning_content"))
            if choice["finish_reason"] == "stop":
                assert json.loads(choice["message"]["content"])["zone"] in ("utc", "cet"), choice
            else:
                assert choice["message"].get("reasoning_content") and not choice["message"]["content"], choice
    assert thought >= 6, thought
    for choice in choices(port, tools=TOOLS, tool_choice=NAMED, chat_template_kwargs={"think": True}, n=4):
        if choice["finish_reason"] != "length":
            assert choice["message"]["reasoning_content"] and check_calls(choice, ["now"], "stop", 1) == 1
    print(f"thoughts: {thought} of sixteen answers")


def check_run(program, folder):
    """`run` too: thoughts come apart, the text is the constraint's."""
    closed = 0
    for seed in range(8):
        command = [program, "run", str(folder), "--backend", "cpu", "-p", "say it", "--chat-variables", '{"think": true}', "--regex", "(utc|cet)",
                   "--temperature", "1", "--seed", str(seed), "--max-tokens", "200", "--json"]
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        closed += answer["finish_reason"] == "stop"
        assert answer["text"] in (("utc", "cet") if answer["finish_reason"] == "stop" else ("",)), answer
        assert answer["reasoning"], answer
    assert closed >= 4, closed


def check_refusals(port):
    for fields, param in (
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice.function.name"),
        ({"tools": TOOLS, "tool_choice": "required", "ignore_eos": True}, "ignore_eos"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": {"multipleOf": 2}}}}}],
          "tool_choice": "required"}, "tools[0].function.parameters"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"chat_template_kwargs": {"bos_token": "x"}}, "chat_template_kwargs.bos_token"),
    ):
        status, text = send(port, **fields)
        assert status == 400 and json.loads(text)["error"]["param"] == param, text


def main():
    program = sys.argv[1]
    for name, marks in FORMATS.items():
        with tempfile.TemporaryDirectory() as folder, served(program, pathlib.Path(folder), name, marks) as (port, ids):
            check_format(port, name)
            check_cut(port, name)
            if ids:
                check_control_tokens(port, ids)
            if name == "hermes":
                check_thoughts(port)
                check_refusals(port)
                check_run(program, folder)
    with tempfile.TemporaryDirectory() as folder, served(program, pathlib.Path(folder), "none", []) as (port, _):
        status, text = send(port, tools=TOOLS, tool_choice="required")
        assert status == 400 and json.loads(text)["error"]["param"] == "tool_choice", text
    return 0


if __name__ == "__main__":
    sys.exit(main())
