#!/usr/bin/env python3
"""Writes the generated parts of the documentation anew: tables that the command prints, listings of files.

usage: gen_docs.py [MINITE]      (default: build/release/minite)
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- (generated|file): (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def body(kind: str, label: str, minite: str) -> str:
    if kind == "file":
        return f"```cpp\n{(ROOT / label).read_text()}```\n"
    command = [minite, *label.split()[1:]]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    minite = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/minite")
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        old = path.read_text()
        new = BLOCK.sub(lambda m: m.group(1) + body(m.group(2), m.group(3), minite) + m.group(4), old)
        if new != old:
            path.write_text(new)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
