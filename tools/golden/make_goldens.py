"""Writes tests/golden: small random checkpoints and the logits that a backend must compute.

    python make_goldens.py [--out ../../tests/golden] [--case NAME ...]

The weights are rounded to the stored type first, and the logits are computed from the rounded
values. For public models transformers computes them (eager attention, float32), for the others
golden_reference.py (float64, token by token). golden_reference.py also computes the cases of
transformers, and this program fails if the two disagree.
"""

import argparse
import json
import pathlib
import shutil
import tempfile
import zlib

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from golden_cases import CASES
from golden_reference import POST_NORM, Reference, hypenet_mixers

LENGTH = 288  # Number of tokens of each prompt.
GREEDY = 24  # Number of tokens that are generated greedily after the prompt.
ROW_STEP = 15
GREEDY_MARGIN = 0.02  # Least distance of the best two logits, so that rounding cannot swap them.
REFERENCE_TOLERANCE = 1e-4
# The least and greatest standard deviation of the logits. The absolute tolerance of the parity
# tests is for logits of std ≈ 1.
LOGIT_STD = (0.9, 1.15)
QK_PROJECTIONS = ("q_proj.weight", "k_proj.weight")


def attention_shapes(heads, kv_heads, width, input_width):
    return {
        "q_proj.weight": (heads * width, input_width),
        "k_proj.weight": (kv_heads * width, input_width),
        "v_proj.weight": (kv_heads * width, input_width),
        "o_proj.weight": (input_width, heads * width),
    }


def mixer_shapes(config, layer):
    """Names and shapes of one layer's self_attn tensors."""
    d, heads, kv_heads = (
        config[key] for key in ("hidden_size", "num_attention_heads", "num_key_value_heads")
    )
    width = config.get("head_dim", d // heads)
    norms = {"q_norm.weight": (width,), "k_norm.weight": (width,)}
    attention = attention_shapes(heads, kv_heads, width, d)
    kind = config["model_type"]
    if kind == "phi3":
        fused = (heads + 2 * kv_heads) * width
        return {"qkv_proj.weight": (fused, d), "o_proj.weight": attention["o_proj.weight"]}
    if kind in ("bloom", "qwen2") or config.get("attention_bias"):
        without = ("o_proj.weight",) if kind in ("glm", "qwen2") else ()
        biased = {n: s for n, s in attention.items() if n not in without}
        attention |= {n.replace("weight", "bias"): (s[0],) for n, s in biased.items()}
    if kind == "afmoe":
        return attention | norms | {"o_gate.weight": (heads * width, d)}
    if kind == "cohere" and config.get("use_qk_norm"):
        each = {"q_norm.weight": (heads, width), "k_norm.weight": (kv_heads, width)}
        return attention | each
    if kind in ("bloom", "cohere", "cohere2", "gemma", "gemma2", "glm", "granite", "mpt",
                 "llama", "mistral", "qwen2", "smollm3"):
        return attention
    if kind in ("exaone4", "gemma3_text", "qwen3"):
        return attention | norms
    if kind in ("olmo2", "olmo3"):
        whole = {"q_norm.weight": (heads * width,), "k_norm.weight": (kv_heads * width,)}
        return attention | whole
    if kind == "hwfa2":
        return attention | (norms if config.get("use_qk_norm", True) else {})
    mixer = hypenet_mixers(config)[layer]
    if mixer == "attn" and config.get("hypenet_profile") == "chunked":
        return attention | (norms if config["use_qk_norm"] else {})
    if mixer == "attn":
        gate = {"o_gate.weight": (heads * width, d)}
        norms = norms if config.get("use_qk_norm", True) else {}
        return attention | norms | (gate if config.get("attn_use_output_gate") else {})
    if mixer == "gated-rnn":
        state = config["rnn_state_dim"]
        return {
            "q_proj.weight": (state, d),
            "k_proj.weight": (state, d),
            "v_proj.weight": (d, d),
            "f_proj.weight": (state, d),
            "f_proj.bias": (state,),
            "o_proj.weight": (d, d),
        }
    if not mixer.startswith("lightning"):
        raise ValueError(f"the shapes of the tensors of the mixer {mixer} are not known here")
    heads, width = config["lightning_nh"], config["lightning_head_dim"]
    lightning = attention_shapes(heads, config["lightning_nkv"], width, d)
    if config.get("lightning_use_qk_norm"):
        lightning |= {"q_norm.weight": (width,), "k_norm.weight": (width,)}
    if config.get("lightning_use_output_norm"):
        lightning["o_norm.weight"] = (heads * width,)
    if config.get("lightning_use_output_gate"):
        lightning["z_proj.weight"] = (heads * width, d)
    return lightning


def gau_shapes(config):
    """Names and shapes of the tensors of a layer that is a gated attention unit."""
    d, s = config["hidden_size"], config.get("gau_key_dim", 128)
    e = config.get("gau_expansion", 2 * d)
    affine = {f"gau.{name}_{part}": (s,) for name in "qk" for part in ("scale", "offset")}
    return affine | {
        "gau.in_proj.weight": (2 * e + s, d),
        "gau.out_proj.weight": (d, e),
        "post_attention_layernorm.weight": (d,),
    }


def tensor_shapes(config):
    d, ff, vocab = config["hidden_size"], config.get("intermediate_size"), config["vocab_size"]
    shapes = {"model.embed_tokens.weight": (vocab, d), "model.norm.weight": (d,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocab, d)
    if config.get("hypenet_profile") == "chunked":
        shapes["model.chunk_embed.weight"] = (config["num_chunks"], d)
    if config["model_type"] == "bloom":
        shapes["model.embed_norm.weight"] = shapes["model.embed_norm.bias"] = (d,)
        shapes["model.norm.bias"] = (d,)
    for layer in range(config["num_hidden_layers"]):
        if config.get("block_type") == "gau":
            unit = gau_shapes(config).items()
            shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in unit}
            shapes.pop("model.norm.weight", None)
            continue
        mixer = mixer_shapes(config, layer)
        block = {f"self_attn.{name}": shape for name, shape in mixer.items()} | {
            "post_attention_layernorm.weight": (d,),
            "mlp.down_proj.weight": (d, ff),
        }
        if config["model_type"] in ("afmoe", "gemma2", "gemma3_text"):
            block["pre_feedforward_layernorm.weight"] = (d,)
            block["post_feedforward_layernorm.weight"] = (d,)
        last = config["model_type"] in POST_NORM
        block["post_feedforward_layernorm.weight" if last else "input_layernorm.weight"] = (d,)
        if config["model_type"].startswith("cohere"):
            del block["post_attention_layernorm.weight"]
        if config["model_type"] in ("glm", "phi3"):
            block["mlp.gate_up_proj.weight"] = (2 * ff, d)
        elif config["model_type"] in ("bloom", "mpt"):
            block["mlp.up_proj.weight"] = (ff, d)
        else:
            block |= {"mlp.gate_proj.weight": (ff, d), "mlp.up_proj.weight": (ff, d)}
        if config["model_type"] == "bloom":
            norms = [name for name in block if name.endswith("norm.weight")]
            block |= {name.replace("weight", "bias"): (d,) for name in norms}
        if config.get("mlp_bias") or config["model_type"] == "bloom":
            biased = [name for name in block if name.startswith("mlp.")]
            block |= {name.replace("weight", "bias"): block[name][:1] for name in biased}
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in block.items()}
    return shapes


