"""Golden cases of the public families with options that change their layers at load time."""

from golden_families import family, llama, phi3, qwen2

OVERRIDE_CASES = {
    "llama_override_ntk": {
        "dtype": "bfloat16",
        "config": llama(39, 18, 22, 2, 3, 1, 8, max_position_embeddings=96),
        "overrides": {"rope_scaling": {"rope_type": "ntk", "factor": 4.0}},
        "edges": [96],
        "note": "a dense checkpoint with NTK-aware scaling by option",
    },
    "phi3_override_rerope": {
        "dtype": "bfloat16",
        "config": phi3(
            41, 32, 34, 2, 4, 2, 8, original_max_position_embeddings=96,
            partial_rotary_factor=0.75,
            rope_scaling={
                "type": "longrope",
                "short_factor": [1.0, 1.1, 1.3],
                "long_factor": [1.1, 2.5, 7.0],
                "attention_factor": 1.3,
            },
        ),
        "overrides": {"rerope_window": 33},
        "edges": [33],
        "note": "ReRoPE w = 33 by option over LongRoPE on three quarters of each head, attention "
        "factor 1.3",
    },
    "phi3_override_leaky": {
        "dtype": "bfloat16",
        "config": phi3(
            43, 32, 34, 2, 4, 2, 8, original_max_position_embeddings=96,
            partial_rotary_factor=0.75,
        ),
        "overrides": {
            "rerope_window": 35, "leaky_rerope_factor": 5,
            "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "attention_factor": 1.2},
        },
        "edges": [35],
        "note": "Leaky ReRoPE w = 35, k = 5 over YaRN, all by option; attention factor 1.2",
    },
    "qwen2_override_ntk": {
        "dtype": "bfloat16",
        "config": qwen2(
            43, 20, 26, 3, 2, 1, 8, max_position_embeddings=96,
            use_sliding_window=True, sliding_window=27, max_window_layers=1,
        ),
        "overrides": {"rope_scaling": {"rope_type": "ntk", "factor": 3.0}},
        "edges": [27, 96],
        "note": "NTK-aware scaling by option, of full attention and of windows of 27, which have one RoPE",
    },
    "gemma2_override_rerope": {
        "dtype": "bfloat16",
        "config": family(
            "gemma2", "Gemma2", 45, 20, 26, 2, 4, 2, 6, hidden_act="gelu_pytorch_tanh",
            hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=9, sliding_window=23,
            attn_logit_softcapping=1.5, final_logit_softcapping=9.0, training_length=96,
        ),
        "overrides": {"rerope_window": 37, "logn": "extrapolate"},
        "edges": [23, 37, 96],
        "note": "ReRoPE w = 37 and log n by option in the full layer, whose scores have a softcap",
    },
    "gemma3_override_linear": {
        "dtype": "bfloat16",
        "config": family(
            "gemma3_text", "Gemma3", 47, 20, 26, 2, 2, 1, 10, without=["hidden_act"],
            hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=14, sliding_window=28,
            sliding_window_pattern=2, rope_theta=1000000.0, rope_local_base_freq=10000.0,
        ),
        "overrides": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        "edges": [28],
        "note": "position interpolation by option, in full attention alone: windows have a RoPE of their own",
    },
    "cohere_override_leaky": {
        "dtype": "bfloat16",
        "config": family(
            "cohere", "Cohere", 45, 24, 26, 2, 4, 2, 6, without=["rms_norm_eps", "head_dim"],
            layer_norm_eps=1e-5, logit_scale=1.0, use_qk_norm=True,
        ),
        "overrides": {"rerope_window": 34, "leaky_rerope_factor": 4},
        "edges": [34],
        "note": "Leaky ReRoPE w = 34, k = 4 by option, RoPE on neighbours, a norm for each head",
    },
}
