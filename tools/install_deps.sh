#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing to build, on Debian 12 as root; elsewhere it names what is missing and goes on, so that CMake has
# the last word. Sets: core (the program and its tests), dev (formatting, static analysis, fuzzing),
# browser (tests of the page; large, so that it is asked for by name). docs/dependencies.md
# gives the reason of each package.
set -eu

core="g++ cmake ninja-build pkg-config ccache mold git curl python3 python3-pip python3-jsonschema
  nlohmann-json3-dev libsimdjson-dev libboost1.81-dev libcli11-dev libspdlog-dev libfmt-dev libpcre2-dev libutf8proc-dev libtomlplusplus-dev
  liblua5.4-dev prometheus-cpp-dev libgtest-dev
  opencl-headers ocl-icd-opencl-dev pocl-opencl-icd"
browser="chromium"
dev="clang clang-format clang-tidy libclang-rt-14-dev"

sets=${1:-core}
wanted=""
case "$sets" in
  core) wanted="$core" ;;
  dev) wanted="$core $dev" ;;
  browser) wanted="$core $browser" ;;
  *) echo "install_deps: set '$sets', wanted core, dev or browser" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "install_deps: not a Debian system; wanted (Debian 12 names):" $wanted
  exit 0
fi

missing=""
installed=$(dpkg-query -W -f='${db:Status-Abbrev}${Package} ${Provides}\n' 2>/dev/null | sed -n 's/^ii *//p' | tr ', ' '\n\n')
for package in $wanted; do
  printf '%s\n' "$installed" | grep -qxF "$package" || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

# A tool that came from elsewhere (a newer cmake in /usr/local, say) will do.
left=""
for package in $missing; do
  case "$package" in
    ninja-build) tool=ninja ;;
    python3-pip) tool=pip3 ;;
    *) tool=$package ;;
  esac
  command -v "$tool" >/dev/null || left="$left $package"
done
[ -z "$left" ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "install_deps: missing packages:$left (run as root: apt-get install$left)" >&2
  exit 0
fi
echo "install_deps: installing$left"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends $left
