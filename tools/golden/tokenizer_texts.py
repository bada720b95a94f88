"""Texts to train tokenizers on, and random texts that are hard to tokenize."""

import pathlib
import random
import sysconfig
import unicodedata

TRAINING_MODULES = ("argparse", "ast", "datetime", "decimal", "difflib", "ftplib", "heapq", "random",
                    "smtplib", "statistics", "textwrap", "turtle", "typing", "zipfile")
TRAINING_SEED = 1

# Ranges from which the generator draws code points; "any" has all assigned code points.
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
# Words of the llama3 tokenizer that no sequence of merges produces: in a text, and as written in
# the vocabulary.
UNMERGED = {" definitely": "Ġdefinitely", "tokenizer": "tokenizer", " русс": "ĠÑĢÑĥÑģÑģ",
            "123": "123", "......": "......", "         ": "ĠĠĠĠĠĠĠĠĠ"}


def assigned(code_point):
    """Whether the code point is a character of Unicode 14, the oldest version among the compared
    libraries."""
    category = unicodedata.category(chr(code_point))
    return category != "Cs" and category != "Cn"


def stdlib_words():
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    text = "\n".join((root / f"{name}.py").read_text() for name in TRAINING_MODULES)
    return text, text.split()


class TextGenerator:
    """Random texts. Each consists of pieces with one difficulty each, in random order.

    `parts` are texts that the tested tokenizer treats specially.
    """

    def __init__(self, seed, words, parts=()):
        self.random = random.Random(seed)
        self.words = words
        parts = SPECIAL_PARTS + tuple(parts)
        self.makers = (
            (4, lambda: self.random.choice(self.words)), (3, self.characters), (2, self.marked),
            (3, lambda: self.run(SPACES, 6)), (2, lambda: self.run(DIGITS, 9)),
            (1, lambda: self.run(CONTROLS, 2)), (1, lambda: self.random.choice(EMOJI)),
            (2, lambda: self.random.choice(APOSTROPHES)),
            (2, lambda: self.random.choice(parts)), (1, self.repeated),
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
