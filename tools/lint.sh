#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Formatting, static analysis, the checks of the tree. clang-tidy reads the files that differ from the main branch (from
# the last commit, when on it); `tools/lint.sh all` reads every file.
set -eu
cd "$(dirname "$0")/.."
scope=${1:-changed}

code() { git ls-files -- "$@" | grep -E '\.(h|cc)$' | grep -v '^tests/tools/fixtures/'; }

echo "lint: clang-format"
code src tests | xargs clang-format --dry-run -Werror

echo "lint: layers, sizes, tests"
python3 -B tools/check_layers.py
python3 -B tools/check_sizes.py
python3 -B tools/check_tests.py

if [ "$scope" = all ]; then
  files=$(code src | grep '\.cc$')
else
  base=$(git merge-base HEAD main 2>/dev/null || echo HEAD)
  [ "$base" = "$(git rev-parse HEAD)" ] && base=HEAD~1
  files=$(git diff --name-only --diff-filter=d "$base" -- src | grep '\.cc$' || true)
fi
[ -n "$files" ] || { echo "lint: no changed sources for clang-tidy"; exit 0; }
[ -f build/compile_commands.json ] || cmake --preset release >/dev/null
echo "lint: clang-tidy on $(echo "$files" | wc -l) file(s)"
echo "$files" | xargs -n 1 -P "$(nproc)" clang-tidy --quiet -p build
