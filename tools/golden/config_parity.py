"""Compares how Longstream and transformers read config.json, one key at a time.

    python config_parity.py --program build/release/tests/checkpoint_logits [--family NAME ...]
                            [--write docs/config-parity.md]

`make config-parity` runs it. For each family it makes a small config, and variations in which one
key is absent, null, spelled as in older releases, or odd (config_parity_cases.py). transformers
makes a model of each config; its weights get random values and are stored. The program computes the
logits of that checkpoint. Each config must give the same logits in both, or a refusal, or a warning
that names the key. If transformers makes no model, there is nothing to compare. Prints the other
configs and fails if there are any. Takes about 10 minutes on an idle core.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings
import zlib

import numpy as np
import torch
import transformers
from config_parity_cases import ABSENT, cases_of
from config_parity_table import page
from safetensors.torch import save_file
from transformers.core_model_loading import revert_weight_conversion

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "backends/architectures/families"
# gemma3, a gemma3_text beside a vision model, is read with the same code and not compared.
FAMILIES = sorted(
    name
    for source in SOURCES.glob("*.cc")
    for name in re.findall(r'\.model_type = "(\w+)"', source.read_text())
)
TEXT = 200  # tokens
LONG_TEXT = 4300  # more than the windows of 4096 that some classes have
# Values that count here and not in transformers, as docs/checkpoints.md says. The log names them.
INTENDED = [("mpt", "attn_config", "alibi_bias_max", 16)] + [
    (family, "rope_theta", "rope_theta", f"absent in a file of transformers {release}")
    for family in ("cohere", "olmo3")
    for release in ("4.40.0", "4.57.1")
]
TOLERANCE = 1e-3  # of the standard deviation of the logits


class Program:
    """The program checkpoint_logits, which computes the logits of one directory after another."""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def logits(self, directory):
        """Returns the logits or None, the refusal and the warnings."""
        self.process.stdin.write(f"{directory}\n")
        answer = self.process.stdout.readline().rstrip("\n").split("\t")
        if answer[0] == "refused":
            return None, answer[1], answer[2:]
        if answer[0] != "logits":
            raise RuntimeError(f"{directory}: checkpoint_logits ended: {answer}")
        return np.fromfile(directory / "logits.f32", dtype=np.float32), "", answer[1:]


def fill(model, family):
    """Random weights. Embeddings are so small that the epsilon of a norm matters."""
    for name, tensor in model.state_dict().items():
        random = np.random.default_rng(zlib.crc32(name.encode()))
        noise = random.standard_normal(tensor.shape)
        if tensor.ndim == 1 and name.endswith("weight"):
            value = 0.2 * noise + (0.0 if family.startswith("gemma") else 1.0)
            value *= 2.0 if "q_norm" in name else 1.0
        elif tensor.ndim == 1:
            value = 0.2 * noise
        elif "norm" in name:
            value = 1.0 + 0.2 * noise
        elif "embed" in name or "wte" in name:
            value = 2e-3 * noise
        else:
            value = 1.5 * noise / np.sqrt(tensor.shape[-1])
        tensor.copy_(torch.from_numpy(value))


def save(model, directory):
    # The names and shapes of files differ from those of the model if layers have experts.
    stored = revert_weight_conversion(model, model.state_dict())
    tensors = {name: tensor.contiguous() for name, tensor in stored.items()}
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if head.weight.data_ptr() == embedding.weight.data_ptr():
        tensors = {name: tensor for name, tensor in tensors.items() if "lm_head" not in name}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


@torch.no_grad()
def transformers_logits(directory, family, tokens):
    """Returns the logits [T, V], or why there are none. Stores the weights in the directory."""
    try:
        config = transformers.AutoConfig.from_pretrained(directory)
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.float32, attn_implementation="eager",
            experts_implementation="eager",
        ).eval()
        fill(model, family)
        save(model, directory)
        logits = model(torch.from_numpy(tokens)[None].long(), use_cache=False).logits[0].numpy()
    except Exception as error:  # whatever a class raises for a config
        return None, f"{type(error).__name__}: {error}".splitlines()[0]
    return (logits, "") if np.isfinite(logits).all() else (None, "logits that are no numbers")


Result = collections.namedtuple("Result", "kind detail")


def check_sensitivity(family, rows):
    """A small config in which RoPE has no effect would show nothing."""
    kinds = {result.detail for case, result in rows if case.value == "as usual"
             and "[linear]" in case.key and result.kind == "same"}  # fmt: skip
    plain = rows[0][1].detail
    if kinds and plain in kinds:
        sys.exit(f"{family}: the kind linear of RoPE does not change the logits")


def compare(case, family, directory, program):
    """Result.kind: same, refused, warned, no model or DIFFERENT."""
    for name in ("model.safetensors", "logits.f32"):
        (directory / name).unlink(missing_ok=True)
    (directory / "config.json").write_text(json.dumps(case.config))
    vocabulary = case.config.get("vocab_size") or 64
    random = np.random.default_rng(5)
    tokens = random.integers(3, max(4, min(vocabulary, 64)), LONG_TEXT if case.long else TEXT)
    tokens = tokens.astype(np.int32)
    tokens.tofile(directory / "tokens.i32")
    theirs, why = transformers_logits(directory, family, tokens)
    if theirs is None:
        return Result("no model", why)
    ours, refusal, told = program.logits(directory)
    if ours is None:
        return Result("refused", refusal.replace(f"{directory}/", ""))
    ours = ours.reshape(len(tokens), -1)
    if ours.shape != theirs.shape:
        return Result("DIFFERENT", f"shapes {ours.shape} and {theirs.shape}")
    distance = float(np.abs(ours - theirs).max() / theirs.std())
    if distance <= TOLERANCE:
        return Result("same", zlib.crc32(np.round(theirs / theirs.std(), 2).tobytes()))
    changes = case.value if isinstance(case.value, dict) else {case.key: case.value}
    for key, value in changes.items():
        intended = (family, case.key, key, value) in INTENDED
        if intended and any(key in warning for warning in told):
            return Result("warned", told[0].replace(f"{directory}/", ""))
    return Result("DIFFERENT", f"{distance:.1e} of the standard deviation")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--family", action="append")
    parser.add_argument("--write", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    warnings.simplefilter("ignore")
    program = Program(arguments.program)
    results, different = {}, 0
    with tempfile.TemporaryDirectory() as scratch:
        for family in arguments.family or FAMILIES:
            results[family] = []
            for case in cases_of(family, FAMILIES):
                result = compare(case, family, pathlib.Path(scratch), program)
                results[family].append((case, result))
                if result.kind == "DIFFERENT":
                    value = "absent" if case.value == ABSENT else json.dumps(case.value)
                    print(f"{family}: {case.key} = {value}: {result.detail}", flush=True)
            counts = collections.Counter(result.kind for _, result in results[family])
            different += counts["DIFFERENT"]
            if results[family][0][1].kind != "same":
                sys.exit(f"{family}: the small config itself: {results[family][0][1]}")
            check_sensitivity(family, results[family])
            print(f"{family}: {dict(counts)}", flush=True)
    if arguments.write and not arguments.family:
        text = page(results, FAMILIES, transformers.__version__, TEXT, LONG_TEXT, TOLERANCE)
        arguments.write.write_text(text)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
