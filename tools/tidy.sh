#!/bin/sh
# Runs clang-tidy (.clang-tidy) over the library and the command; exit 1 on a finding.
#
# usage: tidy.sh [JOBS [FILE...]]
set -eu
cd "$(dirname "$0")/.."

jobs=${1:-2}
[ $# -eq 0 ] || shift
cmake --preset dev --log-level=NOTICE
if [ $# -eq 0 ]; then
  # The vector sources are compiled once per instruction set; one of the two is enough here.
  set -- $(find src -name '*.cpp' ! -path 'src/backends/cuda/*')
fi
printf '%s\n' "$@" | xargs -P "$jobs" -n 4 clang-tidy-14 -p build/dev --quiet --extra-arg=-Wno-unknown-warning-option
