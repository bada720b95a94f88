// The keys of published configs, family by family, with small numbers in place of theirs. Each key
// is read or known to be harmless.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>

#include "backends/architectures/families/family.h"
#include "backends/architectures/placement/dense_plan.h"
#include "backends/architectures/placement/hwfa2_plan.h"
#include "tests/backends/architectures/config_edit.h"
#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

// The keys that nearly all configs have.
constexpr std::string_view kAll = R"({
    "model_type": "llama", "architectures": ["ForCausalLM"], "attention_dropout": 0.0,
    "bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": 0, "hidden_act": "silu",
    "hidden_size": 24, "initializer_range": 0.02, "intermediate_size": 40,
    "max_position_embeddings": 640, "num_attention_heads": 4, "num_hidden_layers": 4,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "rope_scaling": null,
    "torch_dtype": "bfloat16", "transformers_version": "4.46.0", "use_cache": true,
    "vocab_size": 61, "_name_or_path": "somebody/something"})";

struct Published {
  const char* family;
  const char* backend;
  const char* changes;
  int64_t context_limit = 640;
};

const Published kPublished[] = {
    {"llama", "dense", R"({"pretraining_tp": 1, "num_key_value_heads": "<absent>"})"},
    // Llama 1, converted early
    {"llama", "dense", R"({"max_position_embeddings": "<absent>", "max_sequence_length": 2048,
         "num_key_value_heads": "<absent>"})",
     2048},
    {"llama", "dense", R"({"max_position_embeddings": "<absent>"})", 2048},
    // 3.1 to 3.3
    {"llama", "dense",
     R"({"attention_bias": false, "mlp_bias": false, "pretraining_tp": 1, "head_dim": 6,
         "tie_word_embeddings": true, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0,
         "high_freq_factor": 4.0, "rope_type": "llama3", "original_max_position_embeddings": 160}})"},
    // SmolLM2 and others trained with nanotron
    {"llama", "dense", R"({"is_llama_config": true, "rope_interleaved": false, "mlp_bias": false,
         "neftune_noise_alpha": 0.0, "pretraining_tp": 1,
         "transformers.js_config": {"dtype": "q4"}})"},
    // Extended by a third party
    {"llama", "dense", R"({"max_sequence_length": 2560, "gradient_checkpointing": false,
         "rope_scaling": {"type": "linear", "factor": 4.0}})",
     2560},
    {"mistral", "hwfa2",
     R"({"sliding_window": 96, "max_sequence_length": 2560, "_flash_attn_2_enabled": true,
         "auto_map": {"AutoConfig": "configuration.Config"}, "rope_scaling": {"type": "yarn",
         "factor": 4.0, "finetuned": true, "original_max_position_embeddings": 640}})",
     2560},
    {"mistral", "dense",
     R"({"sliding_window": null, "head_dim": 8, "unsloth_fixed": true, "unsloth_version": "2024.9"})"},

    {"qwen2", "dense", R"({"max_window_layers": 3, "sliding_window": 64, "use_mrope": false,
         "use_sliding_window": false, "tie_word_embeddings": true})"},
    // For a million tokens
    {"qwen2", "dense",
     R"({"max_window_layers": 28, "sliding_window": 640, "use_sliding_window": false,
         "dual_chunk_attention_config": {"chunk_size": 160, "local_size": 32,
         "original_max_position_embeddings": 160}})"},
    {"qwen3", "dense",
     R"({"attention_bias": false, "head_dim": 8, "max_window_layers": 4, "sliding_window": null,
         "use_sliding_window": false, "layer_types": ["full_attention", "full_attention",
         "full_attention", "full_attention"], "dtype": "bfloat16", "torch_dtype": "<absent>"})"},

    {"phi3", "hwfa2", R"({"attention_bias": false, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
         "original_max_position_embeddings": 640, "sliding_window": 96,
         "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}})"},
    // phi-4-mini
    {"phi3", "dense",
     R"({"attention_bias": false, "mlp_bias": false, "lm_head_bias": false, "embd_pdrop": 0.0,
         "resid_pdrop": 0.0, "full_attn_mod": 1, "interpolate_factor": 1,
         "partial_rotary_factor": 0.75, "original_max_position_embeddings": 160,
         "sliding_window": 640, "rope_scaling": {"type": "longrope", "short_factor": [1, 1],
         "long_factor": [1, 2]}})"},

    {"smollm3", "dense", R"({"attention_bias": false, "bos_token_id": null, "mlp_bias": false,
         "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"],
         "max_window_layers": 28, "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0],
         "pretraining_tp": 2, "sliding_window": null, "use_sliding_window": false})"},
    {"glm", "dense", R"({"attention_bias": true, "head_dim": 8, "rms_norm_eps": 1.5625e-07})"},
    // glm-edge
    {"glm", "dense", R"({"attention_bias": false, "head_dim": 8, "partial_rotary_factor": 1.0,
         "tie_word_embeddings": true})"},
    {"granite", "dense",
     R"({"attention_bias": false, "attention_multiplier": 0.125, "embedding_multiplier": 12.0,
         "logits_scaling": 16.0, "mlp_bias": false, "residual_multiplier": 0.22})"},
    {"exaone4", "hwfa2", R"({"head_dim": 8, "sliding_window": 96, "max_window_layers": 4,
         "sliding_window_pattern": "LLLG", "reorder_qk_norm": true,
         "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
         "full_attention"]})"},
    {"exaone4", "dense",
     R"({"head_dim": 8, "sliding_window": null, "sliding_window_pattern": null})"},
    {"olmo2", "dense", R"({"attention_bias": false})"},
    {"olmo3", "hwfa2",
     R"({"attention_bias": false, "rope_theta": 500000, "sliding_window": 96,
         "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
         "full_attention"], "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.2,
         "beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 80}})"},

    {"gemma", "dense",
     R"({"attention_bias": false, "head_dim": 8, "hidden_act": "gelu", "hidden_activation": null})"},
    {"gemma3_text", "hwfa2",
     R"({"attention_bias": false, "attn_logit_softcapping": null, "cache_implementation": "hybrid",
         "head_dim": 8, "final_logit_softcapping": null, "hidden_act": "<absent>",
         "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 8,
         "rope_local_base_freq": 10000, "sliding_window": 96, "sliding_window_pattern": 2})"},
    {"gemma3_text", "hwfa2",
     R"({"_sliding_window_pattern": 6, "head_dim": 8, "hidden_act": "<absent>",
         "query_pre_attn_scalar": 8, "hidden_activation": "gelu_pytorch_tanh",
         "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
         "full_attention"], "rope_local_base_freq": 10000, "sliding_window": 96,
         "use_bidirectional_attention": false})"},

    {"gemma2", "hwfa2",
     R"({"attention_bias": false, "attn_logit_softcapping": 50.0, "cache_implementation": "hybrid",
         "final_logit_softcapping": 30.0, "head_dim": 8, "hidden_act": "gelu_pytorch_tanh",
         "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 8,
         "sliding_window": 96, "sliding_window_size": 96})"},
    {"afmoe", "hwfa2",
     R"({"global_attn_every_n_layers": 4, "head_dim": 8, "layer_types": ["sliding_attention",
         "sliding_attention", "sliding_attention", "full_attention"], "load_balance_coeff": 0.001,
         "moe_intermediate_size": 16, "mup_enabled": true, "n_group": 1, "num_dense_layers": 4,
         "num_expert_groups": 1, "num_experts": 8, "num_experts_per_tok": 2,
         "num_limited_groups": 1, "num_shared_experts": 1, "route_norm": true, "route_scale": 2.8,
         "score_func": "sigmoid", "sliding_window": 96, "tie_word_embeddings": false,
         "topk_group": 1, "use_grouped_mm": true})"},
    {"bloom", "dense",
     R"({"apply_residual_connection_post_layernorm": false, "attention_softmax_in_fp32": true,
         "bias_dropout_fusion": true, "hidden_dropout": 0.0, "intermediate_size": "<absent>",
         "layer_norm_epsilon": 1e-5, "masked_softmax_fusion": true,
         "max_position_embeddings": "<absent>", "n_embed": 24, "n_inner": null, "n_layer": 4,
         "num_key_value_heads": "<absent>", "offset_alibi": 100, "pretraining_tp": 4,
         "seq_length": 640, "skip_bias_add": true, "skip_bias_add_qkv": false, "unk_token_id": 0})"},
    {"mpt", "dense",
     R"({"attn_config": {"alibi": true, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0,
         "attn_type": "multihead_attention", "attn_uses_sequence_id": false, "clip_qkv": null,
         "model_type": "", "prefix_lm": false, "qk_ln": false, "softmax_scale": null},
         "d_model": 24, "emb_pdrop": 0, "embedding_fraction": 1.0, "expansion_ratio": 4,
         "hidden_size": "<absent>", "init_config": {"emb_init_std": null,
         "name": "kaiming_normal_"}, "init_device": "cpu", "intermediate_size": "<absent>",
         "learned_pos_emb": true, "logit_scale": null, "max_position_embeddings": "<absent>",
         "max_seq_len": 640, "n_heads": 4, "n_layers": 4, "no_bias": true,
         "norm_type": "low_precision_layernorm", "num_attention_heads": "<absent>",
         "num_hidden_layers": "<absent>", "num_key_value_heads": "<absent>", "resid_pdrop": 0,
         "tokenizer_name": "EleutherAI/gpt-neox-20b", "verbose": 0})"},

    // max_position_embeddings is the length of its first training.
    {"cohere", "dense", R"({"attention_bias": false, "layer_norm_eps": 1e-5, "logit_scale": 0.0625,
         "model_max_length": 10240, "pretraining_tp": 1, "rms_norm_eps": "<absent>",
         "use_qk_norm": false})",
     10240},
    // R+
    {"cohere", "dense",
     R"({"attention_bias": false, "layer_norm_eps": 1e-5, "logit_scale": 0.8333333333333334,
         "rms_norm_eps": "<absent>", "use_qk_norm": true})"},
    {"cohere2", "hwfa2",
     R"({"attention_bias": false, "cache_implementation": "hybrid", "head_dim": 8,
         "layer_norm_eps": 1e-5, "layer_switch": 4, "logit_scale": 0.25,
         "rms_norm_eps": "<absent>", "order_of_interleaved_layers": "local_attn_first",
         "position_embedding_type": "rope_gptj", "rotary_pct": 1.0, "sliding_window": 96,
         "sliding_window_pattern": 4, "use_embedding_sharing": true, "use_gated_activation": true,
         "use_parallel_block": true, "use_parallel_embedding": false})"},
    {"cohere2", "hwfa2",
     R"({"_sliding_window_pattern": 4, "head_dim": 8, "layer_types": ["sliding_attention",
         "sliding_attention", "sliding_attention", "full_attention"], "sliding_window": 96,
         "use_qk_norm": false})"}};

