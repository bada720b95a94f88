"""The training text: the Python standard library's own sources, split by file into two parts.

A file belongs to the held-out part when the SHA-256 of its path relative to the library falls
below a threshold, so the split depends on nothing but the names of the files.
"""

import hashlib
import pathlib
import sysconfig

import numpy as np

HELD_OUT_FRACTION = 0.03
SAMPLE_BYTES = 48 * 4096  # The committed sample: 48 windows of 4096, 384 of 512.
SAMPLE_FILE_SIZE = (6_000, 32_000)  # Several documents, none of which dominates.
# Tables rather than text: they are large, and telling their next byte is no sign of anything.
EXCLUDED_TOP = {"site-packages", "encodings", "pydoc_data", "__pycache__"}


def default_root() -> pathlib.Path:
    return pathlib.Path(sysconfig.get_path("stdlib"))


def is_held_out(relative_path: str) -> bool:
    digest = hashlib.sha256(relative_path.encode()).digest()
    return int.from_bytes(digest[:8], "big") < HELD_OUT_FRACTION * 2**64


def source_files(root: pathlib.Path) -> list[tuple[str, bytes]]:
    """Every usable .py file as (path relative to root, text), sorted by path."""
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
    """The training files in a seeded order, each preceded by the separator byte 0: uint8 [n]."""
    documents = [text for name, text in source_files(root) if not is_held_out(name)]
    order = np.random.default_rng(seed).permutation(len(documents))
    return np.frombuffer(b"".join(b"\0" + documents[i] for i in order), dtype=np.uint8)


def held_out_sample(root: pathlib.Path) -> bytes:
    """SAMPLE_BYTES of held-out text; ASCII files only, so that a cut anywhere is valid UTF-8."""
    low, high = SAMPLE_FILE_SIZE
    chosen = [
        (hashlib.sha256(name.encode()).digest(), text)
        for name, text in source_files(root)
        if is_held_out(name) and text.isascii() and low <= len(text) <= high
    ]
    text = b"".join(text for _, text in sorted(chosen))
    if len(text) < SAMPLE_BYTES:
        raise SystemExit(f"{root}: only {len(text)} held-out bytes, {SAMPLE_BYTES} wanted")
    return text[:SAMPLE_BYTES]
