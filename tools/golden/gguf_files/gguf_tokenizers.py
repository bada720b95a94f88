"""Writes tests/golden/gguf/tokenizers: tokenizers of tests/golden/tokenizer in the metadata of GGUF
files, as llama.cpp's conversion writes them. Their ids must be those of the tokenizer that was
converted (tests/golden/tokenizer/<name>/cases.json).

    PYTHONPATH=.. python gguf_tokenizers.py [--out ../../../tests/golden/gguf/tokenizers]

It also writes tests/golden/gguf/served/served.gguf, a whole model: random weights in blocks of the
type Q8_0, the tokenizer of qwen3 and chat templates.
"""

import argparse
import json
import pathlib

import gguf
import numpy as np
import sentencepiece
from gguf import TokenType
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, pre_tokenizers

from gguf_conversion import add_config, converted_tensors
from make_goldens import random_tensors

GOLDEN = pathlib.Path(__file__).resolve().parents[3] / "tests" / "golden"
# The names that the conversion gives to the splits of these tokenizers.
BYTE_LEVEL = {
    "llama3": "llama-bpe", "qwen3": "qwen2", "gpt2": "gpt-2", "cohere2": "command-r",
    "exaone4": "exaone4", "tekken": "tekken", "olmo3": "dbrx", "gpt_oss": "gpt-4o",
}
# Not spm_mistral: the metadata cannot say that its texts get a space at the beginning only
# ("legacy": false).
SENTENCE_PIECE = ("spm_llama", "spm_gemma")
DEFAULT_PATTERNS = (
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
)
TEMPLATE = "{% for m in messages %}{{ bos_token }}{{ m['content'] }}{{ eos_token }}{% endfor %}"
TOOL_TEMPLATE = "{{ tools | length }}"


def looks_special(text):
    """The conversion takes these for control tokens, whatever their flag says."""
    return text.startswith("<|") and text.endswith("|>")


def write_default(path):
    """The split "default", which llama.cpp takes for files that name none (src/llama-vocab.cpp), with
    the vocabulary of gpt2, and the ids of the package tokenizers for these patterns."""
    source = GOLDEN / "tokenizer" / "gpt2"
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in DEFAULT_PATTERNS]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    cases = []
    for text in [case[0] for case in json.loads((source / "cases.json").read_text())["encode"]]:
        cases.append([text])
        for as_text in (False, True):
            tokenizer.encode_special_tokens = as_text
            cases[-1].append(tokenizer.encode(text, add_special_tokens=False).ids)
    decode = json.loads((source / "cases.json").read_text())["decode"]
    text = json.dumps({"encode": cases[::3], "decode": decode[:30]}, ensure_ascii=False)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    writer = gguf.GGUFWriter(path, "llama")
    add_byte_level(writer, "gpt2", pre=None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def add_byte_level(writer, name, pre=""):
    tokenizer = json.loads((GOLDEN / "tokenizer" / name / "tokenizer.json").read_text())
    by_id = {i: (text, TokenType.NORMAL) for text, i in tokenizer["model"]["vocab"].items()}
    for token in tokenizer["added_tokens"]:
        special = token["special"] or looks_special(token["content"])
        kind = TokenType.CONTROL if special else TokenType.USER_DEFINED
        by_id[token["id"]] = (token["content"], kind)
    size = max(by_id) + 3  # a model's vocabulary is often larger
    tokens = [by_id.get(i, (f"[PAD{i}]", TokenType.UNUSED)) for i in range(size)]
    writer.vocabulary = size
    writer.add_tokenizer_model("gpt2")
    if pre is not None:
        writer.add_tokenizer_pre(BYTE_LEVEL[name])
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_types([kind for _, kind in tokens])
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    writer.add_token_merges([merge for merge in merges if not merge.startswith("#version")])
    control = [i for i, (_, kind) in enumerate(tokens) if kind == TokenType.CONTROL]
    if control:
        writer.add_bos_token_id(control[0])
        writer.add_eos_token_id(control[-1])


def add_sentence_piece(writer, name):
    directory = GOLDEN / "tokenizer" / name
    model = sentencepiece.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
    config = json.loads((directory / "tokenizer_config.json").read_text())
    added = {int(i): token for i, token in config.get("added_tokens_decoder", {}).items()}
    size = max([model.vocab_size(), *[i + 1 for i in added]])
    tokens = [f"[PAD{i}]" for i in range(size)]
    scores, kinds = [-10000.0] * size, [TokenType.UNUSED] * size
    for i in range(model.vocab_size()):
        tokens[i], scores[i], kinds[i] = model.IdToPiece(i), model.GetScore(i), TokenType.NORMAL
        for kind, is_kind in ((TokenType.UNKNOWN, model.IsUnknown), (TokenType.CONTROL, model.IsControl),
                              (TokenType.UNUSED, model.IsUnused), (TokenType.BYTE, model.IsByte)):
            if is_kind(i):
                kinds[i] = kind
                break
    # The conversion does not see which pieces are user-defined symbols. Gemma's
    # tokenizer_config.json lists them as added tokens.
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.serialized_model_proto())
    for i, piece in enumerate(proto.pieces):
        if piece.type == piece.USER_DEFINED:
            added[i] = {"content": piece.piece}
    for i, token in added.items():
        special = token.get("special") or looks_special(token["content"])
        tokens[i], scores[i] = token["content"].replace("\u2581", " "), -1000.0
        kinds[i] = TokenType.CONTROL if special else TokenType.USER_DEFINED
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(model.bos_id())
    writer.add_eos_token_id(model.eos_id())
    writer.add_unk_token_id(model.unk_id())
    if name == "spm_gemma":
        writer.add_add_space_prefix(False)


def add_model(writer):
    config = {"model_type": "qwen2", "vocab_size": writer.vocabulary, "hidden_size": 32,
              "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
              "num_key_value_heads": 1, "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
              "rope_theta": 10000.0, "tie_word_embeddings": True}
    random = np.random.default_rng(1)
    add_config(writer, config)
    tensors = random_tensors(config, "float32", random)
    arrays = converted_tensors(config, {name: t.numpy() for name, t in tensors.items()})
    for name, value in arrays.items():
        kind = gguf.GGMLQuantizationType.Q8_0 if value.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(value, kind), raw_dtype=kind)


def write_served(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_type("model")
    add_byte_level(writer, "qwen3")
    add_model(writer)
    writer.add_chat_template([{"name": "default", "template": TEMPLATE},
                              {"name": "tool_use", "template": TOOL_TEMPLATE}])
    writer.add_float32("general.sampling.temp", 0.7)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN / "gguf" / "tokenizers")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    write_default(args.out / "default.gguf")
    write_served(args.out.parent / "served" / "served.gguf")
    for name in (*BYTE_LEVEL, *SENTENCE_PIECE):
        writer = gguf.GGUFWriter(args.out / f"{name}.gguf", "llama")
        if name in BYTE_LEVEL:
            add_byte_level(writer, name)
        else:
            add_sentence_piece(writer, name)
        writer.add_chat_template(
            [{"name": "default", "template": TEMPLATE}, {"name": "tool_use", "template": TOOL_TEMPLATE}]
            if name == "qwen3" else TEMPLATE)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()


if __name__ == "__main__":
    main()
