// Specs of models with gated attention units: defaults and refusals. The logits of tests/golden
// test the keys that a config states, in `dense` and in `hwfa2`.
#include <gtest/gtest.h>

#include <string>

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

ModelSpec PlanOfGau(std::string_view changes, const char* options = "{}") {
  return Hwfa2Plan(Edited(kGau, changes), LoadOptions(options));
}

TEST(GauPlanTest, AbsentSizesAreThoseOfThePaper) {
  const ModelSpec spec =
      PlanOfGau(R"({"hidden_size": 768, "gau_expansion": "<absent>", "gau_key_dim": "<absent>"})");
  EXPECT_EQ(spec.layers[0].head_dim, 128);
  EXPECT_EQ(spec.layers[0].value_dim, 1536);
}

// Programs that know Llama's keys also write these.
TEST(GauPlanTest, AcceptsKeysThatAgree) {
  const ModelSpec spec = PlanOfGau(R"({
      "head_dim": 24, "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 72,
      "attention_bias": false, "mlp_bias": false, "use_qk_norm": false, "hidden_act": "silu"})");
  EXPECT_EQ(spec.layers[0].value_slices(), 3);
}

TEST(GauPlanTest, WithoutWindowsItIsDense) {
  std::string why;
  const char* changes =
      R"({"model_type": "llama", "sliding_window": "<absent>", "num_full_layers": "<absent>"})";
  EXPECT_EQ(DenseFit(Edited(kGau, changes), &why), 100);
  const ModelSpec spec =
      DensePlan(Edited(kGau, changes), LoadOptions(R"({"logn": "extrapolate"})"));
  EXPECT_TRUE(spec.layers[2].gau);
  EXPECT_EQ(spec.layers[2].kind, MixerKind::kFull);
  EXPECT_EQ(spec.layers[2].position, PositionKind::kRope);
  EXPECT_EQ(spec.layers[2].logit_scale, LogitScaleKind::kLogNExtrapolate);
}

const Refusal kWrongValuesOfGau[] = {
    {R"({"gau_expansion": 2})",
     "gau_expansion is the width of values and must be a multiple of gau_key_dim = 24, found 2"},
    {R"({"gau_expansion": "<absent>"})",
     "gau_expansion is the width of values and must be a multiple of gau_key_dim = 24, found 60, "
     "which is 2 * hidden_size, as it is absent"},
    {R"({"gau_key_dim": 9})", "gau_key_dim must be even for RoPE, found 9"},
    {R"({"head_dim": 36})",
     "head_dim must be absent or gau_key_dim = 24 beside block_type gau, found 36"},
    {R"({"intermediate_size": 80})",
     "intermediate_size must be absent or gau_expansion = 72 beside block_type gau, found 80"},
    {R"({"num_attention_heads": 2})",
     "num_attention_heads must be absent or 1 beside block_type gau, found 2"},
    {R"({"num_key_value_heads": 3})",
     "num_key_value_heads must be absent or 1 beside block_type gau, found 3"},
};

const Refusal kOtherMathematicsOfGau[] = {
    {R"({"use_qk_norm": true})", "use_qk_norm must be false, found true"},
    {R"({"attention_bias": true})", "attention_bias must be false, found true"},
    {R"({"mlp_bias": true})", "mlp_bias must be false, found true"},
    {R"({"hidden_act": "gelu_new"})",
     "hidden_act must be silu beside block_type gau, found \"gelu_new\""},
};

TEST(GauPlanTest, SaysWhatIsWrong) {
  ExpectRefusals(LS_INVALID_ARGUMENT, kWrongValuesOfGau, PlanOfGau);
  ExpectRefusals(LS_UNIMPLEMENTED, kOtherMathematicsOfGau, PlanOfGau);
}

}  // namespace
}  // namespace longstream
