#!/bin/sh
# Configures, builds and tests one preset.
#
# usage: test.sh PRESET JOBS [CTEST OPTION...]
set -eu
cd "$(dirname "$0")/.."

preset=$1 jobs=$2
shift 2

cmake --preset "$preset" --log-level=NOTICE
cuda=$(sed -n 's/^MINITE_CUDA_BUILT:INTERNAL=//p' "build/$preset/CMakeCache.txt")
case $cuda in
  ON) echo "test: preset $preset, with CUDA objects" ;;
  *) echo "test: preset $preset, without CUDA objects (nvcc was not found or is not wanted)" ;;
esac
cmake --build --preset "$preset" --parallel "$jobs"
ctest --preset "$preset" --parallel "$jobs" --output-on-failure --no-tests=error "$@"
