"""Writes tests/golden/gguf: checkpoints of tests/golden as GGUF files, written by the package
`gguf`, and what must come out of them.

    PYTHONPATH=.. python gguf_goldens.py [--out ../../../tests/golden/gguf] [--work DIR]

- <case>.gguf: the checkpoint tests/golden/<case>, converted as llama.cpp converts it. The logits of
  tests/golden/<case> must come out.
- <name>.gguf beside <name>.safetensors: other configs or types of tensors. <name>.safetensors has
  the same arrays as a golden.safetensors. transformers computes them from the numbers that
  gguf.quants makes of the file's blocks.
- blocks.safetensors: for each type, random blocks (<type>.blocks) and their numbers
  (<type>.numbers), which gguf.quants computes.

The program also opens each file with transformers' own reader of GGUF, where this reader knows the
architecture, and prints the largest difference of the logits.
"""

import argparse
import json
import pathlib
import tempfile
import zlib

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Type
from safetensors.torch import save_file

from gguf_conversion import FAMILIES, add_config, converted_tensors, permute
from make_goldens import GREEDY, LENGTH, load_directory, random_tensors

GOLDEN = pathlib.Path(__file__).resolve().parents[3] / "tests" / "golden"
# The checkpoints whose config llama.cpp's metadata can express.
UNCHANGED = ("llama", "llama_llama3", "qwen2", "qwen3", "gemma", "phi3", "phi3_longrope", "granite",
             "olmo2", "olmo3", "exaone4", "cohere_qk_norm", "cohere2")