def random_tensors(config, dtype, random):
    """Weights for which every part of the model influences the logits: logits of std ≈ 1, scores of
    std ≈ 2."""
    tensors, shapes = {}, tensor_shapes(config)
    for name, shape in sorted(shapes.items()):
        noise = random.standard_normal(shape)
        if name.endswith("norm.weight"):
            value = 1.0 + 0.2 * noise
            if config["model_type"].startswith("gemma"):
                value -= 1.0  # The family stores the factor of a norm minus one.
            if name.endswith("q_norm.weight"):
                value *= 2.0
        elif name.endswith("f_proj.bias"):
            value = 2.5 + noise  # With such gates the state decays slowly and lasts across chunks.
        elif name.endswith("norm.bias"):
            value = 0.1 * noise
        elif name.endswith((".bias", "_offset")) or "chunk_embed" in name:
            value = 0.5 * noise
        elif name.endswith("_scale"):
            value = 2.0 + 0.5 * noise
        else:
            value = noise / np.sqrt(shape[1])
            mixer, _, matrix = name.partition("self_attn.")
            if f"{mixer}self_attn.f_proj.bias" in shapes and matrix in QK_PROJECTIONS:
                value *= 0.3  # The output is a sum over all past tokens and would be too large.
            elif matrix == "q_proj.weight" and f"{mixer}self_attn.q_norm.weight" not in shapes:
                value *= 1.5
            elif matrix == "qkv_proj.weight":
                value[: config["hidden_size"]] *= 1.5  # The rows of q.
            elif name.endswith("gau.out_proj.weight"):
                value *= 4.0  # The input of this product is a product of two SiLUs and is small.
            if name == "lm_head.weight":
                value *= config.get("logits_scaling", 1.0) / config.get("logit_scale", 1.0)
        tensors[name] = torch.from_numpy(value).to(getattr(torch, dtype))
    return tensors


def save_directory(directory, case, stored):
    """Writes config.json and the weights, in one file or in shards as transformers writes them."""
    config, tensors = dict(stored[0]), stored[1]
    if case.get("shards"):
        model = transformers_model(config, tensors, getattr(torch, case["dtype"]))
        model.save_pretrained(directory, max_shard_size="20KB")
        (directory / "generation_config.json").unlink(missing_ok=True)
        return
    config["torch_dtype"] = case["dtype"]
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    if "overrides" in case:
        text = json.dumps(case["overrides"], indent=2) + "\n"
        (directory / "overrides.json").write_text(text)


