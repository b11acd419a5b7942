#!/usr/bin/env python3
"""Checks that objects compiled for one instruction set share no code with the rest of the program.

A weak (inline or template) function may be merged by the linker with a copy from another object. If the copy
compiled for AVX-512 wins, the program crashes on older processors. So every weak symbol must carry the
namespace of its instruction set.

usage: check_simd_symbols.py NM NAMESPACE OBJECT...
"""
import subprocess
import sys


def foreign(nm: str, namespace: str, path: str) -> list[str]:
    """Weak symbols of the object at `path` that lack the namespace."""
    text = subprocess.run([nm, "-C", path], check=True, capture_output=True, text=True).stdout
    found = []
    for line in text.splitlines():
        fields = line[17:].split(" ", 1)  # 16 digits or blanks of address, a blank, the kind, the name
        if len(fields) == 2 and fields[0] in "WVuwv" and f"{namespace}::" not in fields[1]:
            found.append(fields[1])
    return found


def main() -> int:
    nm, namespace, objects = sys.argv[1], sys.argv[2], sys.argv[3:]
    if not objects:
        print("no objects were given")
        return 1
    bad = [(path, name) for path in objects for name in foreign(nm, namespace, path)]
    for path, name in bad:
        print(f"{path}: weak symbol {name} does not belong to {namespace}; make it always inline or call a "
              "function of a file compiled for the baseline processor")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