# llama.cpp has these numbers in its code and not in the metadata.
CHANGED = {
    "gemma2": {"query_pre_attn_scalar": "head_dim"},
    "gemma3_text": {"query_pre_attn_scalar": "head_dim"},
    "smollm3": {"no_rope_layer_interval": 4},
}
BASE = {
    "hidden_act": "silu", "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": False, "num_hidden_layers": 1,
    "bos_token_id": 0, "eos_token_id": 0,
}
# Types by the last two parts of a tensor's name; F32 for all others. Rows of blocks of type K have a
# multiple of 256 elements.
QUANTISED = {
    "llama_small_blocks": (
        BASE | {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 48,
                "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
                "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 2},
        {"token_embd.weight": Type.Q8_0, "output.weight": Type.Q4_0, "attn_q.weight": Type.Q4_0,
         "attn_k.weight": Type.Q4_0, "attn_v.weight": Type.Q5_1, "attn_output.weight": Type.Q5_0,
         "ffn_gate.weight": Type.Q4_1, "ffn_up.weight": Type.IQ4_NL, "ffn_down.weight": Type.Q8_0}),
    "llama_k_blocks": (
        BASE | {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32,
                "hidden_size": 256, "intermediate_size": 32, "num_attention_heads": 2,
                "num_key_value_heads": 1, "head_dim": 16},
        {"token_embd.weight": Type.Q4_K, "output.weight": Type.Q6_K, "attn_q.weight": Type.Q4_K,
         "attn_k.weight": Type.Q3_K, "attn_v.weight": Type.Q6_K, "attn_output.weight": Type.BF16,
         "ffn_gate.weight": Type.Q5_K, "ffn_up.weight": Type.Q2_K, "ffn_down.weight": Type.F16}),
}
BLOCK_TYPES = (Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K, Type.Q3_K,
               Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_NL, Type.IQ4_XS)
# The places of the f16 scales in a block: d, and m if there is one.
SCALES = {Type.Q2_K: (80, 82), Type.Q3_K: (108,), Type.Q6_K: (208,), Type.Q4_1: (0, 2),
          Type.Q5_1: (0, 2), Type.Q4_K: (0, 2), Type.Q5_K: (0, 2)}


def put_scale(blocks, place, scale):
    blocks[..., place:place + 2] = np.asarray(scale, dtype="<f2")[..., None].view(np.uint8)


def random_blocks(kind, rows, columns, std, random):
    """uint8 [rows, bytes]: random blocks whose numbers have about this standard deviation and the
    mean 0."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (rows, columns // elements, size), dtype=np.uint8)
    if kind == Type.Q6_K:  # scales with a sign, and large ones are rare
        blocks[..., 192:208] = random.integers(-40, 41, blocks[..., 192:208].shape).astype(np.int8)
    if kind == Type.Q8_0:  # no program writes -128
        blocks[..., 2:][blocks[..., 2:] == 128] = 0
    places = SCALES.get(kind, (0,))
    for place in places:
        put_scale(blocks, place, np.ones(blocks.shape[:2]))
    flat = blocks.reshape(rows, -1)
    if len(places) == 2:
        # The numbers are d a - m b (K) or d a + m: with m 0 they are a, which gives the mean.
        put_scale(blocks, places[1], np.zeros(blocks.shape[:2]))
        mean = gguf.quants.dequantize(flat, kind).mean()
        minimum = 31.5 if elements == 256 and kind != Type.Q2_K else 7.5 if elements == 256 else -1
        put_scale(blocks, places[1], np.full(blocks.shape[:2], mean / minimum))
    scale = std / gguf.quants.dequantize(flat, kind).std()
    factors = scale * random.uniform(0.8, 1.2, blocks.shape[:2])
    ratio = blocks[0, 0, places[-1]:places[-1] + 2].copy().view("<f2")[0] if len(places) == 2 else 0
    put_scale(blocks, places[0], factors)
    if len(places) == 2:
        put_scale(blocks, places[1], factors * float(ratio))
    return flat


def write_file(path, config, arrays):
    """arrays: {GGUF name: (array, type)}. Alignment, padding and offsets are the package's."""
    writer = gguf.GGUFWriter(path, FAMILIES[config["model_type"]])
    writer.add_type("model")
    add_config(writer, config)
    for name, (array, kind) in arrays.items():
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def plain_arrays(config, tensors, dtype):
    """Vectors as F32, as llama.cpp stores them, and matrices in their own type."""
    kind = {torch.float32: Type.F32, torch.float16: Type.F16, torch.bfloat16: Type.BF16}[dtype]
    arrays = converted_tensors(config, {n: t.float().numpy() for n, t in tensors.items()})
    result = {}
    for name, value in arrays.items():
        own = kind if value.ndim > 1 and not name.endswith("norm.weight") else Type.F32
        result[name] = (gguf.quants.quantize(np.ascontiguousarray(value), own), own)
    return result


def write_golden(path, directory, config, random):
    """Logits of transformers for a random prompt, as in make_goldens.py."""
    model = open_model(directory)
    margin = 0.0
    while margin < 0.02:
        tokens = random.integers(0, config["vocab_size"], LENGTH).astype(np.int32)
        greedy, margin = [], float("inf")
        for _ in range(GREEDY):
            read = np.concatenate([tokens, np.array(greedy, dtype=np.int32)])
            best = torch.topk(logits_of(model, read)[-1], 2)
            margin = min(margin, float(best.values[0] - best.values[1]))
            greedy.append(int(best.indices[0]))
    greedy = np.array(greedy, dtype=np.int32)
    logits = logits_of(model, np.concatenate([tokens, greedy]))
    rows = np.array(sorted({0, 1, 2, LENGTH - 2, LENGTH - 1} | set(range(0, LENGTH, 30))),
                    dtype=np.int32)
    save_file({"tokens": torch.from_numpy(tokens), "rows": torch.from_numpy(rows),
               "logits": logits[rows].contiguous(), "greedy": torch.from_numpy(greedy)}, path)
    return f"std {logits.std():.2f}, greedy margin {margin:.3f}"


def open_model(directory, **settings):
    return transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", **settings).eval()


@torch.no_grad()
def logits_of(model, tokens):
    return model(torch.from_numpy(tokens)[None].long()).logits[0]


def save_hugging_face(directory, config, tensors):
    (directory / "config.json").write_text(json.dumps(config | {"torch_dtype": "float32"}))
    save_file({n: t.float().contiguous() for n, t in tensors.items()},
              directory / "model.safetensors", metadata={"format": "pt"})


def compare(path, directory):
    """What transformers' own reader of GGUF makes of the file."""
    tokens = np.arange(20, dtype=np.int32) % 32
    try:
        logits = logits_of(open_model(path.parent, gguf_file=path.name), tokens)
    except Exception as error:  # noqa: BLE001 - it knows some architectures only
        return f"not read ({type(error).__name__}: {str(error)[:60]})"
    return f"{float((logits - logits_of(open_model(directory), tokens)).abs().max()):.1e}"


def write_changed(name, changes, out, work):
    config, tensors = load_directory(GOLDEN / name)
    changes = {k: config[v] if isinstance(v, str) else v for k, v in changes.items()}
    config |= changes
    dtype = next(iter(tensors.values())).dtype
    write_file(out / f"{name}.gguf", config, plain_arrays(config, tensors, dtype))
    save_hugging_face(work, config, tensors)
    random = np.random.default_rng(zlib.crc32(name.encode()))
    return write_golden(out / f"{name}.safetensors", work, config, random)


def write_quantised(name, config, types, out, work):
    random = np.random.default_rng(zlib.crc32(name.encode()))
    tensors = random_tensors(config, "float32", random)
    arrays = converted_tensors(config, {n: t.numpy() for n, t in tensors.items()})
    stored, numbers = {}, {}
    for gguf_name, value in arrays.items():
        kind = types.get(".".join(gguf_name.split(".")[-2:]), Type.F32)
        if kind in BLOCK_TYPES:
            data = random_blocks(kind, *value.shape, value.std(), random)
        else:
            data = gguf.quants.quantize(np.ascontiguousarray(value), kind)
        stored[gguf_name] = (data, kind)
        numbers[gguf_name] = gguf.quants.dequantize(data, kind).reshape(value.shape)
    write_file(out / f"{name}.gguf", config, stored)
    back = {}
    for hugging_face in tensors:
        # A permutation of names: converting one tensor alone gives its name in the file.
        gguf_name = next(iter(converted_tensors(config, {hugging_face: tensors[hugging_face].numpy()})))
        value = numbers[gguf_name]
        for part, heads in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
            if part in hugging_face:  # permuting the halves of D rows D / 2 times ... undo by index
                order = permute(np.arange(value.shape[0]), config[heads])
                value = value[np.argsort(order)]
        back[hugging_face] = torch.from_numpy(np.ascontiguousarray(value))
    save_hugging_face(work, config, back)
    return write_golden(out / f"{name}.safetensors", work, config, random)


def write_blocks(path):
    random = np.random.default_rng(zlib.crc32(b"blocks"))
    arrays = {}
    for kind in BLOCK_TYPES:
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (1024 // elements, size), dtype=np.uint8)
        for place in SCALES.get(kind, (0,)):
            scale = random.standard_normal(len(blocks)) * 2.0 ** random.integers(-20, 8, len(blocks))
            put_scale(blocks, place, scale)
        arrays[f"{kind.name}.blocks"] = torch.from_numpy(blocks)
        numbers = gguf.quants.dequantize(blocks, kind)
        arrays[f"{kind.name}.numbers"] = torch.from_numpy(np.ascontiguousarray(numbers))
    save_file(arrays, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN / "gguf")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    write_blocks(args.out / "blocks.safetensors")
    for name in UNCHANGED:
        config, tensors = load_directory(GOLDEN / name)
        path = args.out / f"{name}.gguf"
        write_file(path, config, plain_arrays(config, tensors, next(iter(tensors.values())).dtype))
        print(f"{name}: transformers' reader: {compare(path, GOLDEN / name)}", flush=True)
    for name, case in [*CHANGED.items(), *QUANTISED.items()]:
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)
            if name in CHANGED:
                line = write_changed(name, case, args.out, work)
            else:
                line = write_quantised(name, *case, args.out, work)
            path = args.out / f"{name}.gguf"
            print(f"{name}: {line}, transformers' reader: {compare(path, work)}", flush=True)


if __name__ == "__main__":
    main()
