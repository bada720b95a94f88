"""The training text: the sources of the Python standard library, divided by file into two parts.

A file belongs to the held-out part if the SHA-256 of its path, relative to the library, is below a
threshold. So the division depends only on the names of the files.
"""

import hashlib
import pathlib
import sysconfig

import numpy as np

HELD_OUT_FRACTION = 0.03
# Size of the committed sample: 48 windows of 4096 bytes, or 384 windows of 512 bytes.
SAMPLE_BYTES = 48 * 4096
SAMPLE_FILE_SIZE = (6_000, 32_000)  # Bounds that give several documents of similar size.
# Leave out folders of tables: they are large, and a prediction of their bytes says nothing about a
# model.
EXCLUDED_TOP = {"site-packages", "encodings", "pydoc_data", "__pycache__"}


def default_root() -> pathlib.Path:
    return pathlib.Path(sysconfig.get_path("stdlib"))


def is_held_out(relative_path: str) -> bool:
    digest = hashlib.sha256(relative_path.encode()).digest()
    return int.from_bytes(digest[:8], "big") < HELD_OUT_FRACTION * 2**64


def source_files(root: pathlib.Path) -> list[tuple[str, bytes]]:
    """Returns every usable .py file as (path relative to root, text), sorted by path."""
    files = []
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if relative.parts[0] in EXCLUDED_TOP:
            continue
        text = path.read_bytes()
        if not text or b"\0" in text:
            continue
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            continue
        files.append((relative.as_posix(), text))
    return files


def training_bytes(root: pathlib.Path, seed: int) -> np.ndarray:
    """Returns the training files as uint8 [n], in an order drawn from the seed. A byte 0 precedes
    each file."""
    documents = [text for name, text in source_files(root) if not is_held_out(name)]
    order = np.random.default_rng(seed).permutation(len(documents))
    return np.frombuffer(b"".join(b"\0" + documents[i] for i in order), dtype=np.uint8)


def held_out_sample(root: pathlib.Path) -> bytes:
    """Returns SAMPLE_BYTES bytes of held-out text. Takes only ASCII files, so that any cut is valid
    UTF-8."""
    low, high = SAMPLE_FILE_SIZE
    chosen = [
        (hashlib.sha256(name.encode()).digest(), text)
        for name, text in source_files(root)
        if is_held_out(name) and text.isascii() and low <= len(text) <= high
    ]
    text = b"".join(text for _, text in sorted(chosen))
    if len(text) < SAMPLE_BYTES:
        raise SystemExit(f"{root}: only {len(text)} held-out bytes, expected {SAMPLE_BYTES}")
    return text[:SAMPLE_BYTES]
