// The families with ALiBi, whose configs have other names for their sizes.
#include <gtest/gtest.h>

#include <string>

#include "backends/architectures/placement/dense_plan.h"
#include "backends/architectures/placement/hwfa2_plan.h"
#include "tests/backends/architectures/config_edit.h"
#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

// As bigscience/bloom-560m and mosaicml/mpt-7b have them.
const std::string kBloom = R"({
    "apply_residual_connection_post_layernorm": false, "attention_dropout": 0.0,
    "attention_softmax_in_fp32": true, "bias_dropout_fusion": true, "hidden_dropout": 0.0,
    "initializer_range": 0.02, "layer_norm_epsilon": 1e-4, "masked_softmax_fusion": true,
    "model_type": "bloom", "n_embed": 1024, "n_inner": null, "n_layer": 24,
    "num_attention_heads": 16, "offset_alibi": 100, "pretraining_tp": 1, "skip_bias_add": true,
    "skip_bias_add_qkv": false, "unk_token_id": 0, "use_cache": true, "vocab_size": 250880})";
const std::string kMpt = R"({
    "attn_config": {"alibi": true, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0,
                    "attn_type": "multihead_attention", "attn_uses_sequence_id": false,
                    "clip_qkv": null, "prefix_lm": false, "qk_ln": false, "softmax_scale": null},
    "d_model": 4096, "emb_pdrop": 0, "embedding_fraction": 1.0, "expansion_ratio": 3,
    "init_config": {"name": "kaiming_normal_"}, "init_device": "cpu", "learned_pos_emb": true,
    "logit_scale": null, "max_seq_len": 4096, "model_type": "mpt", "n_heads": 32, "n_layers": 32,
    "no_bias": true, "norm_type": "low_precision_layernorm", "resid_pdrop": 0,
    "tokenizer_name": "EleutherAI/gpt-neox-20b", "use_cache": false, "verbose": 0,
    "vocab_size": 50432})";

ModelSpec Plan(const std::string& base, const char* changes, const char* options = "{}") {
  return DensePlan(Edited(base, changes), LoadOptions(options));
}

TEST(AlibiFamilyTest, Bloom) {
  const ModelSpec spec = Plan(kBloom, "{}");
  EXPECT_EQ(spec.feed_forward, FeedForwardKind::kPlain);
  EXPECT_EQ(spec.width, 1024);
  EXPECT_EQ(spec.mlp_width, 4096);
  ASSERT_EQ(spec.layers.size(), 24u);
  EXPECT_EQ(spec.layers[0].num_heads, 16);
  EXPECT_EQ(spec.layers[0].head_dim, 64);
  EXPECT_EQ(spec.layers[23].position, PositionKind::kAlibi);
  EXPECT_TRUE(spec.layers[0].qkv_bias);
  EXPECT_TRUE(spec.layers[0].output_bias);
  EXPECT_TRUE(spec.mlp_bias);
  EXPECT_TRUE(spec.layer_norm);
  EXPECT_TRUE(spec.norm_bias);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-4f);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_EQ(spec.activation, Activation::kGeluTanh);
  EXPECT_EQ(spec.context_limit, 2048);
  EXPECT_EQ(spec.training_length, 2048);
  // The default limit is a convention, so an option may exceed it.
  EXPECT_EQ(Plan(kBloom, "{}", R"({"context_limit": 9000})").context_limit, 9000);
  EXPECT_EQ(Plan(kBloom, R"({"seq_length": 4096})").context_limit, 4096);
  EXPECT_EQ(Plan(kBloom, R"({"hidden_size": 1024})").width, 1024);
  EXPECT_EQ(Plan(kBloom, R"({"n_inner": 96})").mlp_width, 96);
}

