#!/usr/bin/env python3
"""Includes point one way: cli -> rl -> learn, sample -> model -> modules -> ops -> backends -> formats -> core.

The table below is the law; ARCHITECTURE.md draws it. A room may always include itself.
"""
from typing import Iterable, Iterator

import style

# Room -> rooms it may include. A public header counts as a part of the room in HEADERS.
ROOMS = {
    "core": set(),
    "formats": {"core"},
    "recipes": {"core", "formats"},
    "ops": {"core", "formats", "backends/op_table.h", "backends/registry.h"},
    "backends": {"core", "formats", "ops/args.h", "ops/grouped_args.h", "ops/moe_args.h"},
    "modules": {"core", "formats", "ops", "minite/recipe.h"},
    "model": {"core", "formats", "ops", "modules", "minite/recipe.h"},
    "learn": {"core", "formats", "ops", "modules", "model", "io", "checkpoints", "minite/recipe.h"},
    "sample": {"core", "formats", "ops", "modules", "model"},
    "tasks": {"core"},
    "rl": {"core", "formats", "recipes", "ops", "backends/recording.h", "backends/registry.h", "model", "learn", "sample", "tasks", "io",
           "diagnostics"},
    "io": {"core", "formats"},
    "checkpoints": {"core", "formats", "ops", "io", "recipes/glob.h", "diagnostics/error_stats.h"},
    "diagnostics": {"core", "formats", "ops", "io", "recipes/glob.h"},
    "cli": {"core", "formats", "recipes", "ops", "backends", "modules", "model", "learn", "sample", "tasks", "rl", "io",
            "diagnostics", "checkpoints"},
}

# Public header -> the room that implements it.
HEADERS = {
    "error.h": "core", "tensor.h": "core", "version.h": "core", "format.h": "formats", "convention.h": "formats", "kv_format.h": "formats", "recipe.h": "recipes",
    "ops.h": "ops", "model.h": "model", "routes.h": "model", "rl.h": "rl",
}

# The mathematics of rl sees no tensor, no model, no device: pure functions of spans.
RL_MATH = {"advantage", "aggregation", "batch", "config", "correction", "evaluate", "gap", "gap_details", "gap_segments", "gate", "kl", "metrics",
           "objective", "options", "prepare", "quantile", "ratio", "rejection", "repair", "replay", "shaping", "step_metrics", "table",
           "triage"}
RL_MATH_MAY = {"core", "minite/rl.h", "minite/error.h"} | {f"rl/{name}.h" for name in RL_MATH}

# Folders of backends: each stands alone, but all may use ref, the specification.
BACKEND_SHARED = {"backends/op_table.h", "backends/registry.h", "backends/cuda/cuda.h"}

# Rooms inside a backend, and what they may know beside themselves. The files above them choose among all.
BACKEND_ROOMS = {"common": set(), "quantize": {"common"}, "producers": {"common", "quantize"},
                 "sm90": {"common"}, "sm100": {"common"}}

# (file, include): why it is right although the table says no.
EXCEPTIONS = {
    ("src/core/memory.h", "minite/format.h"): "QBuffer owns the memory that a QTensor views",
    ("src/core/probe.h", "minite/format.h"): "a probe is shown codes with their scales",
}


def room_of(include: str) -> str:
    first = include.split("/")[0]
    return HEADERS.get(include.removeprefix("minite/"), "") if first == "minite" else first


def backend_problem(path: str, include: str) -> str:
    """Why a file below src/backends/FOLDER may not include `include`, "" when it may."""
    mine, theirs = path.split("/")[2:-1], include.split("/")[1:-1]
    if not mine or not theirs or include in BACKEND_SHARED or theirs[0] == "ref":
        return ""
    if mine[0] != theirs[0]:
        return f"backends/{mine[0]} must not know backends/{theirs[0]}"
    inner, other = mine[1:2], theirs[1:2]
    if inner and other and inner != other and other[0] not in BACKEND_ROOMS.get(inner[0], set()):
        return f"backends/{'/'.join(mine)} must not know backends/{'/'.join(theirs)}"
    return ""


