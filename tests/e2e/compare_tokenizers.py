#!/usr/bin/env python3
"""Compares `minite tokenize` with the Python package tokenizers on random texts.

usage: compare_tokenizers.py MINITE CKPT [COUNT]   exit 0: equal, 1: not, 77: the package is not installed

CKPT is a folder with tokenizer.json or a GGUF file. The command writes the tokenizer's files once more; the package reads
those, and both encode COUNT texts of many scripts, with special tokens as plain text and as tokens, and decode them.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    from tokenizers import Tokenizer
except ImportError:
    sys.exit(77)

PIECES = [
    " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n ", "\u00a0", "\u3000", "\u2028", "\u180e", "\u0085", "\u200b", "\ufeff",
    "a", "the", "Hello", "world", "I'm", "you'll", "WE'VE", "it's", "'S", "'\u017f", "'t", "'RE", "\u2019s", "''", "don't",
    "1", "12", "123", "4567", "1234567890", "3.14", "\u00bd", "\u2167", "\u0663\u0664", "\u0967", "\u4e09", "x2", "10,000",
    "!", "?!", "...", "(", ")", "[x]", "{};", "->", "==", "#", "$5", "%", "\\", "/", "\"", "`", "~", "_", "__init__", "*",
    "\u00e9", "e\u0301", "A\u030a", "\u00c5", "\u1e9b\u0323", "\uac00", "\u1100\u1161", "na\u00efve", "Stra\u00dfe", "\u0130",
    "\u041f\u0440\u0438\u0432\u0435\u0442", "\u03b5\u03bb\u03bb", "\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627",
    "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e44\u0e17\u0e22", "\u4f60\u597d", "\u65e5\u672c\u8a9e", "\u30ab\u30bf", "\ud55c\uad6d",
    "\U0001f600", "\U0001f468\u200d\U0001f469", "\u2764\ufe0f", "\U0001f1eb\U0001f1f7", "\u20ac", "\u2260", "\u221e", "\u2192",
    "\x00", "\x07", "\x1b", "\x7f", "\ufffd", "\u212a", "\u01c5", "\u02b0", "\u0300", "\u20dd", "\u2170", "\u2474",
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<think>", "<|im_", "|>", "<", "<<", "user\n",
    "def f(x):\n    return x", "http://a.b/c?d=e", "int main() {}", "SELECT * FROM t;", "aaaaaaaaaaaaaaaaaaaa", "ababababab",
]


def texts(count: int) -> list[str]:
    rng = random.Random(1)
    made = ["", *PIECES, " " * 1000 + "x", "a" * 3000, "\n" * 500, "0" * 300]
    while len(made) < count:
        text = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 12)))
        if rng.random() < 0.2:  # any code points
            text += "".join(chr(rng.choice([rng.randrange(0x20, 0x500), rng.randrange(0x500, 0xd800),
                                            rng.randrange(0xe000, 0x2fa20)])) for _ in range(rng.randint(1, 6)))
        made.append(text)
    return made


def encodable(texts_: list[str], tokenizer: Tokenizer) -> list[str]:
    """Those of whose bytes every one has a token: the package drops the others, the command refuses them."""
    vocabulary = tokenizer.get_vocab()
    table, other = {}, 0
    for b in range(256):
        own = 33 <= b <= 126 or 161 <= b <= 172 or b >= 174
        table[b] = chr(b) if own else chr(256 + other)
        other += not own
    missing = {b for b, c in table.items() if c not in vocabulary}
    normalize = tokenizer.normalizer.normalize_str if tokenizer.normalizer else str
    return [t for t in texts_ if not missing & set(normalize(t).encode())]


def main() -> int:
    minite, checkpoint, count = sys.argv[1], sys.argv[2], int((sys.argv + ["2000"])[3])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([minite, "tokenize", checkpoint, "-o", folder / "saved"], check=True)
        tokenizer = Tokenizer.from_file(str(folder / "saved/tokenizer.json"))
        wanted = encodable(texts(count), tokenizer)
        (folder / "texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in wanted))
        faults = 0
        for special in (False, True):
            tokenizer.encode_special_tokens = not special
            command = [minite, "tokenize", checkpoint, "--data", folder / "texts.jsonl", "--json"]
            out = subprocess.run(command + (["--special"] if special else []), check=True, capture_output=True).stdout
            for text, row in zip(wanted, json.loads(out)["rows"], strict=True):
                ids = tokenizer.encode(text, add_special_tokens=False).ids
                decoded = tokenizer.decode(row["ids"], skip_special_tokens=True)
                if ids != row["ids"] or decoded != row["decoded"]:
                    faults += 1
                    if faults <= 5:
                        print(f"special={special} {text!r}: {row['ids']} {row['decoded']!r}, expected {ids} {decoded!r}")
        print(f"{len(wanted)} texts twice, {faults} differ")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
