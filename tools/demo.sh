#!/bin/sh
# tools/demo.sh [PRESET]: a demo run in runs/PRESET. A finished one is replaced, an interrupted one goes on where
# it stopped.
set -eu
cd "$(dirname "$0")/.."

minite=build/release/minite
preset=${1:-demo}
run=runs/$preset

if [ -e "$run/summary.json" ]; then
  echo "$preset: replacing the finished run in $run" >&2
  rm -rf "$run"
elif [ -e "$run/metrics.jsonl" ]; then
  echo "$preset: going on with the run in $run" >&2
elif [ -e "$run" ]; then
  rm -rf "$run" # stopped before its first line
fi

if [ -e "$run" ]; then
  "$minite" rl --resume "$run"
else
  "$minite" rl --preset "$preset" -o "$run"
fi
[ -e "$run/report.html" ] || "$minite" report "$run" -o "$run/report.html"
echo "report: $PWD/$run/report.html"
