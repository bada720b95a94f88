"""Small byte-level BPE tokenizers and what Hugging Face's `tokenizers` makes of difficult texts.

Writes <out>/<name>/tokenizer.json, trained on Python standard library text, and cases.json beside
it: {"encode": [[text, ids, ids with special tokens taken as text, if they differ], ...],
     "decode": [[ids, text, text without special tokens], ...]}, text as UTF-8.
With --cases and --seed the same program gives other and longer lists for a wider comparison; the
C++ parity test reads them from the directory that LONGSTREAM_TOKENIZER_GOLDEN names.
"""

import argparse
import json
import pathlib
import random
import sysconfig
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden" / "tokenizer"
TRAINING_MODULES = ("argparse", "ast", "datetime", "decimal", "difflib", "ftplib", "heapq", "random",
                    "smtplib", "statistics", "textwrap", "turtle", "typing", "zipfile")
TRAINING_SEED = 1

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")

# Where the generator of texts draws code points from; "any" stands for all that are assigned.
RANGES = {
    "latin": (0x20, 0x24F), "greek": (0x370, 0x3FF), "cyrillic": (0x400, 0x52F),
    "hebrew": (0x590, 0x5FF), "arabic": (0x600, 0x6FF), "devanagari": (0x900, 0x97F),
    "bengali": (0x980, 0x9FF), "thai": (0xE00, 0xE7F), "tibetan": (0xF00, 0xFFF),
    "jamo": (0x1100, 0x11FF), "greek extended": (0x1F00, 0x1FFF), "punctuation": (0x2010, 0x206F),
    "letterlike": (0x2100, 0x218F), "kana": (0x3040, 0x30FF), "han": (0x4E00, 0x4FFF),
    "hangul": (0xAC00, 0xAFFF), "compatibility": (0xF900, 0xFAFF), "forms": (0xFE00, 0xFFFF),
    "math": (0x1D400, 0x1D7FF), "emoji": (0x1F300, 0x1FAFF), "han b": (0x20000, 0x200FF),
    "tags": (0xE0000, 0xE01FF), "any": (0x0, 0x10FFFF),
}
MARKS = "\u0300\u0301\u0302\u0303\u0307\u0308\u030a\u0316\u0323\u0327\u0328\u0334\u0338\u0345\u05b0" \
        "\u064b\u0653\u0670\u093c\u094d\u09be\u09d7\u0e38\u0f71\u0f72\u0f73\u1161\u11a8\u3099\u309a"
SPACES = " \t\n\r\v\f\x1c\x1d\x1e\x1f\u0085\u00a0\u1680\u180e\u2000\u2003\u200a\u200b\u2028\u2029" \
         "\u202f\u205f\u2060\u3000\ufeff"
DIGITS = "0123456789٠١٢३४²³¹½¾ⅣⅫ①⑳〇一𝟘𝟡"
CONTROLS = "\0\x01\x07\x08\x1b\x7f\x80\x9f\u00ad\u200c\u200d\u200e\ufff9\ufffd\ufffe\uffff\U0010ffff"
EMOJI = ("👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇫🇷", "❤️", "1️⃣", "🧑🏿‍🚀")
APOSTROPHES = ("'s", "'S", "'ſ", "'re", "'RE", "'vE", "'ll", "'LL", "'d", "'m", "'t", "’s", "ʼn", "'K",
               "''", "'sé", "I'm", "we'll've")
SPECIAL_PARTS = ("<|endoftext|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>",
                 "<|end", "|>", "<", "<|", "<pad>", "<pa", "[L]", "[R]", "[LR]", "word", "keyword",
                 "é", "e\u0301", "caf", "<a>", "<a>b", "--", "_", "##")
# Words of the llama3 tokenizer that no merges lead to, in text and in its vocabulary.
UNMERGED = {" definitely": "Ġdefinitely", "tokenizer": "tokenizer", " русс": "ĠÑĢÑĥÑģÑģ",
            "123": "123", "......": "......", "         ": "ĠĠĠĠĠĠĠĠĠ"}


def assigned(code_point):
    """Whether the code point is a character in Unicode 14, the oldest table among those compared."""
    category = unicodedata.category(chr(code_point))
    return category != "Cs" and category != "Cn"


def stdlib_words():
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    text = "\n".join((root / f"{name}.py").read_text() for name in TRAINING_MODULES)
    return text, text.split()


class TextGenerator:
    """Random texts: pieces that each try one difficulty, in any order."""

    def __init__(self, seed, words):
        self.random = random.Random(seed)
        self.words = words
        self.makers = (
            (4, lambda: self.random.choice(self.words)), (3, self.characters), (2, self.marked),
            (3, lambda: self.run(SPACES, 6)), (2, lambda: self.run(DIGITS, 9)),
            (1, lambda: self.run(CONTROLS, 2)), (1, lambda: self.random.choice(EMOJI)),
            (2, lambda: self.random.choice(APOSTROPHES)),
            (2, lambda: self.random.choice(SPECIAL_PARTS)), (1, self.repeated),
            (1, lambda: self.random.choice(list(UNMERGED))))

    def characters(self):
        low, high = self.random.choice(list(RANGES.values()))
        points = [self.random.randint(low, high) for _ in range(self.random.randint(1, 5))]
        return "".join(chr(point) for point in points if assigned(point))

    def run(self, alphabet, longest):
        return "".join(self.random.choices(alphabet, k=self.random.randint(1, longest)))

    def marked(self):
        base = self.random.choice("aAeEoUsṩłñ가개か하한ऩক<'1 " + chr(self.random.randint(0xC0, 0x24F)))
        return base + self.run(MARKS, 4)

    def repeated(self):
        return self.characters()[:1] * self.random.randint(2, 20)

    def text(self, pieces):
        weights, makers = zip(*self.makers)
        chosen = self.random.choices(makers, weights, k=self.random.randint(1, pieces))
        return self.random.choice(("", "", " ")).join(make() for make in chosen)


