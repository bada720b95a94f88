"""Writes small tokenizers, and what Hugging Face's `tokenizers` or SentencePiece make of hard
texts.

For each tokenizer this program writes <out>/<name>/tokenizer.json (tokenizer_families.py) or
tokenizer.model (tokenizer_sentencepiece.py), and beside it cases.json: {"encode": [[text, ids, ids
with special tokens read as text, if they differ], ...], "decode": [[ids, text, text without special
tokens], ...]}, with texts in UTF-8. For a wider comparison, --wide makes longer lists, --seed makes
other texts, and --directory uses the tokenizer of any model. The C++ parity test reads these from
the directory that LONGSTREAM_TOKENIZER_GOLDEN names (`make tokenizer-parity`).
"""

import argparse
import codecs
import json
import pathlib
import re
import shutil

from tokenizers import Tokenizer

import tokenizer_sentencepiece
from tokenizer_families import BYTE_LEVEL, PIECE_PARTS, PIECES
from tokenizer_texts import TextGenerator, stdlib_words

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "tokenizer"
WIDE_CASES = 10000
# Files that are read beside tokenizer.json or tokenizer.model.
CONFIGURATION = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
LEGACY_MERGES = ("gpt2", "qwen3")  # merges are written as "left right", as in files before 2024
WIDE_ONLY = ("unigram_nfkc",)  # not committed, because its map has 240 KB
# The first families have 250 texts each, later ones fewer, to keep the files small.
LARGE = ("gpt2", "llama3", "qwen3", "flags", "splits")


def encode_cases(tokenizer, texts):
    def ids(text, special_as_text):
        tokenizer.encode_special_tokens = special_as_text
        return tokenizer.encode(text, add_special_tokens=False).ids

    cases = []
    for text in texts:
        lists = [ids(text, False), ids(text, True)]
        cases.append([text, *lists[:1 if lists[0] == lists[1] else 2]])
    return cases


def decode_cases(tokenizer, generator, count):
    """Random ids of a byte-level tokenizer. Most of their bytes are not valid characters.

    Added tokens such as "café" are left out. The library decodes them as if they were written in
    the byte alphabet of the vocabulary: "é" becomes the byte 0xE9, and this byte becomes U+FFFD.
    Longstream returns the text of the token.
    """
    added = tokenizer.get_added_tokens_decoder()
    usable = [i for i in range(tokenizer.get_vocab_size())
              if i not in added or "\ufffd" not in tokenizer.decode([i])]
    cases = []
    for _ in range(count):
        candidates = generator.choice((usable[:256], usable))
        ids = generator.choices(candidates, k=generator.randint(1, 12))
        cases.append([ids, tokenizer.decode(ids, skip_special_tokens=False),
                      tokenizer.decode(ids, skip_special_tokens=True)])
    return cases


def replace_each_byte(error):
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("replace_each_byte", replace_each_byte)


def byte_of(piece):
    is_byte = len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
    return int(piece[3:5], 16) if is_byte else None


class PieceDecoder:
    """Computes the text of ids, for tokenizers in which tokens such as "<0x0A>" are bytes.

    If a run of such tokens is not valid UTF-8 as a whole, the library replaces every byte of the
    run by U+FFFD. In that case SentencePiece gives the expected text: the valid characters of the
    run, and U+FFFD for each other byte. If the run is valid UTF-8, both libraries must agree, and
    this is checked.
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        data = json.loads(tokenizer.to_str())
        self.special = {token["id"] for token in data["added_tokens"] if token["special"]}
        steps = data["decoder"].get("decoders", [data["decoder"]])
        self.has_bytes = any(step["type"] == "ByteFallback" for step in steps)
        self.strips = steps[-1]["type"] == "Strip"

    def text(self, ids, skip_special):
        if not self.has_bytes:
            return self.tokenizer.decode(ids, skip_special_tokens=skip_special)
        runs, broken, run = [], False, b""
        for i in list(ids) + [None]:
            if skip_special and i in self.special:
                continue
            piece = "" if i is None else self.tokenizer.decode([i], skip_special_tokens=False)
            raw = None if i is None else byte_of(self.tokenizer.id_to_token(i))
            if raw is not None:
                run += bytes([raw])
                continue
            try:
                runs.append(run.decode())
            except UnicodeDecodeError:
                broken = True
                runs.append(run.decode(errors="replace_each_byte"))
            run = b""
            # Only the first token of a text loses its leading space, but each token is decoded
            # alone here.
            if self.strips and i is not None:
                pair = self.tokenizer.decode([self.anchor, i], skip_special_tokens=False)
                piece = pair[len(self.tokenizer.decode([self.anchor], skip_special_tokens=False)):]
            runs.append(piece)
        text = "".join(runs)
        if self.strips and text.startswith(" "):
            text = text[1:]
        expected = self.tokenizer.decode(ids, skip_special_tokens=skip_special)
        assert broken or text == expected, (ids, text, expected)
        return text

    @property
    def anchor(self):
        return self.tokenizer.token_to_id("a")


def piece_decode_cases(tokenizer, generator, encode, count):
    """Returns ids of encoded texts, and random ids that contain runs of bytes."""
    decoder = PieceDecoder(tokenizer)
    size = tokenizer.get_vocab_size()
    lists = [case[1] for case in encode[:count - count // 2] if case[1]]
    for _ in range(count // 2):
        first, last = generator.choice(((0, size - 1), (3, 258), (259, size - 1)))
        lists.append([generator.randint(first, last) for _ in range(generator.randint(1, 12))])
    return [[ids, decoder.text(ids, False), decoder.text(ids, True)] for ids in lists]


def write_cases(path, encode, decode):
    def lines(cases):
        return ",\n".join(
            json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"encode":[\n{lines(encode)}\n],"decode":[\n{lines(decode)}\n]}}\n',
                    encoding="utf-8")


def write_tokenizer(path, tokenizer, legacy_merges):
    data = json.loads(tokenizer.to_str())
    if legacy_merges:
        data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    path.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n",
                    encoding="utf-8")


def is_wide_only(name, family):
    return name in WIDE_ONLY or getattr(family, "wide_only", False)


def tokenizer_cases(directory, texts, decodes, generator):
    """Returns the lists of cases for a tokenizer.json, which is the file that the C++ code
    reads."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    encode = encode_cases(tokenizer, texts)
    if json.loads(tokenizer.to_str())["decoder"]["type"] == "ByteLevel":
        return encode, decode_cases(tokenizer, generator, decodes)
    return encode, piece_decode_cases(tokenizer, generator, encode, decodes)


