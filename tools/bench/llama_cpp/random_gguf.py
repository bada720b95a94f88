#!/usr/bin/env python3
"""Writes a model with random bf16 weights for llama.cpp. Its shape is one of model_bench's shapes.

    random_gguf.py LLAMA_CPP 0.6b MODEL.gguf

The architecture is qwen3. The tokens are the bytes and invented words; they are only used by id.
Needs numpy, and the package gguf of LLAMA_CPP, which is a checkout of llama.cpp.
"""

import argparse
import pathlib
import sys

SHAPES = {  # layers, width, heads, key heads, width of a head, width of the MLP, vocabulary
    "0.6b": (28, 1024, 16, 8, 128, 3072, 151936),
    "200m": (24, 768, 12, 12, 64, 2048, 32000),
}
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # token types of GGUF


def write(gguf, numpy, shape, path):
    layers, width, heads, key_heads, head_width, mlp_width, vocabulary = SHAPES[shape]
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_block_count(layers)
    writer.add_context_length(1 << 16)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(mlp_width)
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_key_length(head_width)
    writer.add_value_length(head_width)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)

    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    invented = range(len(tokens), vocabulary)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens + [f"w{token}" for token in invented])
    writer.add_token_scores([-float(token) for token in range(vocabulary)])
    writer.add_token_types(types + [NORMAL] * len(invented))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    draw = numpy.random.default_rng(1)

    def matrix(name, rows, columns):
        numbers = draw.standard_normal((rows, columns), dtype=numpy.float32) * 0.02
        halves = (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16)
        writer.add_tensor(name, halves.view(numpy.uint8),
                          raw_dtype=gguf.GGMLQuantizationType.BF16)

    def ones(name, size):
        writer.add_tensor(name, numpy.ones(size, dtype=numpy.float32))

    matrix("token_embd.weight", vocabulary, width)  # also used as the head
    ones("output_norm.weight", width)
    for layer in range(layers):
        name = lambda what, layer=layer: f"blk.{layer}.{what}.weight"
        ones(name("attn_norm"), width)
        ones(name("ffn_norm"), width)
        ones(name("attn_q_norm"), head_width)
        ones(name("attn_k_norm"), head_width)
        matrix(name("attn_q"), heads * head_width, width)
        matrix(name("attn_k"), key_heads * head_width, width)
        matrix(name("attn_v"), key_heads * head_width, width)
        matrix(name("attn_output"), width, heads * head_width)
        matrix(name("ffn_gate"), mlp_width, width)
        matrix(name("ffn_up"), mlp_width, width)
        matrix(name("ffn_down"), width, mlp_width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_cpp", type=pathlib.Path)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("model", type=pathlib.Path)
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.llama_cpp / "gguf-py"))
    import gguf  # pylint: disable=import-outside-toplevel
    import numpy  # pylint: disable=import-outside-toplevel
    write(gguf, numpy, arguments.shape, arguments.model)


if __name__ == "__main__":
    main()
