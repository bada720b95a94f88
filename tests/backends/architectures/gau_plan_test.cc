// Specs of models with gated attention units: every key and every refusal, in `dense` and in
// `hwfa2`.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backends/architectures/placement/dense_plan.h"
#include "backends/architectures/placement/hwfa2_plan.h"
#include "tests/backends/architectures/config_edit.h"
#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

constexpr std::string_view kGau = R"({
    "model_type": "hwfa2", "block_type": "gau", "gau_expansion": 72, "gau_key_dim": 24,
    "vocab_size": 61, "hidden_size": 30, "num_hidden_layers": 3, "max_position_embeddings": 4096,
    "training_length": 96, "sliding_window": 20, "num_full_layers": 1})";

ModelSpec Plan(std::string_view changes, const char* options = "{}") {
  return Hwfa2Plan(Edited(kGau, changes), LoadOptions(options));
}

constexpr std::string_view kOfLlama =
    R"({"model_type": "llama", "sliding_window": "<absent>", "num_full_layers": "<absent>"})";

TEST(GauPlanTest, ReadsEveryKey) {
  const ModelSpec spec = Plan("{}");
  EXPECT_EQ(spec.feed_forward, FeedForwardKind::kNone);
  EXPECT_TRUE(spec.layers[0].gau);
  EXPECT_EQ(spec.mlp_width, 0);
  EXPECT_EQ(spec.names.final_norm, "");
  EXPECT_EQ(spec.names.mixer_norm, "");
  EXPECT_EQ(spec.names.stream_norm, "post_attention_layernorm");
  for (const MixerSpec& mixer : spec.layers) {
    EXPECT_EQ(mixer.num_heads, 1);
    EXPECT_EQ(mixer.num_kv_heads, 1);
    EXPECT_EQ(mixer.head_dim, 24);
    EXPECT_EQ(mixer.value_dim, 72);
    EXPECT_EQ(mixer.value_slices(), 3);
    EXPECT_EQ(mixer.score_scale, 1.0 / std::sqrt(24.0));
    EXPECT_TRUE(mixer.output_gate);
    EXPECT_EQ(mixer.qk_norm, QkNorm::kNone);
  }
  EXPECT_EQ(spec.layers[0].kind, MixerKind::kWindow);
  EXPECT_EQ(spec.layers[0].window, 20);
  EXPECT_EQ(spec.layers[1].position, PositionKind::kRerope);
  EXPECT_EQ(spec.layers[1].rerope_window, 48);
}

TEST(GauPlanTest, AbsentSizesAreThoseOfThePaper) {
  const ModelSpec spec =
      Plan(R"({"hidden_size": 768, "gau_expansion": "<absent>", "gau_key_dim": "<absent>"})");
  EXPECT_EQ(spec.layers[0].head_dim, 128);
  EXPECT_EQ(spec.layers[0].value_dim, 1536);
}

// A program that knows Llama's keys writes them like this.
TEST(GauPlanTest, AcceptsKeysThatAgree) {
  const ModelSpec spec = Plan(R"({
      "head_dim": 24, "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 72,
      "attention_bias": false, "mlp_bias": false, "use_qk_norm": false, "hidden_act": "silu"})");
  EXPECT_EQ(spec.layers[0].value_slices(), 3);
}

TEST(GauPlanTest, OfLlamaItIsDense) {
  const Config config(Edited(kGau, kOfLlama));
  std::string why;
  EXPECT_EQ(DenseFit(config, &why), 100);
  const ModelSpec dense = DensePlan(config, LoadOptions(R"({"logn": "extrapolate"})"));
  EXPECT_EQ(dense.feed_forward, FeedForwardKind::kNone);
  EXPECT_TRUE(dense.layers[2].gau);
  EXPECT_EQ(dense.names.stream_norm, "post_attention_layernorm");
  EXPECT_EQ(dense.layers[2].kind, MixerKind::kFull);
  EXPECT_EQ(dense.layers[2].position, PositionKind::kRope);
  EXPECT_EQ(dense.layers[2].logit_scale, LogitScaleKind::kLogNExtrapolate);
  const ModelSpec rerope =
      Hwfa2Plan(Edited(kGau, kOfLlama), LoadOptions(R"({"rerope_window": 40})"));
  EXPECT_EQ(rerope.layers[0].position, PositionKind::kRerope);
  EXPECT_EQ(rerope.layers[0].rerope_window, 40);
}

TEST(GauPlanTest, HwfaIsAPlanOfWindowsBeforeAFullLayer) {
  const ModelSpec spec = Plan(R"({"num_full_layers": "<absent>", "full_position": "nope",
      "logn_scaling": "always",
      "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]})");
  EXPECT_EQ(spec.layers[1].kind, MixerKind::kWindow);
  EXPECT_EQ(spec.layers[2].position, PositionKind::kNone);
  EXPECT_EQ(spec.layers[2].logit_scale, LogitScaleKind::kLogNAlways);
}

struct Refusal {
  const char* changes;
  int32_t code;
  const char* sentence;
};

class GauPlanErrorTest : public testing::TestWithParam<Refusal> {};

TEST_P(GauPlanErrorTest, SaysWhatIsWrong) {
  const Refusal& refusal = GetParam();
  ExpectError(refusal.code, refusal.sentence, [&] { Plan(refusal.changes); });
}

INSTANTIATE_TEST_SUITE_P(
    All, GauPlanErrorTest,
    testing::Values(
        Refusal{R"({"gau_expansion": 2})", LS_INVALID_ARGUMENT,
                "m/config.json: gau_expansion is the width of values and must be a multiple of "
                "gau_key_dim = 24, found 2"},
        Refusal{R"({"gau_expansion": "<absent>"})", LS_INVALID_ARGUMENT,
                "m/config.json: gau_expansion is the width of values and must be a multiple of "
                "gau_key_dim = 24, found 60, which is 2 * hidden_size, as it is absent"},
        Refusal{R"({"gau_key_dim": 9})", LS_INVALID_ARGUMENT,
                "m/config.json: gau_key_dim must be even for RoPE, found 9"},
        Refusal{R"({"head_dim": 36})", LS_INVALID_ARGUMENT,
                "m/config.json: head_dim must be absent or gau_key_dim = 24 beside block_type gau, "
                "found 36"},
        Refusal{R"({"intermediate_size": 80})", LS_INVALID_ARGUMENT,
                "m/config.json: intermediate_size must be absent or gau_expansion = 72 beside "
                "block_type gau, found 80"},
        Refusal{R"({"num_attention_heads": 2})", LS_INVALID_ARGUMENT,
                "m/config.json: num_attention_heads must be absent or 1 beside block_type gau, "
                "found 2"},
        Refusal{R"({"num_key_value_heads": 3})", LS_INVALID_ARGUMENT,
                "m/config.json: num_key_value_heads must be absent or 1 beside block_type gau, "
                "found 3"},
        Refusal{R"({"use_qk_norm": true})", LS_UNIMPLEMENTED,
                "m/config.json: use_qk_norm must be false, found true"},
        Refusal{R"({"attention_bias": true})", LS_UNIMPLEMENTED,
                "m/config.json: attention_bias must be false, found true"},
        Refusal{R"({"mlp_bias": true})", LS_UNIMPLEMENTED,
                "m/config.json: mlp_bias must be false, found true"},
        Refusal{R"({"hidden_act": "gelu_new"})", LS_UNIMPLEMENTED,
                "m/config.json: hidden_act must be silu beside block_type gau, found "
                "\"gelu_new\""}));

}  // namespace
}  // namespace longstream
