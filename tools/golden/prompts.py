#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of the shipped render functions: drawn conversations and the length and hash of their prompts by code
that is not ours.

  tools/golden/prompts.py        -> src/intake/test/data/drawn_prompts.json

Needs openai-harmony (or oss-harmony 0.0.11), and vllm for its copies of the encoders that DeepSeek publishes with its weights
(vllm/tokenizers/deepseek_v32_encoding.py, deepseek_v4_encoding.py; the files alone are loaded). A case is drawn from its
number; the same numbers give the same file.
"""
import importlib.util
import json
import os
import random
import re
import sys

from openai_harmony import (Author, Conversation, DeveloperContent, HarmonyEncodingName, Message, ReasoningEffort,
                            RenderConversationConfig, Role, SystemContent, ToolDescription, load_harmony_encoding)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORDS = ["weather", "Hangzhou", "明天", "two words", "<b>", "a\nb", "it's \"so\"", "\\n", "1.50", "☂", "& more", "tab\there"]
EFFORTS = {"low": ReasoningEffort.LOW, "medium": ReasoningEffort.MEDIUM, "high": ReasoningEffort.HIGH}


def text(draw, least=1):
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(least, 5)))


def value(draw, depth=0):
    kinds = ["text", "int", "float", "bool", "null"] + (["list", "object"] if depth < 2 else [])
    kind = draw.choice(kinds)
    if kind == "list":
        return [value(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    if kind == "object":
        return {draw.choice("zyxwabc") + str(i): value(draw, depth + 1) for i in range(draw.randint(0, 3))}
    plain = {"text": text(draw), "int": draw.randint(-10**12, 10**12), "float": draw.choice([1.0, 0.1, -2.5e-7, 1e16, 1e22])}
    return plain[kind] if kind in plain else kind == "bool" if kind == "bool" else None


def schema(draw, depth=0):
    """A JSON schema with what the TypeScript of harmony looks at."""
    kind = draw.choice(["string", "number", "integer", "boolean", "array", "object", "several", "union", "none"])
    if depth > 2 and kind in ("array", "object", "union"):
        kind = "string"
    s = {}
    if draw.random() < 0.5:
        s["description"] = draw.choice(WORDS) + "."
    if draw.random() < 0.2:
        s["title"] = draw.choice(WORDS)
    if kind == "several":
        s["type"] = draw.sample(["string", "integer", "number", "null"], 2)
    elif kind == "union":
        s["oneOf"] = [schema(draw, depth + 1) for _ in range(draw.randint(1, 3))]
    elif kind != "none":
        s["type"] = kind
    if kind == "array" and draw.random() < 0.8:
        s["items"] = schema(draw, depth + 1)
    if kind == "object":
        s["properties"] = {f"{draw.choice('qrst')}{i}": schema(draw, depth + 1) for i in range(draw.randint(0, 4))}
        s["required"] = [k for k in s["properties"] if draw.random() < 0.5]
    if kind == "string" and draw.random() < 0.4:
        s["enum"] = draw.sample(["red", "green", "blue"], 2)
    if draw.random() < 0.3:
        s["default"] = draw.choice(["red", 3, 1.5, True, None, ["a", 1], {"k": "v"}])
    if draw.random() < 0.2:
        s["nullable"] = draw.choice([True, False])
    if draw.random() < 0.2:
        s["examples"] = draw.sample(["one", "two", 3], 2)
    return s


def tools(draw):
    made = []
    for i in range(draw.choice([0, 0, 1, 3])):
        function = {"name": f"tool_{i}", "description": text(draw)}
        properties = {f"p{k}": schema(draw) for k in range(draw.randint(0, 4))}
        function["parameters"] = {"type": "object", "properties": properties}
        if properties and draw.random() < 0.5:
            function["parameters"]["required"] = list(properties)[:1]
        made.append({"type": "function", "function": function})
    return made


def conversation(draw, reorder):
    """Turns of users and assistants, with calls and their results; the last is a user's, an answer or a result."""
    messages = [{"role": "system", "content": text(draw)}] if draw.random() < 0.6 else []
    for _ in range(draw.randint(1, 4)):
        messages.append({"role": "user", "content": text(draw)})
        for _ in range(draw.choice([0, 0, 1, 2])):
            calls = [{"id": f"c{len(messages)}_{i}", "type": "function", "function": {
                "name": f"tool_{draw.randint(0, 2)}",
                "arguments": json.dumps({draw.choice("kmn") + str(k): value(draw) for k in range(draw.randint(0, 3))},
                                        ensure_ascii=draw.random() < 0.5)}} for i in range(draw.randint(1, 3))]
            messages.append({"role": "assistant", "content": text(draw, 0), "reasoning_content": text(draw), "tool_calls": calls})
            order = draw.sample(calls, len(calls)) if reorder else calls
            messages += [{"role": "tool", "tool_call_id": c["id"], "content": text(draw)} for c in order]
        if draw.random() < 0.8:
            messages.append({"role": "assistant", "content": text(draw), "reasoning_content": text(draw)})
    if messages[-1]["role"] == "assistant" and draw.random() < 0.7:
        messages.append({"role": "user", "content": text(draw)})
    return messages