TEST(AlibiFamilyTest, Mpt) {
  const ModelSpec spec = Plan(kMpt, "{}");
  EXPECT_EQ(spec.feed_forward, FeedForwardKind::kPlain);
  EXPECT_EQ(spec.width, 4096);
  EXPECT_EQ(spec.mlp_width, 3 * 4096);
  ASSERT_EQ(spec.layers.size(), 32u);
  EXPECT_EQ(spec.layers[0].num_kv_heads, 32);
  EXPECT_EQ(spec.layers[31].position, PositionKind::kAlibi);
  EXPECT_FALSE(spec.layers[0].qkv_bias);
  EXPECT_FALSE(spec.mlp_bias);
  EXPECT_TRUE(spec.layer_norm);
  EXPECT_FALSE(spec.norm_bias);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-5f);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_EQ(spec.activation, Activation::kGelu);
  EXPECT_EQ(spec.context_limit, 4096);
  EXPECT_EQ(Plan(kMpt, R"({"attn_config": {"softmax_scale": 0.25}})").layers[0].score_scale, 0.25);
  EXPECT_EQ(spec.layers[0].qkv_clip, 0.0);
  EXPECT_EQ(spec.layers[0].alibi_max, 8.0);
  // StoryWriter
  const ModelSpec clipped = Plan(kMpt, R"({"attn_config": {"clip_qkv": 6, "alibi_bias_max": 16}})");
  EXPECT_EQ(clipped.layers[31].qkv_clip, 6.0);
  EXPECT_EQ(clipped.layers[31].alibi_max, 16.0);
  EXPECT_EQ(Plan(kMpt, R"({"attn_config": "<absent>", "max_seq_len": "<absent>",
                           "expansion_ratio": "<absent>"})")
                .mlp_width,
            4 * 4096);
}

TEST(AlibiFamilyTest, IsForTheBackendDense) {
  std::string why;
  for (const std::string& config : {kBloom, kMpt}) {
    EXPECT_EQ(DenseFit(Edited(config, "{}"), &why), 100);
    EXPECT_EQ(Hwfa2Fit(Edited(config, "{}"), &why), 40);
  }
}

struct Refusal {
  const std::string& base;
  const char* changes;
  ls_code code;
  const char* message;
};

class AlibiFamilyErrorTest : public testing::TestWithParam<Refusal> {};

TEST_P(AlibiFamilyErrorTest, SaysWhatIsWrong) {
  ExpectError(GetParam().code, std::string(GetParam().message),
              [] { Plan(GetParam().base, GetParam().changes); });
}

INSTANTIATE_TEST_SUITE_P(
    All, AlibiFamilyErrorTest,
    testing::Values(
        Refusal{kBloom, R"({"n_embed": "<absent>"})", LS_INVALID_ARGUMENT,
                "m/config.json: n_embed is missing, expected an integer from 1 to 16777216"},
        Refusal{kBloom, R"({"hidden_size": 512})", LS_INVALID_ARGUMENT,
                "m/config.json: hidden_size = 512 disagrees with n_embed = 1024"},
        Refusal{kBloom, R"({"num_attention_heads": 24})", LS_INVALID_ARGUMENT,
                "m/config.json: n_head must divide n_embed = 1024 where head_dim is absent, found "
                "24"},
        Refusal{kBloom, R"({"apply_residual_connection_post_layernorm": true})", LS_UNIMPLEMENTED,
                "m/config.json: apply_residual_connection_post_layernorm must be false, found "
                "true"},
        Refusal{kMpt, R"({"attn_config": {"clip_qkv": -6}})", LS_INVALID_ARGUMENT,
                "m/config.json: attn_config.clip_qkv must be a number from 0 to 1e+09, found -6"},
        Refusal{kMpt, R"({"attn_config": {"alibi": false}})", LS_UNIMPLEMENTED,
                "m/config.json: attn_config.alibi must be true, found false"},
        Refusal{
            kMpt, R"({"attn_config": {"alibi_bias_max": 0}})", LS_INVALID_ARGUMENT,
            "m/config.json: attn_config.alibi_bias_max must be a number from 1 to 100, found 0"},
        Refusal{kMpt, R"({"attn_config": {"attn_type": "multiquery_attention"}})", LS_UNIMPLEMENTED,
                "m/config.json: attn_config.attn_type must be \"multihead_attention\", found "
                "\"multiquery_attention\""},
        Refusal{kMpt, R"({"attn_config": {"qk_ln": true}})", LS_UNIMPLEMENTED,
                "m/config.json: attn_config.qk_ln must be false, found true"},
        Refusal{kMpt, R"({"attn_config": {"rope": true}})", LS_UNIMPLEMENTED,
                "m/config.json: attn_config.rope = true is not known to attention of mpt, and what "
                "is not known may change the mathematics"},
        Refusal{kMpt, R"({"no_bias": false})", LS_UNIMPLEMENTED,
                "m/config.json: no_bias must be true, found false"},
        Refusal{kMpt, R"({"logit_scale": 0.5})", LS_UNIMPLEMENTED,
                "m/config.json: logit_scale must be null, found 0.5"}));

}  // namespace
}  // namespace longstream
