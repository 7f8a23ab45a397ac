#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server as OpenAI's own Python package sees it: every call typed, streams, parsed output, embeddings, faults as their
exceptions, and its retries when the server is full. A tiny model answers; what it says is compared between the ways to ask.

    FIRSTLIGHT_CLIENTS=VENV openai_test.py PROGRAM
"""

import asyncio
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

import clients

clients.rerun_with("openai")
import openai  # noqa: E402
import pydantic  # noqa: E402

HI = [{"role": "user", "content": "hi"}]
GREEDY = {"temperature": 0, "max_tokens": 12}


def check_models(client, model):
    assert client.models.retrieve(model).id == model
    assert client.models.list().data[0].owned_by == "firstlight"


def check_chat(client, model):
    answer = client.chat.completions.create(model=model, messages=HI, n=2, seed=5, max_tokens=6, logprobs=True, top_logprobs=2)
    assert len(answer.choices) == 2 and answer.usage.completion_tokens >= 2
    for choice in answer.choices:
        assert choice.message.role == "assistant" and choice.finish_reason in ("stop", "length")
        for token in choice.logprobs.content:
            assert len(token.top_logprobs) == 2 and token.logprob <= 0 and token.bytes is not None
    again = client.chat.completions.create(model=model, messages=HI, n=2, seed=5, max_tokens=6)
    assert [c.message.content for c in again.choices] == [c.message.content for c in answer.choices]


def check_streams(client, model):
    whole = client.chat.completions.create(model=model, messages=HI, **GREEDY)
    text, usage = "", None
    for chunk in client.chat.completions.create(model=model, messages=HI, stream=True, stream_options={"include_usage": True}, **GREEDY):
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert text == whole.choices[0].message.content and usage == whole.usage.model_copy(update={"prompt_tokens_details": usage.prompt_tokens_details})
    with client.chat.completions.stream(model=model, messages=HI, stop=text[-1], **GREEDY) as stream:
        pieces = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert "".join(pieces) == final.choices[0].message.content == text[:text.index(text[-1])]
    # Leaving a stream early takes the connection down, and the server goes on.
    with client.chat.completions.create(model=model, messages=HI, stream=True, max_tokens=60) as stream:
        next(iter(stream))
    assert client.chat.completions.create(model=model, messages=HI, **GREEDY).choices[0].message.content == text


def check_completions(client, model):
    answer = client.completions.create(model=model, prompt=["ab", "cd"], logprobs=2, **GREEDY)
    assert len(answer.choices) == 2 and len(answer.choices[0].logprobs.tokens) == answer.usage.completion_tokens - len(answer.choices[1].logprobs.tokens)
    streamed = ["", ""]
    for chunk in client.completions.create(model=model, prompt=["ab", "cd"], stream=True, **GREEDY):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == [choice.text for choice in answer.choices]
    echoed = client.completions.create(model=model, prompt="ab", echo=True, **GREEDY)
    assert echoed.choices[0].text == "ab" + answer.choices[0].text
    scored = client.completions.create(model=model, prompt="ab", echo=True, logprobs=1, max_tokens=0)
    told = scored.choices[0].logprobs
    assert scored.choices[0].text == "ab" and told.tokens == ["a", "b"] and told.text_offset == [0, 1], scored
    assert told.token_logprobs[0] is None and told.token_logprobs[1] <= max(told.top_logprobs[1].values()) <= 0
    assert scored.usage.completion_tokens == scored.usage.completion_tokens_details.rejected_prediction_tokens == 0


def check_embeddings(client, model):
    """The package asks for base64 by itself."""
    found = client.embeddings.create(model=model, input=["ab", "cd"])
    plain = client.embeddings.create(model=model, input="ab", encoding_format="float")
    assert len(found.data) == 2 and found.data[1].index == 1 and found.usage.prompt_tokens > 0
    assert max(abs(a - b) for a, b in zip(found.data[0].embedding, plain.data[0].embedding, strict=True)) < 1e-5


def check_tools(client, model):
    parameters = {"type": "object", "properties": {"city": {"type": "string", "enum": ["ulm", "bonn"]}}, "required": ["city"], "additionalProperties": False}
    tools = [{"type": "function", "function": {"name": "weather", "description": "now", "parameters": parameters}}]
    answer = client.chat.completions.create(model=model, messages=HI, tools=tools, max_tokens=20)
    assert answer.choices[0].message.role == "assistant"
    tools.append({"type": "function", "function": {"name": "now"}})
    named = {"type": "function", "function": {"name": "weather"}}
    asked = {"model": model, "messages": HI, "tools": tools, "max_tokens": 200}
    for choice, names, finish in (("required", ("weather", "now"), "tool_calls"), (named, ("weather",), "stop")):
        for seed in range(4):
            fields = {**asked, "tool_choice": choice, "seed": seed, "parallel_tool_calls": False}
            answer = client.chat.completions.create(**fields)
            call, = answer.choices[0].message.tool_calls
            assert answer.choices[0].finish_reason == finish and call.function.name in names, answer
            arguments = json.loads(call.function.arguments)
            assert arguments["city"] in ("ulm", "bonn") if call.function.name == "weather" else arguments == {}, call
            with client.chat.completions.stream(**fields) as stream:
                events = list(stream)
                streamed = stream.get_final_completion().choices[0]
            pieces = [event.arguments_delta for event in events if event.type == "tool_calls.function.arguments.delta"]
            assert "".join(pieces) == streamed.message.tool_calls[0].function.arguments == call.function.arguments
            assert streamed.finish_reason == finish and not streamed.message.content, streamed
    several = client.chat.completions.create(**{**asked, "tool_choice": "required"}, n=4, seed=1).choices
    assert all(choice.message.tool_calls and not choice.message.content for choice in several)
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]}}
    only = client.chat.completions.create(**asked, tool_choice=allowed, parallel_tool_calls=False).choices[0]
    assert only.message.tool_calls[0].function.name == "now" and only.finish_reason == "tool_calls"
    answer = client.chat.completions.create(**asked, tool_choice=named)
    call = answer.choices[0].message.tool_calls[0]
    history = [*HI, {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]}, {"role": "tool", "tool_call_id": call.id, "content": "fine"}]
    assert client.chat.completions.create(model=model, messages=history, tools=tools, **GREEDY).choices[0].message.role == "assistant"


class Point(pydantic.BaseModel):
    axis: bool
    colour: str = pydantic.Field(pattern="^(red|blue)$")


def check_schema(client, model):
    asked = {"model": model, "messages": HI, "response_format": Point, "max_tokens": 600}
    for seed in range(4):
        answer = client.chat.completions.parse(**asked, seed=seed, logprobs=True, top_logprobs=2)
        point = answer.choices[0].message.parsed
        assert isinstance(point.axis, bool) and point.colour in ("red", "blue"), answer
        # Log-probabilities are of the model, not of what the mask left; their texts are the answer's.
        tokens = answer.choices[0].logprobs.content
        assert "".join(token.token for token in tokens) == answer.choices[0].message.content, tokens
        assert all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in tokens)
        with client.chat.completions.stream(**asked, seed=seed) as stream:
            assert stream.get_final_completion().choices[0].message.parsed == point
    strict = {"type": "json_schema", "json_schema": {"name": "point", "strict": True, "schema": Point.model_json_schema()}}
    whole = client.chat.completions.create(model=model, messages=HI, response_format=strict, seed=0, max_tokens=600)
    assert Point.model_validate_json(whole.choices[0].message.content)


class Weather(pydantic.BaseModel):
    city: str = pydantic.Field(pattern="^(ulm|bonn)$")
    days: int = pydantic.Field(ge=1, le=3)


def check_parsed_tools(client, model):
    """A tool made of a class, its arguments parsed by the package; beside a response format the answer is either."""
    tools = [openai.pydantic_function_tool(Weather, name="weather")]
    asked = {"model": model, "messages": HI, "tools": tools, "max_tokens": 300}
    named = {"type": "function", "function": {"name": "weather"}}
    for seed in range(3):
        answer = client.chat.completions.parse(**asked, tool_choice=named, seed=seed)
        arguments = answer.choices[0].message.tool_calls[0].function.parsed_arguments
        assert isinstance(arguments, Weather) and 1 <= arguments.days <= 3, answer
    either = client.chat.completions.parse(**asked, response_format=Point, n=4, seed=1, parallel_tool_calls=False)
    for choice in either.choices:
        assert bool(choice.message.tool_calls) != (choice.message.parsed is not None), choice


def check_faults(client, model, url):
    def fails(kind, call):
        try:
            call()
        except kind as fault:
            return fault
        raise AssertionError(f"no {kind.__name__}")

    fault = fails(openai.BadRequestError, lambda: client.chat.completions.create(model=model, messages=HI, temperature=3))
    assert fault.param == "temperature" and "0 to 2" in fault.message and fault.request_id
    fault = fails(openai.BadRequestError, lambda: client.chat.completions.create(model=model, messages=HI, max_tokens=100000))
    assert fault.code == "context_length_exceeded"
    fault = fails(openai.NotFoundError, lambda: client.chat.completions.create(model="gpt-4", messages=HI))
    assert fault.code == "model_not_found"
    fails(openai.AuthenticationError, lambda: openai.OpenAI(base_url=url, api_key="wrong").models.list())
    fails(openai.BadRequestError, lambda: client.chat.completions.create(model=model, messages=HI, extra_body={"no_such_field": 1}))
    slow = {"model": model, "messages": HI, "max_tokens": 900, "extra_body": {"ignore_eos": True}}
    fails(openai.APITimeoutError, lambda: client.with_options(timeout=0.02, max_retries=0).chat.completions.create(**slow))


def check_full(client, model):
    """More at one time than the server takes: 429 without retries, answers for all with them."""
    def ask(retries):
        try:
            client.with_options(max_retries=retries).completions.create(model=model, prompt="ab", max_tokens=100, extra_body={"ignore_eos": True})
        except openai.RateLimitError as fault:
            assert fault.code == "queue_full" and int(fault.response.headers["retry-after"]) >= 1
            return "429"
        return "200"

    with concurrent.futures.ThreadPoolExecutor(48) as pool:
        once = list(pool.map(ask, [0] * 48))
        assert once.count("429") > 0 and once.count("200") > 0, f"{once.count('429')} of 48 refused"
        patient = list(pool.map(ask, [20] * 48))
    assert patient.count("200") == 48, patient
    return f"{once.count('429')} of 48 refused at first, none with retries"


async def check_async(url, model):
    async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=20) as client:
        answers = await asyncio.gather(*(client.chat.completions.create(model=model, messages=HI, **GREEDY) for _ in range(32)))
    assert len({answer.choices[0].message.content for answer in answers}) == 1


def main():
    with tempfile.TemporaryDirectory() as folder:
        clients.make_model(pathlib.Path(folder))
        with clients.served(sys.argv[1], folder, "--api-key", "k", "--embeddings", "--max-sequences", "2", "--max-waiting", "4") as port:
            url = f"http://127.0.0.1:{port}/v1"
            client = openai.OpenAI(base_url=url, api_key="k")
            model = client.models.list().data[0].id
            for check in (check_models, check_chat, check_streams, check_completions, check_embeddings, check_tools, check_schema, check_parsed_tools, check_full):
                told = check(client, model)
                print(f"{check.__name__[6:]}: {told or 'as wanted'}")
            check_faults(client, model, url)
            asyncio.run(check_async(url, model))
    print(f"openai {openai.__version__}: done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