def problem(path: str, include: str) -> str:
    parts = path.split("/")
    if parts[0] == "include":
        return "" if include.startswith("minite/") else "a public header includes public headers only"
    room = parts[1]
    if room not in ROOMS:
        return f"the room {room} has no row in the table of this check"
    other = room_of(include)
    if not other:
        return f"{include} is no public header in the table of this check"
    if room == "rl" and parts[-1].split(".")[0] in RL_MATH:
        return "" if RL_MATH_MAY & {other, include} else "the mathematics of rl sees rl and core only"
    if room == "backends" and other == "backends":
        return backend_problem(path, include)
    if other == room or {other, include} & ROOMS[room]:
        return ""
    return f"{room} must not include {other}"


def check(files: Iterable[style.Source]) -> Iterator[style.Finding]:
    for file in files:
        for line, match in style.matches(r'^\s*#\s*include\s*"([^"]+)"', style.blank(file.text, strings=False)):
            why = problem(file.path, match.group(1))
            if why and (file.path, match.group(1)) not in EXCEPTIONS:
                yield style.Finding(file.path, line, f'"{match.group(1)}": {why}')
        if file.path.startswith("include/"):
            for line, match in style.matches(r"^\s*#\s*include\s*<([^>]+)>", file.text):
                if "/" in match.group(1) or match.group(1).endswith(".h"):
                    yield style.Finding(file.path, line, f"<{match.group(1)}>: public headers use the standard library only")


CASES = [
    ("src/core/a.cpp", '#include "formats/codecs.h"\n', "core must not include formats"),
    ("src/io/a.cpp", '#include "core/fail.h"\n#include "model/network.h"\n', ":2: "),
    ("src/io/a.cpp", '#include "minite/model.h"\n', "io must not include model"),
    ("src/checkpoints/a.cpp", '#include "minite/model.h"\n', "checkpoints must not include model"),
    ("src/recipes/a.cpp", '#include "ops/ops.h"\n', "recipes must not include ops"),
    ("src/model/a.cpp", '#include "backends/simd/table.h"\n', "model must not include backends"),
    ("src/model/a.cpp", '#include "ops/ops.h"\n#include "minite/tensor.h"\n', ""),
    ("src/rl/gate.cpp", '#include "minite/tensor.h"\n#include "model/network.h"\n', "mathematics"),
    ("src/rl/loop.cpp", '#include "sample/sampler.h"\n', ""),
    ("src/backends/simd/a.cpp", '#include "backends/cuda/error.h"\n', "backends/simd must not know backends/cuda"),
    ("src/backends/simd/a.cpp", '#include "backends/ref/gemm.h"\n', ""),
    ("src/backends/cuda/sm90/a.cu", '#include "backends/cuda/sm100/b.h"\n', "backends/cuda/sm100"),
    ("src/backends/cuda/sm90/a.cu", '#include "backends/cuda/common/launch.h"\n', ""),
    ("src/backends/cuda/common/a.cu", '#include "backends/cuda/sm90/b.h"\n', "must not know backends/cuda/sm90"),
    ("src/backends/cuda/quantize/a.cu", '#include "backends/cuda/producers/b.h"\n', "must not know backends/cuda/producers"),
    ("src/backends/cuda/producers/a.cu", '#include "backends/cuda/quantize/b.h"\n', ""),
    ("src/backends/cuda/gemm.cpp", '#include "backends/cuda/sm90/b.h"\n', ""),
    ("src/newroom/a.cpp", '#include "core/fail.h"\n', "no row"),
    ("include/minite/a.h", "#include <nlohmann/json.hpp>\n", "standard library only"),
    ("include/minite/a.h", '#include "core/fail.h"\n', "public headers only"),
    ("src/core/a.cpp", '// #include "model/network.h"\n#include "core/fail.h"\n', ""),
]

if __name__ == "__main__":
    style.main(check, lambda: style.sources("src", "include"), CASES)
