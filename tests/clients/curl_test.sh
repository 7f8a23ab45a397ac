#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The server by curl, as a README would show it: curl_test.sh PROGRAM. Ends as skipped (77) without curl.
set -eu

command -v curl >/dev/null || { echo "SKIPPED: no curl"; exit 77; }
program=$1
here=$(dirname "$0")
work=$(mktemp -d)
server=""
trap 'test -z "$server" || kill "$server"; rm -rf "$work"' EXIT INT TERM

mkdir "$work/tiny"
python3 -B -c "import pathlib, sys; sys.path.insert(0, '$here'); import clients; clients.make_model(pathlib.Path('$work/tiny'))"
port=$(python3 -B -c "import sys; sys.path.insert(0, '$here'); import clients; print(clients.serve_test.free_port())")
url=http://127.0.0.1:$port
"$program" serve "$work/tiny" --backend cpu --port "$port" --api-key k >"$work/log" 2>&1 &
server=$!
curl --silent --retry 60 --retry-delay 1 --retry-all-errors --fail "$url/ready" >/dev/null

fail() {
  echo "FAILED $1: $(cat "$work/answer")"
  exit 1
}
key=k type=application/json
# has NAME PATTERN CURL-ARGUMENTS...: the answer has a line with the pattern.
has() {
  name=$1 pattern=$2
  shift 2
  curl --silent --show-error --max-time 60 -H "Authorization: Bearer $key" -H "Content-Type: $type" "$@" >"$work/answer" || fail "$name"
  grep -q "$pattern" "$work/answer" || fail "$name"
}

has health '"status":"ok"' "$url/health"
has models '"id":"tiny"' "$url/v1/models"
has chat '"role":"assistant"' "$url/v1/chat/completions" -d '{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "ignore_eos": true}'
has stream '^data: \[DONE\]$' --no-buffer "$url/v1/chat/completions" \
  -d '{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "stream": true}'
test "$(grep -c '^data: {' "$work/answer")" -ge 3 || fail "stream in pieces"
has completions '"object":"text_completion"' "$url/v1/completions" -d '{"prompt": "ab", "max_tokens": 4, "ignore_eos": true}'
has tokenize '"count":2' "$url/tokenize" -d '{"prompt": "ab", "add_special_tokens": false}'
has detokenize '"prompt":"ab"' "$url/detokenize" -d '{"tokens": [3, 4]}'
has "a body in chunks" '"count":2' -H 'Transfer-Encoding: chunked' "$url/tokenize" -d '{"prompt": "ab", "add_special_tokens": false}'
has metrics '^firstlight_requests_running ' "$url/metrics"
has page '<!doctype html>' "$url/"
has openapi '"openapi": "3.1' "$url/openapi.json"
key=x
has "wrong key" '^401$' --output /dev/null --write-out '%{http_code}\n' "$url/v1/models"
key=k
has "wrong field" '"param":"temprature"' "$url/v1/completions" -d '{"prompt": "ab", "temprature": 1}'
type=text/plain
has "wrong type of body" '^415$' --output /dev/null --write-out '%{http_code}\n' "$url/v1/completions" -d x
type=application/json
has "http 1.0" '"status":"ok"' --http1.0 "$url/health"
has head '^HTTP/1.1 200' --head "$url/health"
has "two in one connection" '^1$' --output /dev/null --output /dev/null --write-out '%{num_connects}\n' "$url/health" "$url/health"
grep -q '^0$' "$work/answer" || fail "the second one's connection"
echo "curl: 17 checks as wanted"
