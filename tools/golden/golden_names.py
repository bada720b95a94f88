"""Maps a family's names of keys and tensors to Llama's names, which golden_reference.py uses."""

import itertools

import torch

# Gemma 3's config class gives these values to keys that its releases omit.
GEMMA3_SILENT = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131072,
}

# Pairs of prefixes of tensor names: the family's, and the usual one. If one name is the beginning
# of another, the longer name comes first.
BLOOM = [
    ("transformer.word_embeddings_layernorm.", "model.embed_norm."),
    ("transformer.word_embeddings.", "model.embed_tokens."),
    ("transformer.ln_f.", "model.norm."),
    ("transformer.h.", "model.layers."),
    ("self_attention.query_key_value.", "self_attn.qkv_proj."),
    ("self_attention.dense.", "self_attn.o_proj."),
    ("mlp.dense_h_to_4h.", "mlp.up_proj."),
    ("mlp.dense_4h_to_h.", "mlp.down_proj."),
]
MPT = [
    ("transformer.wte.", "model.embed_tokens."),
    ("transformer.norm_f.", "model.norm."),
    ("transformer.blocks.", "model.layers."),
    ("attn.Wqkv.", "self_attn.qkv_proj."),
    ("attn.out_proj.", "self_attn.o_proj."),
    ("ffn.", "mlp."),
    ("norm_1.", "input_layernorm."),
    ("norm_2.", "post_attention_layernorm."),
]
AFMOE = [
    ("mlp.router.gate.", "mlp.gate."),
    ("mlp.shared_experts.", "mlp.shared_expert."),
    ("self_attn.gate_proj.", "self_attn.o_gate."),
    ("pre_mlp_layernorm.", "pre_feedforward_layernorm."),
    ("post_mlp_layernorm.", "post_feedforward_layernorm."),
]
MIXTRAL = [
    ("block_sparse_moe.", "mlp."),
    (".w1.", ".gate_proj."),
    (".w2.", ".down_proj."),
    (".w3.", ".up_proj."),
]
GRANITE_MOE = [
    ("block_sparse_moe.router.layer.", "mlp.gate."),
    ("block_sparse_moe.", "mlp.experts."),
    ("shared_mlp.output_linear.", "mlp.shared_expert.down_proj."),
    ("shared_mlp.", "mlp.shared_expert."),
]
NAMES = {
    "afmoe": AFMOE, "bloom": BLOOM, "granitemoe": GRANITE_MOE, "granitemoeshared": GRANITE_MOE,
    "mixtral": MIXTRAL, "mpt": MPT,
}


def usual(config, tensors):
    """Returns the config and the tensors of a checkpoint under their usual names."""
    kind = config["model_type"]
    if kind == "gemma3":
        config = GEMMA3_SILENT | config["text_config"]
        root = "language_model."
        tensors = {n.removeprefix(root): t for n, t in tensors.items() if n.startswith(root)}
    if kind == "minicpm_sala":
        return from_sala(config), tensors
    tensors = renamed(tensors, NAMES.get(kind, []))
    if kind == "bloom":
        config = from_bloom(config)
    elif kind == "mpt":
        config = from_mpt(config)
    return config, split(config, tensors)


def stored(config, tensors):
    """Renames tensors from the usual names to the family's, for families that rename only
    tensors."""
    return config, renamed(tensors, [(old, new) for new, old in NAMES[config["model_type"]]])


def renamed(tensors, names):
    result = {}
    for name, tensor in tensors.items():
        for old, new in names:
            name = name.replace(old, new, 1)
        result[name] = tensor
    return result


def split(config, tensors):
    """Splits a stored tensor into its parts: q, k and v, which are stored one below the other or
    head by head, or gate and up."""
    result = {}
    for name, tensor in tensors.items():
        if "self_attn.qkv_proj." in name:
            heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
            width = config.get("head_dim") or config["hidden_size"] // heads
            if config["model_type"] == "bloom":
                by_head = tensor.unflatten(0, (heads, 3, width))
                parts = [by_head[:, part].flatten(0, 1) for part in range(3)]
            else:
                parts = tensor.split([heads * width, kv_heads * width, kv_heads * width])
            for part, rows in zip("qkv", parts, strict=True):
                result[name.replace("qkv_proj", f"{part}_proj")] = rows
        elif ".input_linear." in name:  # [E, 2 ff, d], or [2 ff, d] of a shared expert
            for part, rows in zip(("gate", "up"), tensor.chunk(2, dim=-2), strict=True):
                result |= by_expert(name.replace("input_linear", f"{part}_proj"), rows)
        elif ".output_linear." in name:
            result |= by_expert(name.replace("output_linear", "down_proj"), tensor)
        elif "mlp.gate_up_proj." in name:
            gate, up = tensor.chunk(2)
            result[name.replace("gate_up", "gate")] = gate
            result[name.replace("gate_up", "up")] = up
        else:
            result[name] = tensor
    return result