def transformers_model(config, tensors, dtype):
    import transformers

    fields = {k: v for k, v in config.items() if k not in ("architectures", "model_type")}
    # transformers 5 expects θ among the rope_parameters.
    theta = fields.pop("rope_theta")
    fields["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
    family = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[config["model_type"]]
    settings = getattr(transformers, family + "Config")(**fields)
    settings._attn_implementation = "eager"
    model = getattr(transformers, family + "ForCausalLM")(settings).to(dtype).eval()
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    tied = ["lm_head.weight"] if config["tie_word_embeddings"] else []
    assert missing == tied and not unexpected, (missing, unexpected)
    return model


@torch.no_grad()
def transformers_logits(directory, case, tokens):
    """Returns the logits [T, V] that transformers computes from the files in the directory, or from
    the decoded weights if they are quantised."""
    import transformers

    if "decode" in case:
        config, tensors = load_directory(directory, case)
        with tempfile.TemporaryDirectory() as decoded:
            (pathlib.Path(decoded) / "config.json").write_text(json.dumps(config))
            exact = {name: tensor.float() for name, tensor in tensors.items()}
            save_file(exact, pathlib.Path(decoded) / "model.safetensors", metadata={"format": "pt"})
            return transformers_logits(pathlib.Path(decoded), {}, tokens)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    return model(torch.from_numpy(tokens)[None].long()).logits[0]


def load_directory(directory, case):
    """Returns the config and the tensors; weights that are quantised are decoded."""
    config = json.loads((directory / "config.json").read_text())
    tensors = {}
    for path in sorted(directory.glob("model*.safetensors")):
        tensors |= load_file(path)
    if "decode" in case:
        del config["quantization_config"]
        tensors = {name: t.contiguous() for name, t in case["decode"](tensors).items()}
    return config, tensors


def reference_run(directory, case, prompt):
    """Returns the logits [T + n, V] of prompt and greedy continuation, the continuation, and its
    least margin between the best two logits."""
    config, tensors = load_directory(directory, case)
    model = Reference(config, tensors, case.get("overrides"), context=LENGTH + GREEDY)
    rows = [model.step(int(token)) for token in prompt]
    greedy, margin = [], float("inf")
    for _ in range(GREEDY):
        best = torch.topk(rows[-1], 2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        greedy.append(int(best.indices[0]))
        rows.append(model.step(greedy[-1]))
    return torch.stack(rows), np.array(greedy, dtype=np.int32), margin


def kept_rows(case):
    rows = set(range(0, LENGTH, ROW_STEP)) | {0, 1, 2, LENGTH - 2, LENGTH - 1}
    for edge in case.get("edges", []):
        rows |= {edge - 1, edge, edge + 1}
    return sorted(row for row in rows if row < LENGTH)


def write_case(name, case, out):
    directory = out / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    random = np.random.default_rng(zlib.crc32(name.encode()))
    config = case["config"]
    tensors = random_tensors(config, case["dtype"], random)
    save_directory(directory, case, case.get("store", lambda *stored: stored)(config, tensors))
    margin = 0.0
    while margin < GREEDY_MARGIN:
        tokens = random.integers(0, config["vocab_size"], LENGTH).astype(np.int32)
        logits, greedy, margin = reference_run(directory, case, tokens)
    line = f"{name}: std {logits.std():.2f}, greedy margin {margin:.3f}"
    if not LOGIT_STD[0] <= logits.std() <= LOGIT_STD[1]:
        raise SystemExit(f"{line}: the std is not within {LOGIT_STD}")
    if case.get("source") == "transformers":
        theirs = transformers_logits(directory, case, np.concatenate([tokens, greedy]))
        worst = float((theirs - logits).abs().max())
        line += f", transformers against the reference: max |Δ| {worst:.1e}"
        if worst > REFERENCE_TOLERANCE:
            raise SystemExit(f"{line}: more than {REFERENCE_TOLERANCE}")
        logits = theirs
    rows = np.array(kept_rows(case), dtype=np.int32)
    save_file(
        {
            "tokens": torch.from_numpy(tokens),
            "rows": torch.from_numpy(rows),
            "logits": logits[rows].float().contiguous(),
            "greedy": torch.from_numpy(greedy),
        },
        directory / "golden.safetensors",
    )
    size = sum(path.stat().st_size for path in directory.iterdir())
    print(f"{line}, {size / 1024:.0f} KiB", flush=True)
    return size


def write_table(readme):
    """Replaces the rows of the table of cases in tests/golden/README.md; keeps all other lines."""
    lines = readme.read_text(encoding="utf-8").splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("|---")) + 1
    end = next(i for i in range(begin, len(lines)) if not lines[i].startswith("|"))
    lines[begin:end] = [
        f"| `{name}` | {case['dtype']} | {case.get('source', 'reference')} | {case['note']} |"
        for name, case in CASES.items()
    ]
    readme.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests" / "golden")
    parser.add_argument("--case", nargs="*", choices=sorted(CASES), default=list(CASES))
    args = parser.parse_args()
    torch.set_num_threads(1)  # Sums then have the same order on every machine.
    total = sum(write_case(name, CASES[name], args.out) for name in args.case)
    if (readme := args.out / "README.md").exists():
        write_table(readme)
    print(f"{len(args.case)} cases, {total / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
