"""Training windows for the tasks of `longstream eval`: passkey, associative recall, ListOps.

The formats are those of client/eval/tasks.cc, but the filler texts, keys and numbers are different.
A window has many questions and their answers, at all distances that fit into it.
"""

import numpy as np

FILLER = (
    b"The river is wide and the boats are slow. A bird sits on the roof and looks at the hills. "
    b"Rain came in the night and left in the morning. The road goes on past the mill.\n"
)
# The probability of each task.
SHARES = {"passkey": 0.35, "recall": 0.55, "listops": 0.1}


def lines(text, length):
    """Returns the whole lines within the first bytes of a text."""
    return text[: text.rfind(b"\n", 0, length) + 1]


def passkey(random, code, size):
    """Returns a text that states a number and then asks for it several times. The number and the
    questions stand among filler sentences or in a part of the training text."""
    filler = FILLER * (size // len(FILLER) + 1) if random.random() < 0.5 else code
    key = str(random.integers(10 ** random.integers(2, 6) + 1)).encode().zfill(3)
    text = lines(filler, random.integers(size // 2))
    text += b"The pass key is %s. Remember it, %s is the pass key.\n" % (key, key)
    while len(text) < size:
        text += lines(filler, random.integers(size // 2))
        text += b"What is the pass key? The pass key is %s\n" % key
    return text


def recall(random, code, size):
    """Returns a text with pairs of a key and a value, and then some of the pairs again."""
    del code
    pairs = [
        b"%s = %02d\n" % (bytes(random.integers(97, 123, 3, np.uint8)), random.integers(100))
        for _ in range(random.integers(2, size // 18))
    ]
    text = b"".join(pairs)
    while len(text) < size:
        text += pairs[random.integers(len(pairs))]
    return text


OPERATORS = {
    "MIN": min,
    "MAX": max,
    "MED": lambda values: sorted(values)[(len(values) - 1) // 2],
    "SM": lambda values: sum(values) % 10,
}


def expression(random, depth):
    """Returns the text and the value of one operator over two to five digits or expressions."""
    name = random.choice(list(OPERATORS))
    parts = [
        expression(random, depth - 1)
        if depth > 1 and random.random() < 1 / 3
        else (str(digit := int(random.integers(10))), digit)
        for _ in range(random.integers(2, 6))
    ]
    text = " ".join(text for text, _ in parts)
    return f"[{name} {text}]", OPERATORS[name]([value for _, value in parts])


def listops(random, code, size):
    del code
    text = ""
    while len(text) < size:
        text += "{} = {}\n".format(*expression(random, 2))
    return text.encode()


def window(random, data, size):
    """Returns `size` bytes of one task: uint8 [size]. `data` is the training text, for fillers."""
    start = random.integers(0, len(data) - size)
    code = data[start : start + size].tobytes().replace(b"\0", b"\n")
    draw = {"passkey": passkey, "recall": recall, "listops": listops}
    name = random.choice(list(SHARES), p=list(SHARES.values()))
    return np.frombuffer(draw[name](random, code, size)[:size], dtype=np.uint8)
