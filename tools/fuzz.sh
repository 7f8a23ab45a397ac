#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs every libFuzzer target for SECONDS, starting from its committed seeds. What it finds stays in build-fuzz/found.
# Usage: tools/fuzz.sh SECONDS [NAME]
set -eu
cd "$(dirname "$0")/.."
seconds=$1
only=${2:-}

cmake --preset fuzz >/dev/null
targets=$(cd tests/fuzz && ls fuzz_*.cc | sed 's/\.cc$//')
[ -n "$only" ] && targets="fuzz_$only"
cmake --build build-fuzz --target $targets

status=0
for target in $targets; do
  name=${target#fuzz_}
  mkdir -p "build-fuzz/found/$name" "build-fuzz/corpus/$name"
  echo "fuzz: $name for $seconds s"
  "build-fuzz/tests/fuzz/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="build-fuzz/found/$name/" "build-fuzz/corpus/$name" "tests/fuzz/corpus/$name" \
    >"build-fuzz/$name.log" 2>&1 || { status=1; tail -n 40 "build-fuzz/$name.log"; }
  grep -E 'stat::(number_of_executed_units|peak_rss_mb)' "build-fuzz/$name.log" || true
done
exit $status
