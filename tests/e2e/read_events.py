#!/usr/bin/env python3
"""Compares the TensorBoard events of a run, as TensorBoard's own reader sees them, with its metrics.jsonl.

usage: read_events.py RUN      exit 0: equal, 1: not, 77: the package tensorboard is not installed
"""
import json
import math
import pathlib
import struct
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    sys.exit(77)


def float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def expected(run: pathlib.Path) -> dict[str, list[tuple[int, float]]]:
    series: dict[str, list[tuple[int, float]]] = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        for name, value in row.items():
            if name in ("global_step", "step", "stage") or name.endswith("_nonfinite"):
                continue
            number = float(row.get(f"{name}_nonfinite", "nan")) if value is None else float32(value)
            series.setdefault(f"{row['stage']}/{name}", []).append((row["step"], number))
    return series


def same(a: list[tuple[int, float]], b: list[tuple[int, float]]) -> bool:
    return len(a) == len(b) and all(
        x[0] == y[0] and (x[1] == y[1] or math.isnan(x[1]) and math.isnan(y[1])) for x, y in zip(a, b))


def main() -> int:
    run = pathlib.Path(sys.argv[1])
    accumulator = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    accumulator.Reload()
    want = expected(run)
    faults = sorted(set(accumulator.Tags()["scalars"]) ^ set(want))
    for tag in sorted(set(want) - set(faults)):
        if not same([(event.step, event.value) for event in accumulator.Scalars(tag)], want[tag]):
            faults.append(tag)
    print(f"{len(want)} tags, {len(faults)} differ: {faults[:5]}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
