"""config.json and generation_config.json of the demo models, and of two models whose blocks are
gated attention units."""

TRAINING_LENGTH = 512

_COMMON = {
    "vocab_size": 256,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 8,
    "hidden_act": "silu",
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "attention_bias": False,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "max_position_embeddings": 32768,
    "training_length": TRAINING_LENGTH,
    "torch_dtype": "bfloat16",
}

# Two gated attention units replace one layer of attention and MLP.
_GAU = {
    **{
        key: value
        for key, value in _COMMON.items()
        if key not in ("intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    },
    "block_type": "gau",
    "num_hidden_layers": 16,
    "gau_expansion": 256,
    "gau_key_dim": 64,
}

CONFIGS = {
    "dense": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        **_COMMON,
    },
    "hwfa2": {
        "architectures": ["Hwfa2ForCausalLM"],
        "model_type": "hwfa2",
        **_COMMON,
        "use_qk_norm": True,
        "sliding_window": 64,
        "num_full_layers": 2,
        # The full layers are ⌊k·8/3⌋ for k = 1, 2: layers 2 and 5.
        "layer_types": [
            "full_attention" if layer in (2, 5) else "sliding_attention" for layer in range(8)
        ],
        "full_position": "rerope",
        "rerope_window": TRAINING_LENGTH // 2,
        "logn_scaling": None,
    },
    "gau": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **_GAU,
    },
    "gau_hwfa2": {
        "architectures": ["Hwfa2ForCausalLM"],
        "model_type": "hwfa2",
        **_GAU,
        "sliding_window": 64,
        "num_full_layers": 2,
        # The full layers are ⌊k·16/3⌋ for k = 1, 2: layers 5 and 10.
        "layer_types": [
            "full_attention" if layer in (5, 10) else "sliding_attention" for layer in range(16)
        ],
        "full_position": "rerope",
        "rerope_window": TRAINING_LENGTH // 2,
        "logn_scaling": None,
    },
    "hypenet": {
        "architectures": ["HypeNetForCausalLM"],
        "model_type": "hypenet",
        "hypenet_profile": "published",
        **_COMMON,
        "mixer_types": ["attn" if layer in (2, 5) else "lightning-attn" for layer in range(8)],
        "attn_use_rope": False,
        "attn_use_output_gate": True,
        "attn_logits_scaling": "hype 500",
        "lightning_nh": 4,
        "lightning_nkv": 4,
        "lightning_head_dim": 32,
        "lightning_scale": "1/sqrt(d)",
        "lightning_use_rope": True,
        "lightning_use_qk_norm": True,
        "lightning_use_output_norm": True,
        "lightning_use_output_gate": True,
    },
}

# generation_config.json of every model. The most probable continuation of a line of code is often a
# line of blanks, so the models sample.
GENERATION_CONFIG = {"do_sample": True, "temperature": 1.0}
