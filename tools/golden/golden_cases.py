"""The configurations of the cases under tests/golden. Their sizes are small and odd on purpose."""

from golden_families import FAMILY_CASES, FULL, LOCAL, llama, phi3, qwen3, shape
from golden_overrides import OVERRIDE_CASES
from golden_names import to_sala
from golden_quantised import QUANTISED_CASES


def _hwfa2(*sizes, **extra):
    return shape(*sizes) | {"architectures": ["Hwfa2ForCausalLM"], "model_type": "hwfa2"} | extra


def _gau(base, vocab, d, layers, s, **extra):
    """Returns `base` changed to gated attention units, without the keys for heads and MLP."""
    config = base(vocab, d, 0, layers, 1, 1, s) | {"block_type": "gau", "gau_key_dim": s}
    absent = ("intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    return {key: value for key, value in config.items() if key not in absent} | extra


def _hypenet(*sizes, **extra):
    return shape(*sizes) | {
        "architectures": ["HypeNetForCausalLM"],
        "model_type": "hypenet",
    } | extra


def _published(*sizes, **extra):
    """Returns a configuration with every key that published configurations have."""
    return _hypenet(*sizes) | {
        "attention_dropout": 0.0,
        "attn_use_rope": False,
        "attn_use_output_gate": True,
        "expand_kv_proj": True,
        "initializer_range": 0.02,
        "lightning_use_rope": True,
        "lightning_rope_scaling": None,
        "lightning_use_qk_norm": True,
        "lightning_use_output_norm": True,
        "lightning_use_output_gate": True,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "use_cache": True,
    } | extra


ATTN, LIGHTNING, RNN = "attn", "lightning-attn", "gated-rnn"

# A case has these keys. `source` is the program that computes the logits. `dtype` is the type of
# the stored weights. `edges` are positions around which the logits of every row are stored. `note`
# is the text for the case's row in tests/golden/README.md.
CASES = FAMILY_CASES | OVERRIDE_CASES | QUANTISED_CASES | {
    "dense_logn_always": {
        "dtype": "bfloat16",
        "config": llama(67, 34, 46, 2, 4, 2, 8, training_length=64, logn_scaling="always"),
        "edges": [16, 64],
        "note": "`logn_scaling: always`, N = 64",
    },
    "dense_logn_extrapolate": {
        "dtype": "float16",
        "config": llama(
            71, 32, 48, 2, 2, 1, 14,
            training_length=80, logn_scaling="extrapolate", tie_word_embeddings=False,
        ),
        "edges": [80],
        "note": "`logn_scaling: extrapolate`, N = 80, untied head",
    },
    "dense_alibi": {
        "dtype": "bfloat16",
        "config": llama(
            59, 30, 38, 3, 6, 2, 6,
            training_length=96, full_position="alibi", logn_scaling="extrapolate",
            tie_word_embeddings=False,
        ),
        "edges": [96],
        "note": "`full_position: alibi`, six heads (slopes where H is no power of two), log n "
        "extrapolate, untied head",
    },
    "dense_nope": {
        "dtype": "float16",
        "config": qwen3(
            57, 28, 36, 2, 4, 1, 10, full_position="nope",
        ),
        "note": "`full_position: nope`, QK-norm",
    },
    "hwfa": {
        "dtype": "bfloat16",
        "config": _hwfa2(
            73, 28, 34, 4, 4, 2, 6,
            use_qk_norm=False, training_length=64, sliding_window=12,
            layer_types=[LOCAL, LOCAL, LOCAL, FULL], full_position="nope", logn_scaling="always",
        ),
        "edges": [12, 64],
        "note": "HWFA: windows of 12, last layer full without positions, log n always; no QK-norm",
    },
    "hwfa2_rerope": {
        "dtype": "bfloat16",
        "config": _hwfa2(
            61, 22, 26, 3, 3, 1, 8,
            use_qk_norm=True, training_length=96, sliding_window=20,
            layer_types=[LOCAL, FULL, LOCAL], full_position="rerope", rerope_window=40,
            logn_scaling=None,
        ),
        "edges": [20, 40],
        "note": "explicit `layer_types`, ReRoPE w = 40, windows of 20",
    },
    "hwfa2_rerope_rule": {
        "dtype": "bfloat16",
        "config": _hwfa2(
            79, 24, 28, 5, 4, 2, 6,
            training_length=64, sliding_window=17, num_full_layers=2, logn_scaling="extrapolate",
        ),
        "edges": [17, 32, 64],
        "note": "no `layer_types`: f = 2 of 5 layers are full (1 and 3); defaults: QK-norm, "
        "`full_position: rerope`, w = N/2 = 32; log n extrapolate",
    },
    "hwfa2_leaky": {
        "dtype": "float16",
        "config": _hwfa2(
            67, 28, 34, 3, 2, 2, 12,
            use_qk_norm=True, training_length=96, sliding_window=16,
            layer_types=[FULL, LOCAL, FULL], full_position="leaky_rerope", rerope_window=24,
            leaky_rerope_factor=4, logn_scaling=None,
        ),
        "edges": [16, 24],
        "note": "Leaky ReRoPE w = 24, k = 4; no grouped heads",
    },
    "hwfa2_alibi": {
        "dtype": "bfloat16",
        "config": _hwfa2(
            65, 26, 30, 3, 4, 2, 8,
            use_qk_norm=True, training_length=96, sliding_window=21,
            layer_types=[LOCAL, FULL, LOCAL], full_position="alibi", logn_scaling=None,
        ),
        "edges": [21],
        "note": "full layer with ALiBi among windows with RoPE",
    },
    "hwfa2_rope": {
        "dtype": "bfloat16",
        "config": _hwfa2(
            69, 24, 28, 4, 6, 3, 4,
            use_qk_norm=False, training_length=96, sliding_window=33,
            layer_types=[LOCAL, FULL, LOCAL, LOCAL], full_position="rope", logn_scaling=None,
            tie_word_embeddings=False,
        ),
        "edges": [33],
        "note": "full layer with plain RoPE; no QK-norm, untied head",
    },
    "gau": {
        "dtype": "bfloat16",
        "config": _gau(llama, 69, 30, 3, 12),
        "note": "gated attention units with RoPE, e = 2d = 60 and s = 12: values of five slices",
    },
    "gau_hwfa": {
        "dtype": "bfloat16",
        "config": _gau(
            _hwfa2, 71, 22, 4, 10,
            gau_expansion=40, training_length=64, sliding_window=12,
            layer_types=[LOCAL, LOCAL, LOCAL, FULL], full_position="nope", logn_scaling="always",
        ),
        "edges": [12, 64],
        "note": "HWFA of gated attention units: windows of 12, last layer full without positions, "
        "log n always",
    },
    "gau_hwfa2": {
        "dtype": "float16",
        "config": _gau(
            _hwfa2, 63, 28, 4, 14,
            training_length=96, sliding_window=21, num_full_layers=1, rerope_window=40,
            tie_word_embeddings=False,
        ),
        "edges": [21, 40],
        "note": "HWFA2 of gated attention units: windows of 21, layer 2 ReRoPE w = 40; untied head",
    },
    "gau_override_rerope": {
        "dtype": "bfloat16",
        "config": _gau(
            llama, 59, 26, 3, 24,
            gau_expansion=48, partial_rotary_factor=0.5, training_length=96,
        ),
        "overrides": {"rerope_window": 33, "logn": "extrapolate"},
        "edges": [33, 96],
        "note": "gated attention units trained with RoPE on half of a key, ReRoPE w = 33 and log n "
        "by option",
    },
    "qwen3_overrides": {
        "dtype": "bfloat16",
        "config": qwen3(75, 24, 28, 4, 4, 2, 6, max_position_embeddings=96),
        "overrides": {
            "rerope_window": 28, "window": 18, "full_layers": [1, 3], "logn": "extrapolate",
        },
        "edges": [18, 28, 96],
        "note": "a dense checkpoint with all four overrides at load; N = `max_position_embeddings`",
    },
    "llama_override_leaky": {
        "dtype": "bfloat16",
        "config": llama(53, 24, 30, 2, 4, 4, 6, training_length=96),
        "overrides": {
            "rerope_window": 31, "leaky_rerope_factor": 3, "logn": "always", "training_length": 64,
        },
        "edges": [31, 64],
        "note": "a dense checkpoint, every layer Leaky ReRoPE w = 31, k = 3, log n always; N = 64 "
        "by option, against 96 in the config",
    },
    "hypenet_published": {
        "dtype": "bfloat16",
        "config": _published(
            77, 26, 32, 4, 4, 2, 8,
            mixer_types=[LIGHTNING, ATTN, LIGHTNING, LIGHTNING], attn_logits_scaling="hype 500",
            lightning_nh=4, lightning_nkv=2, lightning_head_dim=8, lightning_scale="1/sqrt(d)",
        ),
        "edges": [64, 128],
        "note": "published profile: hype 500, grouped K/V in lightning and attention layers",
    },
    "minicpm_sala": {
        "dtype": "bfloat16",
        "config": _published(
            71, 24, 30, 4, 4, 1, 8,
            mixer_types=[ATTN, LIGHTNING, LIGHTNING, ATTN], lightning_nh=3, lightning_nkv=3,
            lightning_head_dim=6, lightning_scale="1/sqrt(d)", use_qk_norm=False,
            logit_scale=0.5, rope_theta=10000.0, tie_word_embeddings=False,
        ),
        "store": to_sala,
        "edges": [64, 128],
        "note": "MiniCPM-SALA's keys: attention without QK-norm and positions, gates, multipliers, "
        "two names of lightning layers, `mup_denominator` ≠ L",
    },
    "hypenet_published_odd": {
        "dtype": "float16",
        "config": _published(
            61, 18, 22, 3, 2, 1, 12,
            mixer_types=[ATTN, LIGHTNING, LIGHTNING], attn_logits_scaling="hype",
            lightning_nh=6, lightning_nkv=3, lightning_head_dim=4, lightning_scale="1/d",
            tie_word_embeddings=False,
        ),
        "edges": [64, 128],
        "note": "published profile: six lightning heads (ALiBi slope rule), scale 1/d, "
        "`hype` alone (a = 362), untied head",
    },
    "hypenet_published_bare": {
        "dtype": "bfloat16",
        "config": _hypenet(
            47, 18, 20, 3, 3, 1, 6,
            mixer_types=[LIGHTNING, ATTN, LIGHTNING], attn_logits_scaling=None,
            lightning_nh=2, lightning_nkv=2, lightning_head_dim=8,
        ),
        "edges": [64, 128],
        "note": "published profile, options left out: RoPE in all layers, no logit scale, no "
        "gates, no norms in lightning layers, scale 1/√D",
    },
    "hypenet_published_mixed": {
        "dtype": "bfloat16",
        "config": _hypenet(
            45, 16, 20, 3, 4, 2, 6,
            mixer_types=[ATTN, LIGHTNING, ATTN], attn_use_rope=True, attn_logits_scaling=1.4,
            attn_use_output_gate=True, lightning_nh=3, lightning_nkv=1, lightning_head_dim=6,
            lightning_scale=1, lightning_use_rope=False, lightning_use_qk_norm=True,
            lightning_use_output_gate=True,
        ),
        "edges": [64, 128],
        "note": "published profile: a constant logit scale and RoPE in gated attention layers; "
        "lightning layers with scale 1, QK-norm and gate, without RoPE and output norm",
    },
    "hypenet_chunked": {
        "dtype": "bfloat16",
        "config": _hypenet(
            71, 28, 34, 4, 4, 2, 6,
            hypenet_profile="chunked", use_qk_norm=True, chunk_size=40, num_chunks=9,
            attention_window=None, rnn_heads=1, rnn_state_dim=14,
        ),
        "edges": [40, 80, 120, 240],
        "note": "chunked profile: C = 40, nine chunks, no `mixer_types` (attention, RNN, RNN, "
        "attention), one RNN head with state 14",
    },
    "hypenet_chunked_windowed": {
        "dtype": "float16",
        "config": _hypenet(
            63, 30, 38, 3, 3, 1, 10,
            hypenet_profile="chunked", use_qk_norm=False, chunk_size=48, num_chunks=16,
            mixer_types=[RNN, ATTN, RNN], attention_window=29, rnn_heads=2, rnn_state_dim=20,
        ),
        "edges": [29, 48, 96, 144],
        "note": "chunked profile: C = 48, attention window 29 across chunk borders, two RNN heads "
        "of state 10, no QK-norm",
    },
}
