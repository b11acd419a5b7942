"""What the checks of the sources share: reading files, blanking comments, reporting, self-tests."""
import pathlib
import re
import sys
from typing import Callable, Iterable, Iterator, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = {".h", ".cpp", ".cu", ".cuh"}


class Finding(NamedTuple):
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class Source(NamedTuple):
    """One file: its path below the root of the project, and its text."""
    path: str
    text: str


# A check: sources in, findings out. A case of a self-test: path, text, a word of the finding ("" for none).
Check = Callable[[Iterable[Source]], Iterator[Finding]]
Case = tuple[str, str, str]


def sources(*folders: str, suffixes: set[str] = CODE) -> list[Source]:
    """The files of the folders (or single files) with one of the suffixes, in the order of their paths."""
    found = []
    for folder in folders:
        top = ROOT / folder
        paths = [top] if top.is_file() else sorted(p for p in top.rglob("*") if p.is_file())
        for path in paths:
            if "__pycache__" not in path.parts and (path.suffix in suffixes or path == top):
                found.append(Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")))
    return found


_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)


def blank(text: str, strings: bool = True) -> str:
    """`text` with comments (and the inside of strings) turned into blanks; lines keep their numbers."""
    def replace(match: re.Match) -> str:
        token = match.group()
        if token.startswith(("//", "/*")):
            return re.sub(r"[^\n]", " ", token)
        if not strings or len(token) < 2:
            return token
        return token[0] + re.sub(r"[^\n]", " ", token[1:-1]) + token[-1]
    return _TOKENS.sub(replace, text)


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def matches(pattern: str, text: str) -> Iterator[tuple[int, re.Match]]:
    """(line, match) of every match."""
    for match in re.finditer(pattern, text, re.MULTILINE):
        yield line_of(text, match.start()), match


def self_test(check: Check, cases: Iterable[Case]) -> int:
    """Every bad snippet must give a finding with its word, every good one none."""
    failures = 0
    for path, text, word in cases:
        found = [str(f) for f in check([Source(path, text)])]
        ok = any(word in f for f in found) if word else not found
        if not ok:
            failures += 1
            wanted = f"a finding with {word!r}" if word else "no finding"
            print(f"self-test: {path}: wanted {wanted}, got {found}\n{text}")
    print(f"self-test: {failures} of {len(list(cases))} cases failed")
    return 1 if failures else 0


def main(check: Check, inputs: Callable[[], Iterable[Source]], cases: list[Case]) -> None:
    """Runs the self-test with --selftest, else the check over the project; exits 1 on a finding."""
    if sys.argv[1:] == ["--selftest"]:
        sys.exit(self_test(check, cases))
    if sys.argv[1:]:
        print(f"usage: {pathlib.Path(sys.argv[0]).name} [--selftest]", file=sys.stderr)
        sys.exit(2)
    files = list(inputs())
    found = list(check(files))
    for finding in found:
        print(finding)
    print(f"{len(found)} findings in {len(files)} files")
    sys.exit(1 if found or not files else 0)
