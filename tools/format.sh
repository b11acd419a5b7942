#!/bin/sh
# Formats every C++ and CUDA source; with --check only says what it would change, exit 1 if anything.
set -eu
cd "$(dirname "$0")/.."

sources() { find include src tests bench examples -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \); }
case ${1:-} in
  '') sources | xargs clang-format-14 -i ;;
  --check) sources | xargs clang-format-14 --dry-run --Werror ;;
  *) echo "usage: format.sh [--check]" >&2; exit 2 ;;
esac