void PrintTo(const Published& published, std::ostream* out) {
  *out << published.family << " " << published.changes;
}

class PublishedKeysTest : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedKeysTest, AreKnown) {
  const Published& published = GetParam();
  const std::string typed =
      EditedText(kAll, "{\"model_type\": \"" + std::string(published.family) + "\"}");
  const Config config = Edited(typed, published.changes);
  std::string why;
  const bool is_dense = DenseFit(config, &why) > Hwfa2Fit(config, &why);
  EXPECT_EQ(is_dense ? "dense" : "hwfa2", std::string(published.backend));
  const ModelSpec spec =
      is_dense ? DensePlan(config, LoadOptions("{}")) : Hwfa2Plan(config, LoadOptions("{}"));
  EXPECT_EQ(spec.context_limit, published.context_limit);
}

INSTANTIATE_TEST_SUITE_P(Hub, PublishedKeysTest, ::testing::ValuesIn(kPublished));

TEST(PublishedKeysTest, OfEveryFamily) {
  std::string families = FamilyNames() + ", ";
  for (const Published& published : kPublished) {
    const size_t found = families.find(std::string(published.family) + ", ");
    if (found != std::string::npos) families.erase(found, families.find(' ', found) + 1 - found);
  }
  EXPECT_EQ(families, "");
}

