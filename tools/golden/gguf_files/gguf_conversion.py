"""What llama.cpp's conversion (conversion/*.py there) does to a checkpoint of Hugging Face: the
metadata that it writes, the names of tensors, and the changes of their values. Only for the keys
that the golden checkpoints have."""

import math

import numpy as np

FAMILIES = {  # model_type -> general.architecture
    "llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma": "gemma",
    "gemma2": "gemma2", "gemma3_text": "gemma3", "phi3": "phi3", "smollm3": "smollm3",
    "olmo2": "olmo2", "olmo3": "olmo2", "granite": "granite", "exaone4": "exaone4",
    "cohere": "command-r", "cohere2": "cohere2",
}
# These three are subclasses of LlamaModel there, which permutes the rows of q and k.
PERMUTED = ("llama", "granite", "smollm3")
GLOBAL = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"


def gguf_name(name, architecture):
    stem, suffix = name.rsplit(".", 1)
    if stem in GLOBAL:
        return f"{GLOBAL[stem]}.{suffix}"
    _, _, layer, part = stem.split(".", 3)
    if part == "post_attention_layernorm":
        # A norm behind attention in these families, the norm before the MLP in all others.
        behind = architecture in ("gemma2", "gemma3", "olmo2", "exaone4")
        return f"blk.{layer}.{'post_attention_norm' if behind else 'ffn_norm'}.{suffix}"
    return f"blk.{layer}.{LAYER[part]}.{suffix}"


def permute(weights, heads):
    """Puts the two halves of each head's rows side by side: row 0, D / 2, 1, D / 2 + 1, ..."""
    shape = weights.shape
    return weights.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def converted_tensors(config, tensors):
    """{GGUF name: array}: float32 arrays from float32 arrays under the names of Hugging Face."""
    architecture = FAMILIES[config["model_type"]]
    result = {}
    for name, value in tensors.items():
        if architecture in PERMUTED and ".q_proj." in name:
            value = permute(value, config["num_attention_heads"])
        if architecture in PERMUTED and ".k_proj." in name:
            value = permute(value, config["num_key_value_heads"])
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            value = value + np.float32(1)
        result[gguf_name(name, architecture)] = value
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope.get("rope_type") == "llama3":
        result["rope_freqs.weight"] = llama3_factors(config, rope)
    if architecture == "phi3" and "long_factor" in rope:
        result[LONG] = np.array(rope["long_factor"], dtype=np.float32)
        result[SHORT] = np.array(rope["short_factor"], dtype=np.float32)
    return result


def llama3_factors(config, rope):
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    theta = rope.get("rope_theta", config.get("rope_theta", 10000.0))
    factors = []
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    for i in range(0, width, 2):
        wavelength = 2 * math.pi * theta ** (i / width)
        if wavelength < high:
            factors.append(1.0)
        elif wavelength > low:
            factors.append(rope["factor"])
        else:
            smooth = rope["original_max_position_embeddings"] / wavelength - rope["low_freq_factor"]
            smooth /= rope["high_freq_factor"] - rope["low_freq_factor"]
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def add_rope(writer, config, architecture):
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    full = rope.get("full_attention", rope)
    writer.add_rope_freq_base(full.get("rope_theta", config.get("rope_theta")))
    window_theta = config.get("rope_local_base_freq")
    window_theta = rope.get("sliding_attention", {}).get("rope_theta", window_theta)
    if window_theta is not None:
        writer.add_float32(f"{architecture}.rope.freq_base_swa", window_theta)
    kind = full.get("rope_type", full.get("type"))
    if kind in ("linear", "yarn"):
        writer.add_string(f"{architecture}.rope.scaling.type", kind)
        writer.add_rope_scaling_factor(full["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(full["original_max_position_embeddings"])
        for key, add in (("attention_factor", writer.add_rope_scaling_yarn_attn_factor),
                         ("beta_fast", writer.add_rope_scaling_yarn_beta_fast),
                         ("beta_slow", writer.add_rope_scaling_yarn_beta_slow)):
            if key in full:
                add(full[key])
    if architecture == "phi3":
        original = config.get("original_max_position_embeddings", 4096)
        writer.add_rope_scaling_orig_ctx_len(original)
        scale = config["max_position_embeddings"] / original
        if kind in ("su", "longrope"):
            writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)))


def add_windows(writer, config, architecture):
    window = config.get("sliding_window")
    if architecture == "phi3":
        writer.add_sliding_window(window or 0)
        return
    if window is None or architecture == "llama":
        return
    writer.add_sliding_window(window)
    types = config.get("layer_types")
    pattern = config.get("sliding_window_pattern")
    if types:
        windows = [kind == "sliding_attention" for kind in types]
    elif pattern:
        windows = [(i + 1) % pattern != 0 for i in range(config["num_hidden_layers"])]
    else:
        return
    writer.add_sliding_window_pattern(windows)


def add_config(writer, config):
    """Writes the metadata of the architecture."""
    architecture = FAMILIES[config["model_type"]]
    width = config["hidden_size"] // config["num_attention_heads"]
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    if "head_dim" in config:
        width = config["head_dim"]
        writer.add_key_length(width)
        writer.add_value_length(width)
    if "rms_norm_eps" in config and not architecture.startswith("co"):
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if "layer_norm_eps" in config:
        writer.add_layer_norm_eps(config["layer_norm_eps"])
    add_rope(writer, config, architecture)
    add_windows(writer, config, architecture)
    if architecture in ("llama", "phi3", "granite", "smollm3", "cohere2"):
        writer.add_rope_dimension_count(int(config.get("partial_rotary_factor", 1.0) * width))
    if architecture in ("llama", "granite", "smollm3", "exaone4", "cohere2"):
        writer.add_vocab_size(config["vocab_size"])
    if architecture in ("command-r", "cohere2"):
        writer.add_string(f"{architecture}.rope.scaling.type", "none")
    for key, name in (("attention_multiplier", "attention.scale"),
                      ("embedding_multiplier", "embedding_scale"),
                      ("residual_multiplier", "residual_scale"),
                      ("logits_scaling", "logit_scale"), ("logit_scale", "logit_scale"),
                      ("attn_logit_softcapping", "attn_logit_softcapping"),
                      ("final_logit_softcapping", "final_logit_softcapping")):
        if config.get(key):
            writer.add_float32(f"{architecture}.{name}", config[key])