def train(merges, normalizer, pre_tokenizer, special_tokens):
    """A tokenizer with 256 byte tokens, `merges` merges and the special tokens."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    text, words = stdlib_words()
    foreign = TextGenerator(TRAINING_SEED, words)
    lines = text.split("\n") + [foreign.text(8) for _ in range(3000)]
    trainer = trainers.BpeTrainer(
        vocab_size=256 + merges, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens(special_tokens)
    return tokenizer


def edited(tokenizer, edit):
    """The tokenizer of the JSON that edit(json) leaves."""
    data = json.loads(tokenizer.to_str())
    edit(data)
    return Tokenizer.from_str(json.dumps(data))


def gpt2():
    return train(700, None, pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])


def llama3():
    split = pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = train(900, None, pre_tokenizers.Sequence([split, byte_level]), [])

    def edit(data):
        model = data["model"]
        vocab = model["vocab"]
        model["ignore_merges"] = True
        # As in the real files: some tokens come from several pairs, and some words from none.
        pairs = {tuple(pair) for pair in model["merges"]}
        for token in list(vocab):
            for cut in range(1, len(token)):
                pair = (token[:cut], token[cut:])
                if pair[0] in vocab and pair[1] in vocab and pair not in pairs and cut % 2 == 0:
                    model["merges"].append(list(pair))
        for word in UNMERGED.values():
            vocab.setdefault(word, len(vocab))

    tokenizer = edited(tokenizer, edit)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    start = ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{start[0]} $A", special_tokens=[start])])
    return tokenizer


def qwen3():
    split = pre_tokenizers.Split(Regex(QWEN_PATTERN), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = train(700, normalizers.NFC(), pre_tokenizers.Sequence([split, byte_level]),
                      ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens(
        [AddedToken(text, normalized=False) for text in ("<think>", "</think>")])
    return tokenizer


def flags():
    """Added tokens of every kind, a leading space, digits one by one."""
    steps = [pre_tokenizers.Digits(individual_digits=True),
             pre_tokenizers.ByteLevel(add_prefix_space=True)]
    tokenizer = train(300, normalizers.NFC(), pre_tokenizers.Sequence(steps), ["<pad>"])
    tokenizer.add_tokens([
        AddedToken("[L]", lstrip=True, normalized=False),
        AddedToken("[R]", rstrip=True, normalized=False),
        AddedToken("[LR]", lstrip=True, rstrip=True, special=True),
        AddedToken("word", single_word=True),
        AddedToken("cafe\u0301", normalized=True), AddedToken("é", normalized=True),
        AddedToken("<a>", normalized=False), AddedToken("<a>b", normalized=False, rstrip=True),
        AddedToken("\u3000", normalized=False), AddedToken("東京", single_word=True)])
    return tokenizer


def splits():
    """Every behaviour of Split, and inversion."""
    steps = [
        pre_tokenizers.Split("--", "merged_with_next"),
        pre_tokenizers.Split("_", "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"\p{Nd}{2}"), "contiguous"),
        pre_tokenizers.Split(Regex(r"[^\t\u3000]+"), "removed", invert=True),
        pre_tokenizers.Split(
            Regex(r"(?>\p{Han}|\p{^L})(?=\p{Lu}|e)|(?<!a)\x{e9}|[\-\]\d\S]+?"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    return train(300, None, pre_tokenizers.Sequence(steps), ["<|endoftext|>"])


TOKENIZERS = {"gpt2": gpt2, "llama3": llama3, "qwen3": qwen3, "flags": flags, "splits": splits}
LEGACY_MERGES = ("gpt2", "qwen3")  # written as "left right", as files were before 2024


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
    """Random ids: mostly bytes that are no character.

    Left out are added tokens such as "café", which the library reads as if they were written in
    the byte alphabet of the vocabulary: "é" becomes the byte 0xE9, and that U+FFFD. Ours gives the
    text that the token was made from.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN)
    parser.add_argument("--cases", type=int, default=250, help="texts per tokenizer")
    parser.add_argument("--pieces", type=int, default=5, help="most pieces of a text")
    parser.add_argument("--seed", type=int, default=20)
    arguments = parser.parse_args()

    _, words = stdlib_words()
    for name, make in TOKENIZERS.items():
        directory = arguments.out / name
        directory.mkdir(parents=True, exist_ok=True)
        write_tokenizer(directory / "tokenizer.json", make(), name in LEGACY_MERGES)
        # What counts is the file: the C++ reads it too.
        tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        generator = TextGenerator(f"{name} {arguments.seed}", words)
        texts = [generator.text(arguments.pieces) for _ in range(arguments.cases)]
        encode = encode_cases(tokenizer, [text for text in texts if text])
        decode = decode_cases(tokenizer, generator.random, arguments.cases // 5)
        write_cases(directory / "cases.json", encode, decode)


if __name__ == "__main__":
    main()
