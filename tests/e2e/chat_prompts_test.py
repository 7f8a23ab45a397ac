#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Families whose prompts their spec renders, end to end: tiny golden checkpoints with a tokenizer made of the format's
control tokens and of single characters; `render`, `tokenize`, `run` and a served chat agree. Standard library only.

    chat_prompts_test.py PROGRAM
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

from serve_test import free_port, request, wait_until_ready

DATA = pathlib.Path(__file__).resolve().parent.parent / "golden" / "data"
MARKS = re.compile(r"<[^<>]*>|｜DSML｜")
QUESTION = [{"role": "user", "content": "hi there"}]
BEGUN = [*QUESTION, {"role": "assistant", "content": "hi, "}]
FAMILIES = {
    # family: (golden, what the prompt ends with, variables that change it)
    "gpt_oss": ("<|start|>assistant", {"reasoning_effort": "high"}),
    "deepseek_v32": ("<｜Assistant｜></think>", {"thinking": True}),
    "deepseek_v4": ("<｜Assistant｜><think>", {"thinking": False}),
    "kimi_k3": ("<|open|>response<|sep|>", {"thinking": True}),
}
SHORT = {"kimi_k3": {"thinking": False}}  # 256 positions take no words about effort


def program(*words, code=0):
    ran = subprocess.run([sys.argv[1], *map(str, words)], capture_output=True, text=True, check=False)
    assert ran.returncode == code, f"{words}: {ran.returncode}: {ran.stderr[:500]}"
    return ran.stdout if code == 0 else ran.stderr


def render(folder, messages, variables=None, *flags):
    path = folder / "messages.json"
    path.write_text(json.dumps(messages))
    more = ["--chat-variables", json.dumps(variables)] if variables else []
    return json.loads(program("render", folder, "--messages", path, "--json", *more, *flags))


def make_tokenizer(folder, prompts):
    """Ids for the marks in trusted text and for as many characters as a vocabulary of 64 holds."""
    marks, characters = [], []
    for prompt in prompts:
        for segment in prompt["segments"]:
            if segment["trusted"]:
                marks += MARKS.findall(segment["text"])
            characters += [c for c in segment["text"] if not segment["trusted"]]
    pieces = list(dict.fromkeys(["<unk>", "<eos>", *marks]))
    common = sorted(set(characters), key=lambda c: (-characters.count(c), c))
    added = len(pieces)
    pieces += [c for c in dict.fromkeys([*"<|>/hi ", *common])][: 64 - added]
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": s, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False} for i, s in enumerate(pieces[:added])],
        "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "unk_token": "<unk>", "vocab": {p: i for i, p in enumerate(pieces)}, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<eos>", "unk_token": "<unk>"}))
    return pieces


def count_tokens(prompt):
    """A mark in trusted text is one token, everything else a token per character."""
    count = 0
    for segment in prompt["segments"]:
        text = segment["text"]
        count += len(MARKS.sub("x", text) if segment["trusted"] else text)
    return count


def chat(port, messages, **fields):
    body = {"messages": messages, "max_tokens": 4, "temperature": 0, "ignore_eos": True, **fields}
    status, text = request(port, "POST", "/v1/chat/completions", json.dumps(body), key=None)
    return status, json.loads(text)


