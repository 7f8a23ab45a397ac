#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server held against its own description (/openapi.json) by a JSON Schema validator: the document itself, its
examples, real answers of every kind, and every documented request field at, inside and beyond its limits: what the
schema allows must be taken, what it forbids must be refused by name. src/server/test/openapi_test.cc sees to it that
no field is left out.

    openapi_test.py PROGRAM
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import serve_test

try:
    import jsonschema
except ImportError:
    print("SKIPPED: no python3-jsonschema")
    sys.exit(77)

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
BASE = {  # the least body of each schema
    "ChatRequest": (CHAT, {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}),
    "CompletionRequest": (TEXT, {"prompt": [5, 6], "max_tokens": 1}),
    "EmbeddingRequest": ("/v1/embeddings", {"input": "hi"}),
    "TokenizeRequest": ("/tokenize", {"prompt": "hi"}),
    "TokenizeRequest of a chat": ("/tokenize", {"messages": [{"role": "user", "content": "hi"}]}),
    "DetokenizeRequest": ("/detokenize", {"tokens": [5, 6]}),
}
# What makes a field's own condition true.
NEEDS = {"stream_options": {"stream": True}, "top_logprobs": {"logprobs": True}}
# What a schema of one field cannot say: values that fit it and are refused for a reason that its description gives.
TELLS_MORE = {"model", "max_tokens", "max_completion_tokens", "best_of", "tools", "top_logprobs", "prompt",
              "input", "dimensions", "pooling", "guided_json",
              "guided_grammar", "grammar", "continue_final_message",
              "reasoning_effort"}


class Document:
    def __init__(self, text):
        self.json = json.loads(text)
        self.schemas = self.json["components"]["schemas"]

    def errors(self, schema, value):
        """What is wrong with the value, in words; "" if nothing. `schema` is a name or a schema."""
        root = {"$ref": "#/components/schemas/" + schema} if isinstance(schema, str) else schema
        validator = jsonschema.Draft202012Validator({**root, "components": self.json["components"]})
        return "; ".join(f"{'.'.join(map(str, e.absolute_path))}: {e.message[:300]}" for e in validator.iter_errors(value))

    def check(self, schema, value):
        wrong = self.errors(schema, value)
        assert not wrong, f"{schema}: {wrong}"

    def properties(self, schema):
        """Name to the places that describe it, through all that the schema is put together from."""
        found = {}
        if "$ref" in schema:
            for name, places in self.properties(self.schemas[schema["$ref"].rsplit("/", 1)[1]]).items():
                found.setdefault(name, []).extend(places)
        for part in schema.get("allOf", []) + schema.get("oneOf", []):
            for name, places in self.properties(part).items():
                found.setdefault(name, []).extend(places)
        for name, place in schema.get("properties", {}).items():
            found.setdefault(name, []).append(place)
        return found


def check_document(document):
    for field in ("openapi", "info", "paths", "components"):
        assert field in document.json, field
    assert document.json["openapi"].startswith("3.1.")
    operations = set()

    def walk(value):
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                target = document.json
                for part in value["$ref"].removeprefix("#/").split("/"):
                    target = target[part]
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(document.json)
    for path, methods in document.json["paths"].items():
        assert path.startswith("/")
        for method, operation in methods.items():
            assert method in ("get", "post"), method
            assert operation["operationId"] not in operations
            operations.add(operation["operationId"])
            assert operation["summary"] and all(r.get("description") or "$ref" in r for r in operation["responses"].values())
            named = {p["name"] for p in operation.get("parameters", [])}
            assert named == {p[1:-1] for p in path.split("/") if p.startswith("{")}, path
    num_examples = 0
    for name, schema in document.schemas.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        for example in schema.get("examples", []):
            document.check(name, example)
            num_examples += 1
    assert num_examples > 8


