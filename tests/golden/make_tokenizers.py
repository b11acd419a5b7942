#!/usr/bin/env python3
"""Writes tokenizers.json: small byte-level BPE tokenizers, and what the Python package tokenizers makes of texts.

usage: make_tokenizers.py > tokenizers.json        needs the package tokenizers
"""
import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [
    "The learner and the sampler read the same weights, and the gap between them is zero.",
    "Quantize 123 rows of 4567 values; it's what we've measured, isn't it? They'll say they're sure.",
    "def forward(x):\n    return norm(x) @ w.T\n\n\n  # two   spaces",
    "Stra\u00dfe, na\u00efve caf\u00e9, \u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440, \u4f60\u597d\u4e16\u754c, \u0939\u093f\u0928\u094d\u0926\u0940, \U0001f600 \u2764\ufe0f",
]
TEXTS = SENTENCES + [
    "", " ", "\n", "   \n\n  x", "I'M WE'LL it\u2019s 'S '\u017f", "0 12 345 6789 \u00bd \u0663\u0664 \u2167 x2", "e\u0301 A\u030a \uac00 \u1100\u1161 \u212b",
    "a\u00a0b\u3000c\u180ed\u0085e\u200bf", "<|im_start|>user\n<think>hm</think><|im_end|>", "<|im_<|im_end|>|>", "aaaaaaaaaaaaaaa",
    "\t\ttabs\r\nand\r\rreturns", "\x00\x1f\x7f", "...!!! ?? #$% (a)[b]{c}",
]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")


def byte_level(use_regex: bool) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level(False)])


def trained(pre_tokenizer: pre_tokenizers.PreTokenizer, nfc: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=340, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=True)])
    return tokenizer


def case(name: str, pre_tokenizer: pre_tokenizers.PreTokenizer, nfc: bool = False, llama: bool = False) -> dict:
    tokenizer = trained(pre_tokenizer, nfc)
    if llama:
        begin = tokenizer.token_to_id("<|im_start|>")
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing("<|im_start|> $A", special_tokens=[("<|im_start|>", begin)])])
    document = json.loads(tokenizer.to_str())
    if name == "gpt2":  # the older way to write merges
        document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
    if llama:  # a token that no merge makes, in place of one that a merge would make anyway
        vocab, last = document["model"]["vocab"], document["model"]["merges"].pop()
        vocab["\u0120zero"] = vocab.pop("".join(last))
        document["model"]["ignore_merges"] = True
    tokenizer = Tokenizer.from_str(json.dumps(document))
    rows = []
    for text in TEXTS:
        row = {"text": text, "prompt": None}
        for key, special in (("plain", False), ("special", True)):
            tokenizer.encode_special_tokens = not special
            row[key] = tokenizer.encode(text, add_special_tokens=False).ids
            row[key + "_decoded"] = tokenizer.decode(row[key])
        tokenizer.encode_special_tokens = True
        row["prompt"] = tokenizer.encode(text).ids
        half = row["plain"][: max(1, len(row["plain"]) // 2)]
        row["half"] = tokenizer.decode(half) if row["plain"] else ""
        rows.append(row)
    return {"name": name, "tokenizer": document, "rows": rows}


def main() -> None:
    smollm = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)])
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False), byte_level(True)])
    cases = [case("gpt2", byte_level(True)), case("smollm", smollm), case("digits", digits), case("llama3", split(LLAMA3), llama=True),
             case("qwen", split(QWEN), nfc=True)]
    print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")


if __name__ == "__main__":
    main()