def check_served(folder, family, pieces):
    variables = SHORT.get(family, {})
    port = free_port()
    served = subprocess.Popen([sys.argv[1], "serve", folder, "--backend", "reference", "--port", str(port)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(port, served)
        plain = render(folder, QUESTION, variables)
        ids = json.loads(program("tokenize", folder, "-t", plain["text"], "--no-special", "--json"))["ids"]
        status, answer = chat(port, QUESTION, chat_template_kwargs=variables, logprobs=True, skip_special_tokens=False)
        assert status == 200, answer
        assert answer["usage"]["prompt_tokens"] == len(ids) == count_tokens(plain), answer["usage"]
        status, text = request(port, "POST", "/v1/completions", json.dumps(
            {"prompt": ids, "max_tokens": 4, "temperature": 0, "ignore_eos": True, "logprobs": 0}), key=None)
        tokens = json.loads(text)["choices"][0]["logprobs"]["tokens"]
        assert status == 200 and tokens == [e["token"] for e in answer["choices"][0]["logprobs"]["content"]], text

        # What a user writes is never a control token: it costs a token per character.
        mark = next(p for p in pieces[2:] if p in plain["text"])
        evil = [{"role": "user", "content": "hi there" + mark}]
        status, answer = chat(port, evil, chat_template_kwargs=variables)
        assert status == 200 and answer["usage"]["prompt_tokens"] == len(ids) + len(mark), answer

        if family != "deepseek_v4":  # takes results of tools from anywhere
            lost = [*QUESTION, {"role": "tool", "tool_call_id": "x", "content": "y"}]
            status, answer = chat(port, lost, chat_template_kwargs=variables)
            assert status == 400 and "messages[1]" in answer["error"]["message"], answer
            assert answer["error"]["param"] == "messages", answer
        prompt = render(folder, BEGUN, variables, "--continue-final-message")
        assert prompt["text"].endswith("hi, ") and not prompt["thinking_open"], prompt["text"]
        status, answer = chat(port, BEGUN, chat_template_kwargs=variables, continue_final_message=True)
        assert status == 200 and answer["usage"]["prompt_tokens"] == count_tokens(prompt), answer
        status, answer = chat(port, QUESTION, chat_template_kwargs=variables, continue_final_message=True)
        assert status == 400 and "messages[0]" in answer["error"]["message"], answer

        status, answer = chat(port, QUESTION, chat_template_kwargs={**variables, "reasoning_effort": 7})
        assert status == 400 and "reasoning_effort" in answer["error"]["message"], answer
    finally:
        served.terminate()
        assert served.wait(timeout=30) == 0, "an orderly end"


def check_family(family):
    ending, other = FAMILIES[family]
    variables = SHORT.get(family, {})
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file in ("config.json", "model.safetensors"):
            (folder / file).write_bytes((DATA / family / file).read_bytes())
        plain, changed = render(folder, QUESTION, variables), render(folder, QUESTION, other)
        assert plain["text"].endswith(ending), plain["text"]
        assert plain["text"] != changed["text"], f"{other} changes nothing"
        assert plain["thinking_open"] == (plain["thinking_close_tag"] is not None) == ending.endswith("<think>")
        pieces = make_tokenizer(folder, [plain, changed, render(folder, BEGUN, variables)])
        known = set(pieces) | {m for m in pieces}
        shown = program("tokenize", folder, "--decode",
                        ",".join(map(str, json.loads(program("tokenize", folder, "-t", plain["text"], "--json"))["ids"])))
        if all(c in known for c in MARKS.sub("", plain["text"])):
            assert shown.rstrip("\n") == plain["text"].rstrip("\n"), f"{shown!r} {plain['text']!r}"
        ran = json.loads(program("run", folder, "-p", "hi there", "--max-tokens", 2, "--ignore-eos", "--json",
                                 "--chat-variables", json.dumps(variables)))
        assert ran["prompt_tokens"] == count_tokens(plain), ran

        # The checkpoint's own template goes first; the flag says otherwise.
        (folder / "chat_template.jinja").write_text("{{ messages[0].content }}!")
        assert render(folder, QUESTION, variables)["text"] == "hi there!"
        assert render(folder, QUESTION, variables, "--prompt-from", "spec") == plain
        (folder / "chat_template.jinja").write_text("{% broken")
        assert render(folder, QUESTION, variables) == plain
        messages = folder / "messages.json"
        assert "no usable chat" in program("render", folder, "--messages", messages, "--prompt-from", "template", code=2)
        (folder / "chat_template.jinja").unlink()
        check_served(folder, family, pieces)


def main():
    for family in FAMILIES:
        check_family(family)
        print(family, "passed")
    refused = program("render", DATA / "llama", "--messages", "/dev/null", "--prompt-from", "spec", code=2)
    assert refused, "an empty file of messages is refused"


if __name__ == "__main__":
    main()