def make_family(name, family, directory, texts, decodes, generator):
    directory.mkdir(parents=True, exist_ok=True)
    if name in tokenizer_sentencepiece.FAMILIES:
        reference = tokenizer_sentencepiece.write_model(directory, family)
        cases = tokenizer_sentencepiece.make_cases(reference, texts, decodes, generator.random)
    else:
        write_tokenizer(directory / "tokenizer.json", family(), name in LEGACY_MERGES)
        cases = tokenizer_cases(directory, texts, decodes, generator.random)
    write_cases(directory / "cases.json", *cases)


def make_copy(source, out, arguments, words):
    """Writes the cases for the tokenizer of a model directory, and a copy of its files."""
    directory = out / re.sub(r"\W", "_", source.name)
    directory.mkdir(parents=True, exist_ok=True)
    is_json = (source / "tokenizer.json").exists()
    for name in ("tokenizer.json" if is_json else "tokenizer.model", *CONFIGURATION):
        if (source / name).exists():
            shutil.copy(source / name, directory)
    if is_json:
        added = json.loads((directory / "tokenizer.json").read_text())["added_tokens"]
        names = [token["content"] for token in added[:50]]
    else:
        reference = tokenizer_sentencepiece.read_model(directory)
        names = list(reference.added)[:50]
    generator = TextGenerator(f"{source.name} {arguments.seed}", words, PIECE_PARTS + tuple(names))
    texts = [generator.text(arguments.pieces) for _ in range(WIDE_CASES)]
    texts = [text for text in texts if text]
    if is_json:
        cases = tokenizer_cases(directory, texts, WIDE_CASES, generator.random)
    else:
        cases = tokenizer_sentencepiece.make_cases(reference, texts, WIDE_CASES, generator.random)
    write_cases(directory / "cases.json", *cases)


def make_families(arguments, words):
    families = BYTE_LEVEL | PIECES | tokenizer_sentencepiece.FAMILIES
    for name, family in families.items():
        if is_wide_only(name, family) and not arguments.wide:
            continue
        cases = WIDE_CASES if arguments.wide else 250 if name in LARGE else 50
        parts = () if name in BYTE_LEVEL else PIECE_PARTS
        generator = TextGenerator(f"{name} {arguments.seed}", words, parts)
        make_text = getattr(family, "text", None)
        texts = [make_text(generator.random) if make_text else generator.text(arguments.pieces)
                 for _ in range(cases)]
        texts = [text for text in texts if text]
        decodes = cases if arguments.wide else cases // 5 if name in LARGE else cases // 2
        make_family(name, family, arguments.out / name, texts, decodes, generator)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN)
    parser.add_argument("--wide", action="store_true", help=f"{WIDE_CASES} texts per tokenizer")
    parser.add_argument("--directory", type=pathlib.Path, action="append",
                        help="the tokenizer of this model directory in place of the small ones")
    parser.add_argument("--pieces", type=int, default=5, help="most pieces of a text")
    parser.add_argument("--seed", type=int, default=20)
    arguments = parser.parse_args()
    _, words = stdlib_words()
    if not arguments.directory:
        make_families(arguments, words)
    for source in arguments.directory or ():
        make_copy(source.resolve(), arguments.out, arguments, words)


if __name__ == "__main__":
    main()
