#!/usr/bin/env python3
"""Files and functions stay short enough to read.

Hard limits fail: 600 lines a file, 80 lines a host function, 200 lines a kernel. Above the soft limits, 300
and 40, the longest are listed.
"""
import re
import sys
from typing import Iterable, Iterator, NamedTuple

import style

FILE_HARD, FILE_SOFT = 600, 300
FUNCTION_HARD, FUNCTION_SOFT, KERNEL_HARD = 80, 40, 200

_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b(?![^{]*\)\s*(const\b.*)?$)", re.DOTALL)
_INITIALIZER = re.compile(r"\)\s*(noexcept\s*)?:\s*(?!:).*[\w>]$", re.DOTALL)


class Function(NamedTuple):
    name: str
    line: int
    length: int
    kernel: bool


def kind_of(header: str) -> str:
    """What a brace after `header` opens at namespace or class level: function, scope, or value."""
    plain = re.sub(r"operator\s*[^\s\w(]+", "operator", header)
    plain = re.sub(r"\[\[[^]]*\]\]|<[^<>;]*>", " ", plain)
    if "(" in plain and not re.search(r"(?<![=!<>])=(?!=)", re.sub(r"\([^()]*\)", "()", plain)):
        if not re.match(r"\s*(typedef|namespace)\b", plain):
            return "member initializer" if _INITIALIZER.search(plain.rstrip()) and not re.search(
                r"\b(const|noexcept|override|final)$", plain.rstrip()) else "function"
    return "scope" if _SCOPE.search(plain) else "value"


def skip_braces(text: str, at: int) -> int:
    """Position after the brace that closes the one at `at`."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.end()
    return len(text)


def functions(source: str) -> Iterator[Function]:
    """Functions at namespace and class level; lambdas count as part of the function around them."""
    text = style.blank(source)
    text = re.sub(r"^\s*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.MULTILINE)
    begin = at = 0
    while match := re.compile(r"[{};]").search(text, at):
        at = match.end()
        if match.group() != "{":
            begin = at
            continue
        header = text[begin:match.start()]
        kind = kind_of(header)
        if kind == "scope":
            begin = at
            continue
        at = skip_braces(text, match.start())
        if kind == "member initializer":
            continue  # the body is still to come
        if kind == "function":
            first = begin + len(header) - len(header.lstrip())
            line = style.line_of(text, first)
            name = re.findall(r"([\w:~]+)\s*\(", header)
            yield Function(name[0] if name else "?", line, style.line_of(text, at - 1) - line + 1, "__global__" in header)
        begin = at


def check(files: Iterable[style.Source]) -> Iterator[style.Finding]:
    for file in files:
        lines = file.text.count("\n")
        if lines > FILE_HARD:
            yield style.Finding(file.path, 1, f"{lines} lines; at most {FILE_HARD}")
        for function in functions(file.text):
            limit = KERNEL_HARD if function.kernel else FUNCTION_HARD
            if function.length > limit:
                yield style.Finding(file.path, function.line,
                                    f"{function.name} has {function.length} lines; at most {limit}")


def list_long(files: Iterable[style.Source]) -> None:
    """Prints what is above a soft limit; not a failure."""
    for file in files:
        lines = file.text.count("\n")
        if lines > FILE_SOFT:
            print(f"note: {file.path} has {lines} lines, more than {FILE_SOFT}")
        for function in functions(file.text):
            if function.length > FUNCTION_SOFT and not function.kernel:
                print(f"note: {file.path}:{function.line}: {function.name} has {function.length} lines, more than "
                      f"{FUNCTION_SOFT}")


def body(lines: int, header: str = "int f(int x)") -> str:
    return f"namespace a {{\n{header} {{\n" + "  g({1});\n" * (lines - 2) + "}\n}\n"


CASES = [
    ("src/a.cpp", "\n" * 601, "601 lines"),
    ("src/a.cpp", "\n" * 600, ""),
    ("src/a.cpp", body(81), "f has 81 lines"),
    ("src/a.cpp", body(80), ""),
    ("src/a.cpp", body(81, "Foo::Foo(int x) : a_{x}, b_(2)"), "has 81 lines"),
    ("src/a.cpp", body(81, "bool operator==(const A& a, const A& b)"), "has 81 lines"),
    ("src/a.h", "struct S {\n  void m() const {\n" + "    g();\n" * 90 + "  }\n};\n", "m has 92 lines"),
    ("src/a.cpp", "constexpr std::array<Row, 3> kRows = {{\n" + "  {f(1)},\n" * 100 + "}};\n", ""),
    ("src/a.cpp", "struct Args {\n" + "  int x;\n" * 100 + "};\n", ""),
    ("src/a.cu", body(150, "__global__ void k(int* x)"), ""),
    ("src/a.cu", body(201, "__global__ void k(int* x)"), "k has 201 lines"),
    ("src/a.cpp", body(79, 'void f(const char* s = "{")'), ""),
]

if __name__ == "__main__":
    if sys.argv[1:] == []:
        list_long(style.sources("src", "include"))
    style.main(check, lambda: style.sources("src", "include", "tests", "bench", "examples"), CASES)
