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

ModelSpec PlanOfAlibi(const std::string& base, const char* changes, const char* options = "{}") {
  return DensePlan(Edited(base, changes), LoadOptions(options));
}

TEST(AlibiFamilyTest, Bloom) {
  const ModelSpec spec = PlanOfAlibi(kBloom, "{}");
  EXPECT_EQ(spec.layers.front().feed_forward, FeedForwardKind::kPlain);
  EXPECT_EQ(spec.width, 1024);
  EXPECT_EQ(spec.mlp_width, 4096);
  ASSERT_EQ(spec.layers.size(), 24u);
  EXPECT_EQ(spec.layers[0].num_heads, 16);
  EXPECT_EQ(spec.layers[0].head_dim, 64);
  EXPECT_EQ(spec.layers[23].position, PositionKind::kAlibi);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-4f);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_EQ(spec.activation, Activation::kGeluTanh);
  EXPECT_EQ(spec.context_limit, 2048);
  EXPECT_EQ(spec.training_length, 2048);
  // The default limit is a convention, so an option may exceed it.
  EXPECT_EQ(PlanOfAlibi(kBloom, "{}", R"({"context_limit": 9000})").context_limit, 9000);
  EXPECT_EQ(PlanOfAlibi(kBloom, R"({"seq_length": 4096})").context_limit, 4096);
  EXPECT_EQ(PlanOfAlibi(kBloom, R"({"hidden_size": 1024})").width, 1024);
  EXPECT_EQ(PlanOfAlibi(kBloom, R"({"n_inner": 96})").mlp_width, 96);
}

TEST(AlibiFamilyTest, Mpt) {
  const ModelSpec spec = PlanOfAlibi(kMpt, "{}");
  EXPECT_EQ(spec.layers.front().feed_forward, FeedForwardKind::kPlain);
  EXPECT_EQ(spec.width, 4096);
  EXPECT_EQ(spec.mlp_width, 3 * 4096);
  ASSERT_EQ(spec.layers.size(), 32u);
  EXPECT_EQ(spec.layers[0].num_kv_heads, 32);
  EXPECT_EQ(spec.layers[31].position, PositionKind::kAlibi);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-5f);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_EQ(spec.activation, Activation::kGelu);
  EXPECT_EQ(spec.context_limit, 4096);
  EXPECT_EQ(PlanOfAlibi(kMpt, R"({"attn_config": "<absent>", "max_seq_len": "<absent>",
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

const Refusal kWrongBloom[] = {
    {R"({"n_embed": "<absent>"})", "n_embed is missing, expected an integer from 1 to 16777216"},
    {R"({"hidden_size": 512})", "hidden_size = 512 disagrees with n_embed = 1024"},
    {R"({"num_attention_heads": 24})",
     "n_head must divide n_embed = 1024 where head_dim is absent, found 24"},
};

const Refusal kWrongMpt[] = {
    {R"({"attn_config": {"clip_qkv": -6}})",
     "attn_config.clip_qkv must be a number from 0 to 1e+09, found -6"},
    {R"({"attn_config": {"alibi_bias_max": 0}})",
     "attn_config.alibi_bias_max must be a number from 1 to 100, found 0"},
};

const Refusal kOtherMathematicsOfMpt[] = {
    {R"({"attn_config": {"alibi": false}})", "attn_config.alibi must be true, found false"},
    {R"({"attn_config": {"attn_type": "multiquery_attention"}})",
     "attn_config.attn_type must be \"multihead_attention\", found \"multiquery_attention\""},
    {R"({"attn_config": {"qk_ln": true}})", "attn_config.qk_ln must be false, found true"},
    {R"({"attn_config": {"rope": true}})", NotKnown("attn_config.rope = true", "attention of mpt")},
    {R"({"no_bias": false})", "no_bias must be true, found false"},
    {R"({"logit_scale": 0.5})", "logit_scale must be null, found 0.5"},
};

TEST(AlibiFamilyTest, SaysWhatIsWrong) {
  const auto bloom = [](const char* changes, const char*) { PlanOfAlibi(kBloom, changes); };
  const auto mpt = [](const char* changes, const char*) { PlanOfAlibi(kMpt, changes); };
  ExpectRefusals(LS_INVALID_ARGUMENT, kWrongBloom, bloom);
  ExpectRefusals(LS_INVALID_ARGUMENT, kWrongMpt, mpt);
  ExpectRefusals(LS_UNIMPLEMENTED, kOtherMathematicsOfMpt, mpt);
  const Refusal other_norms[] = {
      {R"({"apply_residual_connection_post_layernorm": true})",
       "apply_residual_connection_post_layernorm must be false, found true"}};
  ExpectRefusals(LS_UNIMPLEMENTED, other_norms, bloom);
}

}  // namespace
}  // namespace longstream