def response_schema(document, path, method, status, kind):
    responses = document.json["paths"][path][method]["responses"]
    response = responses.get(str(status), responses["default"])
    if "$ref" in response:
        response = document.json["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    return response["content"][kind]["x-event-schema" if kind == "text/event-stream" else "schema"]


def check_answer(document, port, path, body=None, status=200, template=None):
    """The answer fits what the document says of this path and status; returns it, events as a list."""
    method = "GET" if body is None else "POST"
    found, text = serve_test.request(port, method, path, None if body is None else json.dumps(body))
    assert found == status, f"{path} {body}: status {found}: {text[:300]}"
    path = template or path
    if status == 200 and body and body.get("stream"):
        schema = response_schema(document, path, "post", status, "text/event-stream")
        events = [e.removeprefix("data: ") for e in text.split("\n\n")]
        assert events[-2:] == ["[DONE]", ""], text[-100:]
        chunks = [json.loads(e) for e in events[:-2]]
        for chunk in chunks:
            document.check(schema, chunk)
        return chunks
    answer = json.loads(text)
    document.check(response_schema(document, path, method.lower(), status, "application/json"), answer)
    return answer


def check_answers(document, port):
    """Examples are taken, and what comes back fits."""
    for case, (path, _) in BASE.items():
        for example in document.schemas[case.split()[0]]["examples"]:
            small = {"max_tokens": 4} if path == CHAT and "max_tokens" not in example and "max_completion_tokens" not in example else {}
            for stream in ({}, {"stream": True}) if path in (CHAT, TEXT) and "stream" not in example else ({},):
                check_answer(document, port, path, {**example, **small, **stream})
    chat = BASE["ChatRequest"][1]
    whole = check_answer(document, port, CHAT, {**chat, "logprobs": True, "top_logprobs": 3, "n": 2})
    assert len(whole["choices"]) == 2
    chunks = check_answer(document, port, CHAT, {**chat, "logprobs": True, "top_logprobs": 1, "stream": True,
                                                 "stream_options": {"include_usage": True}})
    assert chunks[-1]["usage"] and not chunks[-1]["choices"]
    check_answer(document, port, TEXT, {"prompt": "ab", "echo": True, "max_tokens": 2})
    check_answer(document, port, "/v1/models")
    name = check_answer(document, port, "/v1/models")["data"][0]["id"]
    check_answer(document, port, "/v1/models/" + name, template="/v1/models/{model}")
    check_answer(document, port, "/v1/models/x", status=404, template="/v1/models/{model}")
    check_answer(document, port, "/health")
    check_answer(document, port, "/ready")
    tokens = check_answer(document, port, "/tokenize", {"prompt": "ab c", "return_token_strs": True})
    assert len(tokens["tokens"]) == tokens["count"] == len(tokens["token_strs"]) > 3
    assert check_answer(document, port, "/detokenize", {"tokens": tokens["tokens"]})["prompt"].endswith("ab c")


def check_refusals(document, port):
    chat = BASE["ChatRequest"][1]
    for path, body, status in ((CHAT, {**chat, "model": "other"}, 404), (TEXT, {"prompt": [5] * 5000}, 400),
                               (CHAT, {**chat, "no_such_field": 1}, 400), (TEXT, {}, 400), (CHAT, {"messages": []}, 400),
                               ("/tokenize", {}, 400), ("/detokenize", {"tokens": [10**9]}, 400)):
        check_answer(document, port, path, body, status)
    for method, path, raw, status, key in (("POST", CHAT, "{", 400, "k"), ("GET", "/v1/models", None, 401, "wrong"),
                                           ("GET", "/nothing", None, 404, "k"), ("POST", "/health", "{}", 405, "k"),
                                           ("GET", CHAT, None, 405, "k"), ("POST", "/tokenize", "{}", 401, "")):
        found, text = serve_test.request(port, method, path, raw, key)
        assert found == status, f"{method} {path}: {found}"
        document.check("Error", json.loads(text))
    large = serve_test.request(port, "POST", TEXT, " " * (17 << 20))
    assert large[0] == 413
    document.check("Error", json.loads(large[1]))


def values_to_try(places):
    """Values around every limit that the schemas of a field name, and one of every type."""
    values = [None, True, False, 0, 1, 2, 0.5, -1, 3.0, "", "a", "auto", [], ["a"], [""], [3], [-1], {}, {"type": "text"},
              {"type": "json"}, {"a": 1}, {"5": 1.5}, {"5": 200}, {"include_usage": True}, {"more": 1}, ["x"] * 17, "y" * 300]
    for place in places:
        values += place.get("enum", [])
        for limit in ("minimum", "maximum", "exclusiveMinimum"):
            if limit in place:
                values += [place[limit] - 1, place[limit], place[limit] + 1]
                values += [place[limit] + 0.25] if abs(place[limit]) < 2**52 else []
        if "default" in place:
            values.append(place["default"])
    return values


def check_fields(document, port):
    """Each field alone: the server takes it exactly where the schema does, and names it when it does not."""
    tried, taken = 0, set()
    for case, (path, base) in BASE.items():
        name = case.split()[0]
        for field, places in document.properties(document.schemas[name]).items():
            for value in values_to_try(places) + [BASE["ChatRequest"][1].get(field), base.get(field)]:
                body = {**base, **NEEDS.get(field, {}), field: value}
                if field == "messages":
                    body.pop("prompt", None)
                if field == "n" and isinstance(value, (int, float)) and 8 < value < 128:
                    continue
                if field == "max_completion_tokens":
                    body.pop("max_tokens")
                allowed = not document.errors(name, body)
                status, text = serve_test.request(port, "POST", path, json.dumps(body))
                tried += 1
                where = f"{name}.{field} = {json.dumps(value)[:60]}: status {status}: {text[:200]}"
                if status == 200:
                    assert allowed, "taken, but not documented: " + where
                    taken.add((name, field))
                    continue
                assert status in (400, 404), where
                assert not allowed or field in TELLS_MORE, "documented, but refused: " + where
                param = json.loads(text)["error"]["param"] or ""
                assert param.startswith((field, "prompt", "max_tokens", "messages", "tokens", "logprobs")), where
        status, text = serve_test.request(port, "POST", path, json.dumps({**base, "x_unknown": 1}))
        assert status == 400 and json.loads(text)["error"]["param"] == "x_unknown", text
        assert document.errors(name, {**base, "x_unknown": 1})
    for name in {case.split()[0] for case in BASE}:
        never = [f for f in document.properties(document.schemas[name]) if (name, f) not in taken and f != "tools"]
        assert not never, f"{name}: never taken: {never}"
    return tried


def check_static(port):
    import http.client
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/openapi.json")
    first = connection.getresponse()
    first.read()
    connection.request("GET", "/openapi.json", headers={"If-None-Match": first.headers["ETag"]})
    again = connection.getresponse()
    assert again.status == 304 and again.read() == b"" and again.headers["Content-Length"] is None
    connection.request("HEAD", "/openapi.json")
    head = connection.getresponse()
    assert head.status == 200 and head.read() == b"" and head.headers["ETag"] == first.headers["ETag"]
    connection.close()


def main():
    with tempfile.TemporaryDirectory() as folder:
        serve_test.make_model(pathlib.Path(folder))
        port = serve_test.free_port()
        command = [sys.argv[1], "serve", folder, "--backend", "cpu", "--port", str(port), "--api-key", "k",
                   "--embeddings", "--shorten-embeddings"]
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            serve_test.wait_until_ready(port, program)
            document = Document(serve_test.request(port, "GET", "/openapi.json", key="")[1])
            check_document(document)
            check_static(port)
            check_answers(document, port)
            check_refusals(document, port)
            tried = check_fields(document, port)
        finally:
            program.kill()
            program.wait()
    print(f"openapi: {len(document.json['paths'])} paths, {len(document.schemas)} schemas, {tried} requests of single fields")
    return 0


if __name__ == "__main__":
    sys.exit(main())
