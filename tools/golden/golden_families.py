"""Golden cases of the public families. transformers computes their logits, unless options change
the model."""

import torch

from golden_names import GEMMA3_SILENT, stored, to_bloom, to_mpt

_BASE = {
    "hidden_act": "silu",
    "attention_bias": False,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


def shape(vocab, d, ff, layers, heads, kv_heads, head_dim):
    return _BASE | {
        "vocab_size": vocab,
        "hidden_size": d,
        "intermediate_size": ff,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
    }


def llama(*sizes, **extra):
    config = shape(*sizes) | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "mlp_bias": False,
    } | extra
    if "rope_parameters" in config:  # These contain rope_theta too.
        del config["rope_theta"]
    return config


def qwen3(*sizes, **extra):
    return shape(*sizes) | {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
    } | extra


def qwen2(*sizes, **extra):
    config = shape(*sizes) | {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
    } | extra
    del config["attention_bias"]  # The family has no such key: q, k and v always have a bias.
    return config


def family(model_type, name, *sizes, without=(), **extra):
    config = shape(*sizes) | {"architectures": [f"{name}ForCausalLM"], "model_type": model_type}
    # The default of some config classes is outside these vocabularies.
    config["pad_token_id"] = None
    return {key: value for key, value in (config | extra).items() if key not in without}


def mistral(*sizes, **extra):
    return family("mistral", "Mistral", *sizes, without=["attention_bias"], **extra)


def phi3(*sizes, **extra):
    """Returns a config of Phi-3. It has no key head_dim, because the width of a head is hidden_size
    / num_attention_heads. So the last of `sizes` is not written."""
    return family("phi3", "Phi3", *sizes, without=["head_dim"], **extra)


def smollm3(*sizes, **extra):
    return family("smollm3", "SmolLM3", *sizes, **extra)


FULL, LOCAL = "full_attention", "sliding_attention"


def beside_vision(config, tensors):
    """Gemma 3 in its released form: with a vision tower, and with a text_config that omits keys
    with default values."""
    silent = ("architectures", "pad_token_id", "bos_token_id", "eos_token_id", *GEMMA3_SILENT)
    text = {key: value for key, value in config.items() if key not in silent}
    assert all(config[key] == value for key, value in GEMMA3_SILENT.items())
    vision = {
        "model_type": "siglip_vision_model", "hidden_size": 4, "intermediate_size": 6,
        "num_hidden_layers": 1, "num_attention_heads": 1, "image_size": 4, "patch_size": 2,
        "vision_use_head": False,
    }
    outer = {
        "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
        "boi_token_index": 1, "eoi_token_index": 2, "image_token_index": 46,
        "mm_tokens_per_image": 4, "text_config": text, "vision_config": vision,
    }
    tensors = {"language_model." + name: tensor for name, tensor in tensors.items()}
    tower = "vision_tower.vision_model."
    tensors[tower + "embeddings.patch_embedding.weight"] = torch.ones(4, 3, 2, 2)
    tensors[tower + "embeddings.patch_embedding.bias"] = torch.ones(4)
    tensors["multi_modal_projector.mm_input_projection_weight"] = torch.ones(4, 16)
    return outer, tensors

