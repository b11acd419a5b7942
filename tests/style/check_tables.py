#!/usr/bin/env python3
"""Formats, recipes, backends and model families are rows of tables: code does not branch on their names.

Allowed are src/formats, the tables themselves, and a kernel's choice of its own body. What else compares a name
stands in ALLOWED with the reason. The names come from the tables, so new rows are covered.
"""
import re
from typing import Iterable, Iterator

import style

ID = r"(?:FormatId|Element|Convention)::\w+"

# Path prefix -> why branching is right there.
ALLOWED = {
    "src/formats/": "the formats' own room",
    "src/backends/ref/": "the specification spells out each format's arithmetic; one branch per op",
    "src/backends/simd/": "a kernel's choice of its own body",
    "src/backends/cuda/": "a kernel's choice of its own body",
    "src/backends/registry.cpp": "the ordered list of backends, where 'auto' means the first",
    "src/recipes/": "validates which operands may meet in one product",
    "src/modules/linear.cpp": "fp32 operands need FP32 storage: a question of dtype that the format answers",
    "src/model/weights.cpp": "fp32 operands are the masters: a question of dtype that the format answers",
    "src/cli/loaded_model.cpp": "'auto' means the environment's backend",
    "src/rl/loop.cpp": "'auto' means the environment's backend",
    "src/core/env.cpp": "the table of accepted values",
    "src/core/cpu.cpp": "'auto' means the best level",
}


def table_names() -> set[str]:
    """Names of the rows of the tables of formats, recipes, backends and model families."""
    names = {"ref", "simd", "cuda"}
    for path in ("src/formats/table.cpp", "src/recipes/table.cpp", "src/model/families/table.cpp"):
        file = style.ROOT / path
        if file.is_file():
            names |= set(re.findall(r'[{(][^{}()"]*"([a-z0-9_]+)"', file.read_text(encoding="utf-8")))
    return names


def check(files: Iterable[style.Source]) -> Iterator[style.Finding]:
    names = "|".join(sorted(table_names()))
    patterns = [
        (rf"(?<!operator)[!=]=\s*(?:minite::)?{ID}|\b{ID}\s*[!=]=", "compares a row of a table"),
        (rf"\bcase\s+(?:minite::)?{ID}", "switches on a row of a table"),
        (rf'[!=]=\s*"(?:{names})"|"(?:{names})"\s*[!=]=', "compares the name of a row"),
    ]
    for file in files:
        if any(file.path.startswith(prefix) for prefix in ALLOWED):
            continue
        text = style.blank(file.text, strings=False)
        for pattern, why in patterns:
            for line, match in style.matches(pattern, text):
                yield style.Finding(file.path, line, f"{match.group()!r} {why}; ask a field of the row instead")


CASES = [
    ("src/ops/a.cpp", "if (x.format == FormatId::nvfp4) f();\n", "compares a row"),
    ("src/ops/a.cpp", "switch (f) {\n  case FormatId::mxfp8: return 1;\n}\n", ":2: "),
    ("src/model/a.cpp", 'if (recipe == "nvfp4_per_token") f();\n', "compares the name"),
    ("src/rl/a.cpp", 'if (backend != "simd") f();\n', "compares the name"),
    ("src/ops/a.cpp", 'if (mode == "fastest" && format(x).block != 0) f();\n', ""),
    ("src/ops/a.cpp", "DType y = DType::bf16; FormatId a = FormatId::bf16;\n", ""),
    ("src/formats/a.cpp", "if (x.format == FormatId::nvfp4) f();\n", ""),
    ("src/backends/ref/a.cpp", "if (x.format == FormatId::nvfp4) f();\n", ""),
]

if __name__ == "__main__":
    style.main(check, lambda: style.sources("src"), CASES)
