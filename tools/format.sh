#!/bin/sh
# Formats every C++ and CUDA source; with --check only says what it would change, exit 1 if anything. Exits 77
# (skipped) when clang-format 14 is missing: other versions format differently.
set -eu
cd "$(dirname "$0")/.."

if ! command -v clang-format-14 >/dev/null; then
  echo "format.sh: skipped, clang-format-14 is not installed" >&2
  exit 77
fi

sources() { find include src tests examples $(ls -d bench 2>/dev/null) -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \); }
case ${1:-} in
  '') sources | xargs clang-format-14 -i ;;
  --check) sources | xargs clang-format-14 --dry-run --Werror ;;
  *) echo "usage: format.sh [--check]" >&2; exit 2 ;;
esac