def by_expert(name, tensor):
    """Splits a tensor of all experts [E, rows, columns]; leaves a matrix as it is."""
    if tensor.dim() == 2:
        return {name: tensor}
    begin, _, end = name.rpartition("experts.")
    return {f"{begin}experts.{e}.{end}": matrix for e, matrix in enumerate(tensor)}


def to_granitemoe(config, tensors):
    """Returns the config, and the tensors with the names of ibm-granite/granite-3.0-1b-a400m: all
    experts of a layer in one tensor, gate and up one below the other."""
    joined = {}
    for name, tensor in tensors.items():
        if name.endswith(("gate_proj.weight", "down_proj.weight")):
            is_gate = name.endswith("gate_proj.weight")
            if is_gate:
                tensor = torch.cat([tensor, tensors[name.replace("gate_proj", "up_proj")]])
            name = name.replace("gate_proj" if is_gate else "down_proj",
                                "input_linear" if is_gate else "output_linear")
            layer, experts, rest = name.partition("mlp.experts.")
            if experts:
                expert, _, part = rest.partition(".")
                joined.setdefault(layer + experts + part, {})[int(expert)] = tensor
                continue
        elif name.endswith("up_proj.weight"):
            continue
        joined[name] = tensor
    for name, value in joined.items():
        if isinstance(value, dict):
            joined[name] = torch.stack([value[e] for e in range(len(value))])
    renames = [(new, old) for old, new in GRANITE_MOE]
    renames = [("mlp.shared_expert.output_linear.", "shared_mlp.output_linear."), *renames]
    return config, renamed(joined, renames)