TEST(PublishedKeysTest, OtherMethodsOfQuantisationAreRefused) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    const std::string changes =
        "{\"" + std::string(key) + R"(": {"quant_method": "bitsandbytes"}})";
    ExpectError(
        LS_UNIMPLEMENTED,
        "m/config.json: " + std::string(key) +
            ".quant_method must be one of awq, compressed-tensors, fbgemm_fp8, fp8, gptq (or use "
            "the "
            "original checkpoint, which the option weights quantises), found \"bitsandbytes\"",
        [&] { DensePlan(Edited(kAll, changes), LoadOptions("{}")); });
  }
}

TEST(PublishedKeysTest, QuantisedCheckpointsAreServed) {
  DensePlan(Edited(kAll, R"({"quantization_config": {"quant_method": "gptq", "bits": 4,
                             "group_size": 128, "desc_act": false, "meta": {"quantizer": "x"}}})"),
            LoadOptions("{}"));
}

// cohere2's pattern has three names. transformers reads one of them, so the others must agree.
TEST(PublishedKeysTest, NamesOfCohere2sPattern) {
  const auto second_is_window = [](const char* changes) {
    const std::string typed =
        EditedText(kAll, R"({"model_type": "cohere2", "sliding_window": 96})");
    const ModelSpec spec = Hwfa2Plan(Edited(typed, changes), LoadOptions("{}"));
    return spec.layers[1].kind == MixerKind::kWindow;
  };
  EXPECT_TRUE(second_is_window("{}"));
  EXPECT_FALSE(second_is_window(R"({"sliding_window_pattern": 2})"));
  EXPECT_FALSE(second_is_window(R"({"layer_switch": 2, "sliding_window_pattern": 2})"));
  EXPECT_TRUE(second_is_window(R"({"layer_switch": 2, "layer_types": ["sliding_attention",
      "sliding_attention", "full_attention", "full_attention"]})"));
  for (const char* key : {"layer_switch", "_sliding_window_pattern"}) {
    ExpectError(
        LS_UNIMPLEMENTED,
        "m/config.json: " + std::string(key) + " must be sliding_window_pattern = 4, found 2",
        [&] { second_is_window(("{\"" + std::string(key) + "\": 2}").c_str()); });
  }
}

}  // namespace
}  // namespace longstream
