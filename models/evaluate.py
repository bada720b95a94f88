"""Measures the next-byte accuracy of checkpoints on the held-out text, in windows of 512 and of
4096 bytes.

    python evaluate.py demo/dense demo/hwfa2 demo/hypenet

A window of n bytes has n - 1 predictions, each from the earlier bytes of the window. Both lengths
cover the same text. The full layers of hwfa2 use ReRoPE at both lengths, as in the server.
--reference N also compares the logits of N bytes with golden_reference.py, which computes them
token by token.
"""

import argparse
import json
import math
import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from layers import Decoder

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools/golden"))
from golden_reference import Reference

LENGTHS = (512, 4096)
BATCH_BYTES = 8192
TAIL = 512


def load(directory):
    """Returns the config and the float32 tensors of a checkpoint directory."""
    config = json.loads((directory / "config.json").read_text())
    tensors = load_file(directory / "model.safetensors")
    return config, {name: value.float() for name, value in tensors.items()}


@torch.no_grad()
def measure(model, text, length, full_position):
    """Returns whether each prediction is right, and its loss: two arrays [windows, length - 1]."""
    windows = text[: len(text) // length * length].reshape(-1, length)
    hits, losses = [], []
    for rows in windows.split(max(1, BATCH_BYTES // length)):
        logits = model(rows, full_position)[:, :-1]
        hits.append(logits.argmax(-1) == rows[:, 1:])
        losses.append(F.cross_entropy(logits.mT, rows[:, 1:], reduction="none"))
    return torch.cat(hits).double(), torch.cat(losses).double()


def compare_with_reference(config, tensors, model, text, full_position):
    """Returns the largest difference of a logit between the parallel form and the reference."""
    reference = Reference(config, tensors)
    with torch.no_grad():
        parallel = model(text[None], full_position)[0]
    worst = 0.0
    for token, row in zip(text.tolist(), parallel):
        worst = max(worst, float((reference.step(token) - row).abs().max()))
    return worst


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoints", type=pathlib.Path, nargs="+")
    parser.add_argument("--text", type=pathlib.Path, default=here / "demo" / "heldout.txt")
    parser.add_argument("--limit", type=int, help="how many bytes of the text to use")
    parser.add_argument("--reference", type=int, metavar="N",
                        help="compare the logits of N bytes with the reference; a multiple of 64")
    parser.add_argument("--full-position", choices=["rope", "rerope"],
                        help="position embedding of the full layers of hwfa2")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=JSON", help="config changes")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    text = np.frombuffer(args.text.read_bytes(), dtype=np.uint8)[: args.limit]
    text = torch.from_numpy(text.astype(np.int64))
    for directory in args.checkpoints:
        config, tensors = load(directory)
        config |= {k: json.loads(v) for k, v in (s.split("=", 1) for s in args.set)}
        full_position = args.full_position or config.get("full_position", "rope")
        model = Decoder(config, max(LENGTHS))
        model.load_state_dict(tensors)
        if args.reference:
            worst = compare_with_reference(
                config, tensors, model, text[: args.reference], full_position
            )
            print(f"{directory.name}: max |Δ logit| to the reference {worst:.1e}", flush=True)
        for length in LENGTHS:
            start = time.monotonic()
            hits, losses = measure(model, text, length, full_position)
            line = (
                f"{directory.name}: {length} bytes: accuracy {100 * hits.mean():.2f}%, "
                f"{losses.mean() / math.log(2):.3f} bits a byte"
            )
            if length > TAIL:
                line += f"; last {TAIL} positions: {100 * hits[:, -TAIL:].mean():.2f}%"
            print(f"{line} ({time.monotonic() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