def load_encoder(name):
    vllm = importlib.util.find_spec("vllm").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location(name, os.path.join(vllm, "tokenizers", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def deepseek(draw, family, encoder):
    messages, functions, thinking = conversation(draw, family == "deepseek_v4"), tools(draw), draw.random() < 0.6
    if family == "deepseek_v32":
        functions = []  # this copy's words about tools have lost their empty lines
    request = {"messages": messages, "variables": {"thinking": thinking}}
    request["add_generation_prompt"] = messages[-1]["role"] != "assistant"
    whole, extra = [{**m, "reasoning": m.get("reasoning_content")} for m in messages], {}  # by either name
    if functions:
        request["tools"] = functions
        whole.insert(0, {"role": "system", "tools": functions})
    if family == "deepseek_v4":
        effort = draw.choice(["low", "high", "max"])
        request["variables"].update({"reasoning_effort": effort, "revision": "0731"})
        extra["reasoning_effort"] = effort
        if draw.random() < 0.3:
            request["variables"]["drop_thinking"] = extra["drop_thinking"] = False
    return request, encoder.encode_messages(whole, thinking_mode="thinking" if thinking else "chat", **extra)


def harmony(draw, encoding):
    messages, functions, effort = conversation(draw, True), tools(draw), draw.choice(list(EFFORTS))
    request = {"messages": messages, "variables": {"reasoning_effort": effort, "drop_analysis": False}}
    if functions:
        request["tools"] = functions
    system = SystemContent.new().with_conversation_start_date("2025-06-28").with_reasoning_effort(EFFORTS[effort])
    builtin = draw.choice([None, None, "browser", "python"])
    if builtin:
        request["variables"]["builtin_tools"] = [builtin]
        system = system.with_browser_tool() if builtin == "browser" else system.with_python_tool()
    made = [Message.from_role_and_content(Role.SYSTEM, system)]
    rest, developer = messages, None
    if messages[0]["role"] == "system":
        developer, rest = DeveloperContent.new().with_instructions(messages[0]["content"]), messages[1:]
    if functions:
        described = [ToolDescription.new(t["function"]["name"], t["function"]["description"], t["function"]["parameters"])
                     for t in functions]
        developer = (developer or DeveloperContent.new()).with_function_tools(described)
    if developer:
        made.append(Message.from_role_and_content(Role.DEVELOPER, developer))
    names = {}
    for m in rest:
        made += harmony_messages(m, names)
    config = RenderConversationConfig(auto_drop_analysis=False)
    tokens = encoding.render_conversation_for_completion(Conversation.from_messages(made), Role.ASSISTANT, config)
    # Some versions of the library put a call's recipient behind the channel; the published goldens have it before.
    prompt = re.sub(r"(<\|start\|>[^<]*)(<\|channel\|>\w+)( to=\S+?)(?=[ <])", r"\1\3\2", encoding.decode_utf8(tokens))
    return request, prompt


def harmony_messages(m, names):
    if m["role"] == "user":
        return [Message.from_role_and_content(Role.USER, m["content"])]
    if m["role"] == "tool":
        author = Author.new(Role.TOOL, "functions." + names[m["tool_call_id"]])
        return [Message.from_author_and_content(author, m["content"]).with_channel("commentary").with_recipient("assistant")]
    calls, made = m.get("tool_calls", []), []
    made.append(Message.from_role_and_content(Role.ASSISTANT, m["reasoning_content"]).with_channel("analysis"))
    if m["content"]:
        channel = "commentary" if calls else "final"
        made.append(Message.from_role_and_content(Role.ASSISTANT, m["content"]).with_channel(channel))
    for call in calls:
        names[call["id"]] = call["function"]["name"]
        said = Message.from_role_and_content(Role.ASSISTANT, call["function"]["arguments"]).with_channel("commentary")
        made.append(said.with_recipient("functions." + call["function"]["name"]).with_content_type("<|constrain|>json"))
    return made


def fingerprint(prompt):
    hashed = 0xCBF29CE484222325
    for byte in prompt.encode():
        hashed = (hashed ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{len(prompt.encode())}:{hashed:016x}"


def main():
    whole = "--text" in sys.argv  # the prompts themselves, to look at
    v32, v4 = load_encoder("deepseek_v32_encoding"), load_encoder("deepseek_v4_encoding")
    encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    makers = {"deepseek_v32": lambda d: deepseek(d, "deepseek_v32", v32), "deepseek_v4": lambda d: deepseek(d, "deepseek_v4", v4),
              "gpt_oss": lambda d: harmony(d, encoding)}
    cases = []
    for family, make in makers.items():
        number = 0
        while sum(c["family"] == family for c in cases) < 20:
            draw = random.Random(f"{family} {number}")
            number += 1
            try:
                request, prompt = make(draw)
            except (AssertionError, ValueError):  # a conversation that the encoder does not take
                continue
            cases.append({"family": family, "request": request, "prompt": prompt if whole else fingerprint(prompt)})
    out = "/dev/stdout" if whole else os.path.join(ROOT, "src/intake/test/data/drawn_prompts.json")
    with open(out, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
