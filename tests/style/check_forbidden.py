#!/usr/bin/env python3
"""What the sources must not hold: each rule of RULES, where it applies."""
import re
from typing import Iterable, Iterator, NamedTuple

import style

# The words are split so that this file passes its own check.
UNFINISHED = "TO" + "DO|FIX" + "ME|XX" + "X"

LIBRARY = r"src/(?!cli/)"
CODE = r"(src|include|tests|bench|examples)/.*\.(h|cpp|cu|cuh)$"
EVERYTHING = r".*"


class Rule(NamedTuple):
    where: str  # of the path
    pattern: str
    why: str
    raw: bool = False  # also inside comments and strings
    unless: dict = {}  # path -> reason


RULES = [
    Rule(LIBRARY, r"\b(?:f|v|vf)?printf\s*\(|\bf?puts\s*\(|\bf?putc(?:har)?\s*\(|\bstd::print|\bfmt::v?print",
         "the library never prints; return text or tell an observer"),
    Rule(LIBRARY, r"\bstd::(?:w?cout|w?cerr|w?clog)\b|<iostream>", "the library never prints"),
    Rule(LIBRARY, r"(?<![\w.>])(?:std::)?(?:exit|abort|_exit|quick_exit|terminate)\s*\(",
         "the library never ends the process; throw with fail()"),
    Rule(r"src/", r"\b(?:secure_)?getenv\b|\bsetenv\b|\benviron\b", "only core/env.cpp reads the environment",
         unless={"src/core/env.cpp": "the one place"}),
    Rule(r"src/backends/(ref|simd)/",
         r"\bstd::(?:exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|erf|"
         r"erfc|cbrt|hypot|tgamma|lgamma)f?\b|(?<![\w:.>])(?:expf|logf|powf|sinf|cosf|tanhf|log1pf|expm1f)\s*\(",
         "the C library's functions differ between versions; use core/math.h",
         unless={"src/backends/ref/optimizer.cpp": "bias corrections: two scalars a step, in double, rounded once"}),
    Rule(LIBRARY, r"#\s*pragma\s+omp\b", "threads come from core/thread_pool.h"),
    Rule(LIBRARY, r"\bunordered_(?:multi)?(?:map|set)\b", "its order differs between runs and libraries; use map or vector"),
    Rule(LIBRARY, r"\bstd::(?:rand|srand|random_device|mt19937|default_random_engine|\w+_distribution)\b",
         "randomness comes from core/philox.h"),
    Rule(LIBRARY, r"\b(?:std::locale|setlocale|strtod|strtof|atof|std::sto(?:d|f|ld))\b",
         "depends on the locale; use std::from_chars"),
    Rule(r"(.*/)?(CMakeLists\.txt|.*\.cmake|CMakePresets\.json|Makefile)$", r"-ffast-math|-Ofast|--use_fast_math|-ffp-contract=(?!off)",
         "bits depend on exact FP32 arithmetic", raw=True),
    Rule(CODE, r"[^\x00-\x7F]", "sources are ASCII", raw=True),
    Rule(EVERYTHING, rf"\b(?:{UNFINISHED})\b", "unfinished work belongs nowhere in the sources", raw=True),
    Rule(EVERYTHING, r"(?<![\w./$}\"'-])/(?:work|home|root|Users|mnt)/[\w.]", "a path of one machine", raw=True),
    Rule(EVERYTHING, r"[ \t]+$", "blanks at the end of a line", raw=True),
]


def check(files: Iterable[style.Source]) -> Iterator[style.Finding]:
    for file in files:
        code = style.blank(file.text) if re.match(CODE, file.path) else file.text
        for rule in RULES:
            if not re.match(rule.where, file.path) or file.path in rule.unless:
                continue
            for line, match in style.matches(rule.pattern, file.text if rule.raw else code):
                yield style.Finding(file.path, line, f"{match.group().strip()!r}: {rule.why}")
        if file.path.endswith((".h", ".cuh")) and not re.search(r"^#pragma once$", file.text, re.MULTILINE):
            yield style.Finding(file.path, 1, "a header needs #pragma once")


def inputs() -> list[style.Source]:
    texts = style.CODE | {".py", ".sh", ".txt", ".cmake", ".in", ".json", ".yaml", ".yml", ".md"}
    single = [name for name in ("CMakeLists.txt", "CMakePresets.json", "Makefile", "README.md", "ARCHITECTURE.md", "CHANGELOG.md")
              if (style.ROOT / name).is_file()]
    folders = ("src", "include", "tests", "bench", "examples", "tools", "cmake", "docs", *single)
    return [s for s in style.sources(*folders, suffixes=texts) if not s.path.startswith("bench/results/")]


HEADER = "#pragma once\n"
CASES = [
    ("src/core/a.cpp", 'void f() { printf("x"); }\n', "never prints"),
    ("src/core/a.cpp", 'void f() { std::snprintf(b, 2, "x"); }\n', ""),
    ("src/core/a.cpp", "void f() { std::cout << 1; }\n", "never prints"),
    ("src/cli/a.cpp", "void f() { std::cout << 1; }\n", ""),
    ("src/core/a.cpp", "void f() { std::abort(); }\n", "throw"),
    ("src/core/a.cpp", "void f() { exit(1); }\n", "throw"),
    ("src/core/a.cpp", "// printf(1), exit(1)\nvoid f() { pool.exit(1); }\n", ""),
    ("src/cli/a.cpp", 'auto x = getenv("A");\n', "core/env.cpp"),
    ("src/core/env.cpp", 'auto x = getenv("A");\n', ""),
    ("src/backends/ref/a.h", HEADER + "float f(float x) { return std::exp(x); }\n", "core/math.h"),
    ("src/backends/simd/a.h", HEADER + "float f(float x) { return expf(x); }\n", "core/math.h"),
    ("src/backends/ref/a.h", HEADER + "float f(float x) { return std::sqrt(std::fabs(x)) + math::exp(x); }\n", ""),
    ("src/core/a.cpp", "#pragma omp parallel for\n", "thread_pool"),
    ("src/core/a.cpp", "std::unordered_map<int, int> m;\n", "order"),
    ("src/rl/a.cpp", "std::mt19937 rng(1);\n", "philox"),
    ("src/io/a.cpp", "double d = std::stod(text);\n", "from_chars"),
    ("src/x/CMakeLists.txt", "target_compile_options(a PRIVATE -ffast-math)\n", "exact FP32"),
    ("src/core/a.cpp", "// caf\u00e9\n", "ASCII"),
    ("src/core/a.cpp", "// " + "TO" + "DO: later\n", "unfinished"),
    ("docs/a.md", "open /" + "work/main/x\n", "one machine"),
    ("docs/a.md", "see /usr/local/cuda/bin and out/work/main\n", ""),
    ("src/core/a.cpp", "int x; \n", "end of a line"),
    ("src/core/a.h", "int f();\n", "#pragma once"),
]

if __name__ == "__main__":
    style.main(check, inputs, CASES)
