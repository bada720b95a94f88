"""Golden cases of mixtures of experts. transformers computes their logits, unless options change the
model."""

from golden_families import family
from golden_names import stored, to_granitemoe


def qwen3_moe(*sizes, **extra):
    experts = {"num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 14}
    return family("qwen3_moe", "Qwen3Moe", *sizes, **experts, **extra)


def qwen2_moe(*sizes, **extra):
    experts = {
        "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 13,
        "shared_expert_intermediate_size": 19,
    }
    return family("qwen2_moe", "Qwen2Moe", *sizes, without=["attention_bias"], **experts, **extra)


def mixtral(*sizes, **extra):
    experts = {"num_local_experts": 5, "num_experts_per_tok": 2}
    return family("mixtral", "Mixtral", *sizes, without=["attention_bias"], **experts, **extra)


EXPERT_CASES = {
    "qwen3_moe": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": qwen3_moe(
            47, 22, 26, 4, 4, 2, 6, norm_topk_prob=True, mlp_only_layers=[2], rope_theta=1000000.0,
        ),
        "note": "7 experts, 3 for each token, `norm_topk_prob`; layer 2 is dense "
        "(`mlp_only_layers`); QK-norm, tied head",
    },
    "qwen3_moe_window": {
        "source": "transformers",
        "dtype": "float16",
        "config": qwen3_moe(
            43, 20, 26, 4, 2, 1, 10, decoder_sparse_step=2, use_sliding_window=True,
            sliding_window=27, tie_word_embeddings=False,
        ),
        "edges": [27],
        "note": "every second layer has experts (`decoder_sparse_step`), weights without "
        "`norm_topk_prob`; windows of 27 in all layers, untied head",
    },
    "qwen2_moe": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": qwen2_moe(
            45, 18, 22, 3, 3, 1, 6, mlp_only_layers=[0], use_sliding_window=True,
            sliding_window=29, max_window_layers=2,
        ),
        "edges": [29],
        "note": "a shared expert with a gate, layer 0 dense, biases on q, k and v; windows of 29 "
        "in the even layers below `max_window_layers`",
    },
    "mixtral": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": mixtral(
            43, 20, 26, 3, 4, 2, 6, sliding_window=31, rms_norm_eps=1e-5, rope_theta=1000000.0,
            tie_word_embeddings=False,
        ),
        "store": stored,
        "edges": [31],
        "note": "5 experts, 2 for each token, tensors w1, w2, w3; windows of 31, untied head",
    },
    "olmoe": {
        "source": "transformers",
        "dtype": "float32",
        "config": family(
            "olmoe", "Olmoe", 41, 24, 17, 2, 4, 2, 6, without=["head_dim"], num_experts=9,
            num_experts_per_tok=4, clip_qkv=0.9, rms_norm_eps=1e-5, tie_word_embeddings=False,
        ),
        "note": "9 experts, 4 for each token, without `norm_topk_prob`; a norm of q and k over all "
        "heads, then `clip_qkv`",
    },
    "granitemoe": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "granitemoe", "GraniteMoe", 45, 22, 15, 2, 4, 2, 6, num_local_experts=6,
            num_experts_per_tok=3, embedding_multiplier=6.0, residual_multiplier=0.4,
            attention_multiplier=0.3, logits_scaling=4.0, tie_word_embeddings=False,
        ),
        "store": to_granitemoe,
        "note": "all experts of a layer in one tensor; multipliers as in `granite`",
    },
    "granitemoeshared": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "granitemoeshared", "GraniteMoeShared", 43, 20, 15, 2, 2, 1, 10, num_local_experts=5,
            num_experts_per_tok=2, shared_intermediate_size=21, embedding_multiplier=3.0,
            residual_multiplier=0.5, attention_multiplier=0.25, logits_scaling=2.0,
            attention_bias=True, tie_word_embeddings=False,
        ),
        "store": to_granitemoe,
        "note": "as `granitemoe`, with a shared expert without a gate; `attention_bias`",
    },
    "afmoe_experts": {
        "source": "transformers",
        "dtype": "bfloat16",
        "config": family(
            "afmoe", "Afmoe", 45, 20, 26, 4, 4, 2, 6, sliding_window=29, num_dense_layers=1,
            global_attn_every_n_layers=3, mup_enabled=True, rms_norm_eps=1e-5, num_experts=7,
            num_experts_per_tok=3, num_shared_experts=2, moe_intermediate_size=9, route_scale=1.7,
            tie_word_embeddings=False,
        ),
        "store": stored,
        "edges": [29],
        "note": "as `afmoe`, with experts from layer 1 on: sigmoids, `expert_bias` for the choice "
        "only, `route_scale`, two shared experts",
    },
    "mixtral_override_window": {
        "dtype": "bfloat16",
        "config": mixtral(45, 18, 21, 3, 3, 1, 6, sliding_window=None, max_position_embeddings=96),
        "store": stored,
        "overrides": {"full_layers": [1], "window": 33, "rerope_window": 37},
        "edges": [33, 37],
        "note": "windows of 33 by option, ReRoPE w = 37 in the full layer, experts in all layers",
    },
}