# golden_cases.py explains the keys of a case.
FAMILY_CASES = {
    "llama": {
        "source": "transformers",
        "dtype": "float32",
        "config": llama(
            41, 20, 24, 2, 4, 2, 8,
            attention_bias=True, tie_word_embeddings=False, rms_norm_eps=1e-5,
        ),
        "note": "`attention_bias` (q, k, v and o), untied head, grouped heads, H·D ≠ d",
    },
    "llama_sharded": {
        "source": "transformers",
        "dtype": "bfloat16",
        "shards": True,
        "config": llama(83, 35, 44, 3, 5, 1, 8, rope_theta=500000.0, rms_norm_eps=1e-5),
        "note": "directory as transformers 5 writes it: three shards and an index, "
        "`rope_parameters` (θ = 500000) and `dtype` in config.json; one KV head, tied head",
    },
    "llama_mlp_bias": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": llama(43, 20, 26, 2, 2, 2, 10, mlp_bias=True, attention_bias=True),
        "note": "`mlp_bias` and `attention_bias`, tied head",
    },
    "qwen2": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": qwen2(43, 18, 22, 2, 3, 1, 6),
        "note": "biases on q, k and v, three query heads on one KV head",
    },
    "qwen3": {
        "source": "transformers",
        "dtype": "float16",
        "config": qwen3(97, 36, 50, 2, 3, 1, 16, rope_theta=1000000.0),
        "note": "QK-norm, three query heads on one KV head, tied head, θ = 1e6",
    },
    "qwen2_window": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": qwen2(
            45, 20, 26, 3, 2, 1, 8,
            use_sliding_window=True, sliding_window=26, max_window_layers=1,
        ),
        "edges": [26],
        "note": "`use_sliding_window`: windows of 26 from layer `max_window_layers` = 1 on",
    },
    "qwen2_yarn": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": qwen2(
            47, 20, 24, 2, 2, 2, 12, rope_theta=1000000.0, max_position_embeddings=96,
            rope_scaling={
                "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 96,
            },
        ),
        "edges": [96],
        "note": "YaRN as Qwen2.5's cards write it: factor 4 past 96 positions",
    },
    "qwen3_window": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": qwen3(
            53, 22, 26, 3, 4, 2, 6,
            use_sliding_window=True, sliding_window=31, max_window_layers=9,
            layer_types=[LOCAL, FULL, LOCAL], tie_word_embeddings=False,
        ),
        "edges": [31],
        "note": "`layer_types` with windows of 31, QK-norm, untied head",
    },
    "mistral": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": mistral(
            51, 18, 24, 2, 3, 1, 10, sliding_window=None, rope_theta=1000000.0,
            tie_word_embeddings=False,
        ),
        "note": "`sliding_window: null`, explicit `head_dim` with H·D ≠ d, untied head",
    },
    "mistral_window": {
        "source": "transformers",
        "dtype": "float16",
        "config": mistral(41, 24, 28, 2, 4, 2, 6, sliding_window=37),
        "edges": [37],
        "note": "`sliding_window: 37` in every layer",
    },
    "phi3": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": phi3(43, 24, 26, 2, 4, 2, 6, sliding_window=45, tie_word_embeddings=False),
        "edges": [45],
        "note": "q, k, v and gate, up in one tensor each; windows of 45, untied head",
    },
    "phi3_longrope": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": phi3(
            45, 32, 34, 2, 4, 2, 8, original_max_position_embeddings=96,
            partial_rotary_factor=0.75, sliding_window=4096,
            rope_scaling={
                "type": "longrope",
                "short_factor": [1.0, 1.1, 1.3],
                "long_factor": [1.1, 2.5, 7.0],
            },
        ),
        "edges": [96],
        "note": "LongRoPE's long factors and attention factor on three quarters of each head; a "
        "window wider than the context",
    },
    "phi3_longrope_short": {
        "source": "transformers",
        "dtype": "float32",
        "config": phi3(
            37, 16, 22, 2, 2, 1, 8, original_max_position_embeddings=512,
            rope_scaling={
                "rope_type": "longrope",
                "short_factor": [1.0, 1.2, 1.5, 2.0],
                "long_factor": [1.0, 3.0, 9.0, 27.0],
            },
        ),
        "note": "LongRoPE's short factors: the context stays within the original length",
    },
    "smollm3": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": smollm3(
            53, 20, 26, 4, 4, 2, 6, no_rope_layer_interval=2, attention_bias=True,
            rope_theta=5000000.0,
        ),
        "note": "every second layer without RoPE, `attention_bias`",
    },
    "smollm3_window": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": smollm3(
            47, 18, 24, 3, 3, 1, 6, no_rope_layers=[1, 0, 1], use_sliding_window=True,
            sliding_window=29,
        ),
        "edges": [29],
        "note": "`no_rope_layers`, and a window in the layer without RoPE",
    },
    "cohere": {
        "source": "transformers",
        "dtype": "float16",
        "config": family(
            "cohere", "Cohere", 43, 24, 26, 2, 4, 2, 6, without=["rms_norm_eps", "head_dim"],
            layer_norm_eps=1e-5, logit_scale=0.25, tie_word_embeddings=False,
        ),
        "note": "one LayerNorm for attention and MLP side by side, RoPE on neighbours, logits × 0.25",
    },
    "cohere_qk_norm": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "cohere", "Cohere", 45, 24, 26, 2, 4, 2, 6, without=["rms_norm_eps", "head_dim"],
            layer_norm_eps=1e-4, logit_scale=0.875, use_qk_norm=True,
        ),
        "note": "as `cohere`, with `use_qk_norm` as in Command R+: a LayerNorm for each head's queries and keys; tied head",
    },
    "cohere2": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "cohere2", "Cohere2", 47, 20, 26, 4, 2, 1, 10, without=["rms_norm_eps", "head_dim"],
            layer_norm_eps=1e-5, logit_scale=1.2, sliding_window=33, sliding_window_pattern=3,
            attention_bias=True,
        ),
        "edges": [33],
        "note": "as `cohere`, with windows of 33 in two of three layers, the others without RoPE; "
        "`attention_bias`, tied head",
    },
    "bloom": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "bloom", "Bloom", 47, 18, 72, 2, 3, 3, 6, layer_norm_eps=1e-5,
        ),
        "store": to_bloom,
        "note": "ALiBi of three heads, LayerNorm with biases and behind the embedding, q, k and v head by "
        "head in one tensor, biases, no gate",
    },
    "mpt": {
        "source": "transformers",
        "dtype": "float16",
        "config": family(
            "mpt", "Mpt", 43, 18, 72, 2, 3, 3, 6, layer_norm_eps=1e-5, attention_multiplier=0.5,
        ),
        "store": to_mpt,
        "note": "ALiBi of three heads, `softmax_scale`, LayerNorm, q, k and v in one tensor, GELU by erf, no gate",
    },
    "mpt_clip": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "mpt", "Mpt", 45, 16, 64, 2, 4, 4, 4, layer_norm_eps=1e-5, clip_qkv=1.0,
        ),
        "store": to_mpt,
        "note": "as `mpt`, with `clip_qkv`: q, k and v cut off at ±1",
    },
    "mpt_slopes": {  # The source is not transformers, because it does not read alibi_bias_max.
        "dtype": "bfloat16",
        "config": family(
            "mpt", "Mpt", 43, 18, 72, 2, 3, 3, 6, layer_norm_eps=1e-5, clip_qkv=1.5,
            alibi_bias_max=16,
        ),
        "store": to_mpt,
        "note": "`alibi_bias_max` of 16 beside `clip_qkv`, as StoryWriter's authors compute it",
    },
    "afmoe": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "afmoe", "Afmoe", 45, 20, 26, 4, 4, 2, 6, sliding_window=29, num_dense_layers=4,
            global_attn_every_n_layers=3, mup_enabled=True, rms_norm_eps=1e-5, num_experts=4,
            num_experts_per_tok=2, num_shared_experts=1, moe_intermediate_size=10,
            tie_word_embeddings=False,
        ),
        "store": stored,
        "edges": [29],
        "note": "all layers dense: a gate on attention, QK-norm, norms on both sides of a branch, "
        "embeddings × √d, windows of 29, every third layer full without RoPE",
    },
    "exaone4": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "exaone4", "Exaone4", 47, 20, 26, 4, 2, 1, 8, without=["attention_bias"],
            sliding_window=27, sliding_window_pattern="LLG",
            layer_types=[LOCAL, LOCAL, FULL, LOCAL],
        ),
        "edges": [27],
        "note": "norms behind the branches, QK-norm, windows of 27 around a full layer without RoPE",
    },
    "exaone4_full": {
        "source": "transformers",
        "dtype": "float16",
        "config": family(
            "exaone4", "Exaone4", 43, 18, 24, 2, 3, 3, 6, without=["attention_bias"],
            sliding_window=None, layer_types=[FULL, FULL], tie_word_embeddings=False,
        ),
        "note": "`sliding_window: null`: full attention with RoPE in every layer, untied head",
    },
    "olmo2": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "olmo2", "Olmo2", 43, 22, 26, 2, 4, 2, 6, attention_bias=True, rope_theta=500000.0,
        ),
        "note": "norms behind the branches, and on q and k over all heads together",
    },
    "olmo3": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "olmo3", "Olmo3", 49, 20, 26, 4, 2, 2, 10, sliding_window=30, rope_theta=500000.0,
            rope_scaling={
                "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
                "attention_factor": 1.2, "beta_fast": 32, "beta_slow": 1,
            },
            tie_word_embeddings=False,
        ),
        "edges": [30, 64],
        "note": "windows of 30 in three of four layers, YaRN in the full one alone",
    },
    "gemma": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "gemma", "Gemma", 45, 26, 30, 2, 3, 1, 10, hidden_act="gelu_pytorch_tanh",
        ),
        "note": "norms by 1 + w, embeddings × √d, GELU, H·D ≠ d",
    },
    "gemma2": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "gemma2", "Gemma2", 45, 20, 26, 3, 4, 2, 6, hidden_act="gelu_pytorch_tanh",
            hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=9, sliding_window=23,
            attn_logit_softcapping=1.5, final_logit_softcapping=3.0,
        ),
        "edges": [23],
        "note": "softcaps of scores (1.5) and logits (3), norms on both sides of a branch, windows of 23 "
        "in every second layer",
    },
    "gemma3_text": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "gemma3_text", "Gemma3", 47, 20, 26, 4, 2, 1, 10, without=["hidden_act"],
            hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=14, sliding_window=28,
            sliding_window_pattern=3, rope_theta=1000000.0, rope_local_base_freq=10000.0,
            rope_scaling={"rope_type": "linear", "factor": 8.0},
        ),
        "edges": [28],
        "note": "norms on both sides of a branch, two bases of RoPE, windows of 28 in two of three "
        "layers, position interpolation by 8 in the others",
    },
    "gemma3": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "gemma3_text", "Gemma3", 47, 16, 18, 3, 8, 4, 6, without=["hidden_act"],
            hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=9, sliding_window=21,
            sliding_window_pattern=2, rope_theta=1000000.0, rope_local_base_freq=10000.0,
            max_position_embeddings=131072,
        ),
        "store": beside_vision,
        "edges": [21],
        "note": "as released: a `text_config` without the keys for which the config class has "
        "defaults, and tensors of a vision model, which are not read; windows of 21 in every second "
        "layer",
    },
    "granite": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "granite", "Granite", 45, 22, 26, 2, 4, 2, 6,
            embedding_multiplier=6.0, residual_multiplier=0.4, attention_multiplier=0.3,
            logits_scaling=4.0, attention_bias=True, tie_word_embeddings=False,
        ),
        "note": "multipliers on embeddings, scores, branches and logits; `attention_bias`",
    },
    "glm": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "glm", "Glm", 47, 22, 26, 2, 4, 2, 12, partial_rotary_factor=0.5,
            attention_bias=True, tie_word_embeddings=False, rms_norm_eps=1.5625e-7,
        ),
        "note": "RoPE on neighbours in half of each head, biases on q, k and v, fused gate and up",
    },
    "llama_linear": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": llama(
            41, 20, 24, 2, 2, 1, 10, rope_scaling={"type": "linear", "factor": 2.5}
        ),
        "note": "position interpolation by 2.5",
    },
    "llama_dynamic": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": llama(
            43, 20, 24, 2, 2, 1, 10, max_position_embeddings=96,
            rope_scaling={"rope_type": "dynamic", "factor": 2.0},
        ),
        "edges": [96],
        "note": "dynamic NTK of 96 positions",
    },
    "llama_llama3": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": llama(
            47, 20, 24, 2, 2, 1, 12,
            rope_parameters={
                "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        ),
        "edges": [64],
        "note": "Llama 3.1's scaling by 8, as `rope_parameters`",
    },
    "llama_yarn": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": llama(
            49, 20, 24, 2, 2, 1, 12,
            rope_scaling={
                "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64,
                "beta_fast": 8.0, "beta_slow": 0.5, "mscale": 1.2, "mscale_all_dim": 0.7,
                "truncate": False,
            },
        ),
        "edges": [64],
        "note": "YaRN with `mscale`, `mscale_all_dim`, `beta_fast`, `beta_slow`, no `truncate`",
    },
}