def fused(config, tensors):
    """Joins q, k and v to one tensor; this is the inverse of `split`."""
    heads = config["num_attention_heads"]
    result = {}
    for name, tensor in tensors.items():
        if "self_attn.q_proj." in name:
            parts = [tensors[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
            if config["model_type"] == "bloom":
                parts = torch.stack([part.unflatten(0, (heads, -1)) for part in parts], dim=1)
                parts = [parts.flatten(0, 2)]
            result[name.replace("q_proj", "qkv_proj")] = torch.cat(list(parts))
        elif "self_attn.k_proj." not in name and "self_attn.v_proj." not in name:
            result[name] = tensor
    return result


def from_bloom(config):
    width, heads = config["n_embed"], config["num_attention_heads"]
    return {
        "model_type": "bloom", "vocab_size": config["vocab_size"], "hidden_size": width,
        "intermediate_size": 4 * width, "num_hidden_layers": config["n_layer"],
        "num_attention_heads": heads, "num_key_value_heads": heads,
        "max_position_embeddings": 2048, "layer_norm_eps": config["layer_norm_epsilon"],
        "tie_word_embeddings": True, "full_position": "alibi",
    }


def to_bloom(config, tensors):
    """Returns the config and the tensors with the names of bigscience/bloom-560m."""
    keys = {
        "architectures": ["BloomForCausalLM"], "model_type": "bloom",
        "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0,
        "attention_softmax_in_fp32": True, "bias_dropout_fusion": True, "bos_token_id": 1,
        "eos_token_id": 2, "hidden_dropout": 0.0, "initializer_range": 0.02,
        "layer_norm_epsilon": config["layer_norm_eps"], "masked_softmax_fusion": True,
        "n_embed": config["hidden_size"], "n_inner": None,
        "n_layer": config["num_hidden_layers"],
        "num_attention_heads": config["num_attention_heads"], "offset_alibi": 100,
        "pad_token_id": 3, "pretraining_tp": 1, "skip_bias_add": True, "skip_bias_add_qkv": False,
        "unk_token_id": 0, "use_cache": True, "vocab_size": config["vocab_size"],
    }
    return keys, stored(config, fused(config, tensors))[1]


def from_mpt(config):
    width, heads, attention = config["d_model"], config["n_heads"], config["attn_config"]
    return {
        "model_type": "mpt", "vocab_size": config["vocab_size"], "hidden_size": width,
        "intermediate_size": config["expansion_ratio"] * width,
        "num_hidden_layers": config["n_layers"], "num_attention_heads": heads,
        "num_key_value_heads": heads, "max_position_embeddings": config["max_seq_len"],
        "layer_norm_eps": config["layer_norm_epsilon"], "tie_word_embeddings": True,
        "full_position": "alibi", "attention_multiplier": attention["softmax_scale"],
        "alibi_bias_max": attention["alibi_bias_max"], "clip_qkv": attention["clip_qkv"],
    }


def to_mpt(config, tensors):
    """Returns the config and the tensors with the names of mosaicml/mpt-7b."""
    attention = {
        "alibi": True, "alibi_bias_max": config.get("alibi_bias_max", 8), "attn_impl": "torch",
        "attn_pdrop": 0, "attn_type": "multihead_attention", "attn_uses_sequence_id": False,
        "clip_qkv": config.get("clip_qkv"), "prefix_lm": False, "qk_ln": False,
        "softmax_scale": config.get("attention_multiplier"),
    }
    keys = {
        "architectures": ["MptForCausalLM"], "model_type": "mpt", "attn_config": attention,
        "d_model": config["hidden_size"], "emb_pdrop": 0, "embedding_fraction": 1.0,
        "expansion_ratio": 4, "init_config": {"name": "kaiming_normal_"}, "init_device": "cpu",
        "layer_norm_epsilon": config["layer_norm_eps"], "learned_pos_emb": True,
        "logit_scale": None, "max_seq_len": config["max_position_embeddings"],
        "n_heads": config["num_attention_heads"], "n_layers": config["num_hidden_layers"],
        "no_bias": True, "norm_type": "low_precision_layernorm", "resid_pdrop": 0,
        "tokenizer_name": "EleutherAI/gpt-neox-20b", "use_cache": False, "verbose": 0,
        "vocab_size": config["vocab_size"],
    }
    return keys, stored(config, fused(config, tensors))[1]


def from_sala(config):
    """Returns MiniCPM-SALA's config with the keys of HypeNet's published profile."""
    layers, width = config["num_hidden_layers"], config["hidden_size"]
    kinds = {"minicpm4": "attn"}
    mixers = [kinds.get(name, "lightning-attn") for name in config["mixer_types"]]
    return config | {
        "model_type": "hypenet", "mixer_types": mixers,
        "use_qk_norm": False, "lightning_use_qk_norm": config["qk_norm"],
        "lightning_use_output_norm": config["use_output_norm"],
        "lightning_use_output_gate": config["use_output_gate"],
        "embedding_multiplier": config["scale_emb"],
        "residual_multiplier": config["scale_depth"] / layers**0.5,
        "logit_scale": config["dim_model_base"] / width,
    }


def to_sala(config, tensors):
    """Returns the config and the tensors with the names of openbmb/MiniCPM-SALA, and a config with
    dense attention for the whole context. Its lightning layers have the three names that the
    authors' code reads, in turn."""
    spellings = itertools.cycle(("lightning-attn", "lightning", "lightning_attn"))
    mixers = ["minicpm4" if name == "attn" else next(spellings) for name in config["mixer_types"]]
    used = {"qk_norm": True, "use_output_norm": True, "use_output_gate": True}
    sparse = {
        "kernel_size": 32, "kernel_stride": 16, "init_blocks": 1, "block_size": 64,
        "window_size": 2048, "topk": 64, "use_nope": False, "dense_len": 1024,
    }
    own = ("lightning_use_qk_norm", "lightning_use_output_norm", "lightning_use_output_gate",
           "use_qk_norm", "logit_scale", "expand_kv_proj")
    kept = {key: value for key, value in config.items() if key not in own}
    return kept | used | {
        "architectures": ["MiniCPMSALAForCausalLM"], "model_type": "minicpm_sala",
        "mixer_types": mixers, "sparse_config": sparse, "mup_denominator": 32,
        "scale_emb": 12, "scale_depth": 1.4, "max_position_embeddings": 4096,
        "dim_model_base": round(config["logit_scale"] * config["hidden_size"]), "rand_init": False,
    }, tensors
