// Specs of `dense`: every key of a Llama-shaped config, and each refusal. family_test.cc has the
// other families. The logits of tests/golden test other positions and log n scaling.
#include "backends/architectures/placement/dense_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "backends/architectures/families/family.h"
#include "tests/backends/architectures/config_edit.h"
#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

ModelSpec PlanOfLlama(std::string_view changes, const char* options = "{}") {
  return DensePlan(Edited(kLlama, changes), LoadOptions(options));
}

TEST(DensePlanTest, ReadsEveryKey) {
  const ModelSpec spec = PlanOfLlama("{}");
  EXPECT_EQ(spec.architecture, "llama");
  EXPECT_EQ(spec.vocabulary, 61);
  EXPECT_EQ(spec.width, 24);
  EXPECT_EQ(spec.mlp_width, 40);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-5f);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_FALSE(spec.mlp_bias);
  EXPECT_EQ(spec.context_limit, 640);
  EXPECT_EQ(spec.training_length, 640);
  ASSERT_EQ(spec.layers.size(), 3u);
  for (const MixerSpec& mixer : spec.layers) {
    EXPECT_EQ(mixer.kind, MixerKind::kFull);
    EXPECT_EQ(mixer.position, PositionKind::kRope);
    EXPECT_EQ(mixer.num_heads, 6);
    EXPECT_EQ(mixer.num_kv_heads, 2);
    EXPECT_EQ(mixer.head_dim, 8);
    EXPECT_EQ(mixer.value_dim, 8);
    EXPECT_FALSE(mixer.qkv_bias);
    EXPECT_FALSE(mixer.output_bias);
    EXPECT_EQ(mixer.rope.theta, 500000.0);
    EXPECT_EQ(mixer.logit_scale, LogitScaleKind::kNone);
    EXPECT_DOUBLE_EQ(mixer.score_scale, 1.0 / std::sqrt(8.0));
  }
}

TEST(DensePlanTest, DefaultsOfLlama) {
  const ModelSpec spec = PlanOfLlama(R"({"num_key_value_heads": "<absent>", "head_dim": "<absent>",
      "rms_norm_eps": "<absent>", "rope_theta": "<absent>", "tie_word_embeddings": "<absent>"})");
  EXPECT_EQ(spec.layers[0].num_kv_heads, 6);
  EXPECT_EQ(spec.layers[0].head_dim, 4);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-6f);
  EXPECT_EQ(spec.layers[0].rope.theta, 10000.0);
  EXPECT_FALSE(spec.tied_head);
}

TEST(DensePlanTest, Biases) {
  const MixerSpec with_key = PlanOfLlama(R"({"attention_bias": true})").layers[0];
  EXPECT_TRUE(with_key.qkv_bias);
  EXPECT_TRUE(with_key.output_bias);
  EXPECT_TRUE(PlanOfLlama(R"({"mlp_bias": true})").mlp_bias);
}

TEST(DensePlanTest, RopeIsTheDefaultSpelledOut) {
  for (const char* changes : {R"({"full_position": null})", R"({"full_position": "rope"})"}) {
    EXPECT_EQ(PlanOfLlama(changes).layers[2].position, PositionKind::kRope) << changes;
  }
}

TEST(DensePlanTest, Options) {
  const ModelSpec spec = PlanOfLlama(R"({"logn_scaling": "always"})",
                                     R"({"logn": "extrapolate", "training_length": 128,
                                  "context_limit": 4096, "weights": "f32"})");
  EXPECT_EQ(spec.context_limit, 4096);
  EXPECT_EQ(spec.training_length, 128);
  EXPECT_EQ(spec.layers[0].logit_scale, LogitScaleKind::kLogNExtrapolate);
  EXPECT_EQ(spec.layers[0].logit_scale_base, 128.0);
  // The context limit is not the training length.
  EXPECT_EQ(PlanOfLlama("{}", R"({"context_limit": 4096})").training_length, 640);
}

TEST(DensePlanTest, MayNameItsOwnBlock) {
  EXPECT_FALSE(PlanOfLlama(R"({"block_type": "transformer"})").layers[0].gau);
}

const Refusal kWrongValuesOfDense[] = {
    {R"({"vocab_size": "<absent>"})",
     "vocab_size is missing, expected an integer from 1 to 2147483647"},
    {R"({"hidden_size": "<absent>"})",
     "hidden_size is missing, expected an integer from 1 to 16777216"},
    {R"({"intermediate_size": null})",
     "intermediate_size is missing, expected an integer from 1 to 16777216"},
    {R"({"num_hidden_layers": "<absent>"})",
     "num_hidden_layers is missing, expected an integer from 1 to 4096"},
    {R"({"num_attention_heads": "<absent>"})",
     "num_attention_heads is missing, expected an integer from 1 to 16777216"},
    {R"({"model_type": "qwen2", "max_position_embeddings": "<absent>"})",
     "max_position_embeddings is missing, expected an integer from 1 to 1099511627776"},
    {R"({"vocab_size": 0})", "vocab_size must be an integer from 1 to 2147483647, found 0"},
    {R"({"num_hidden_layers": 1e9})",
     "num_hidden_layers must be an integer from 1 to 4096, found 1000000000.0"},
    {R"({"num_key_value_heads": 4})",
     "num_key_value_heads must divide num_attention_heads = 6, found 4"},
    {R"({"num_key_value_heads": 12})",
     "num_key_value_heads must be an integer from 1 to 6, found 12"},
    {R"({"head_dim": "<absent>", "num_attention_heads": 5, "num_key_value_heads": 1})",
     "num_attention_heads must divide hidden_size = 24 where head_dim is absent, found 5"},
    {R"({"head_dim": 7})", "head_dim must be even for RoPE, found 7"},
    {R"({"head_dim": 8192})", "head_dim must be an integer from 2 to 4096, found 8192"},
    {R"({"head_dim": 4096, "num_attention_heads": 8192})",
     "num_attention_heads must be at most 4096 where heads are 4096 wide, found 8192"},
    {R"({"head_dim": "<absent>", "hidden_size": 16384, "num_attention_heads": 2,
          "num_key_value_heads": 2})",
     "num_attention_heads must divide hidden_size = 16384 into heads of at most 4096, found 2"},
    {R"({"rms_norm_eps": "tiny"})", "rms_norm_eps must be a number from 0 to 1, found \"tiny\""},
    {R"({"rope_theta": 0})", "rope_theta must be a number from 1 to 1e+15, found 0"},
    {R"({"rope_parameters": {"rope_theta": 10000.0}})",
     "rope_parameters.rope_theta = 10000.0 disagrees with rope_theta = 500000.0"},
    {R"({"rope_scaling": "linear"})", "rope_scaling must be an object, found \"linear\""},
    {R"({"tie_word_embeddings": 1})", "tie_word_embeddings must be true or false, found 1"},
    {R"({"training_length": 1})",
     "training_length must be an integer from 2 to 1099511627776, found 1"},
    {R"({"model_type": "qwen3", "layer_types": ["full_attention", "full_attention",
          "sliding_attention"]})",
     "layer_types asks for sliding_attention, expected use_sliding_window = true and "
     "sliding_window beside it, found nothing and nothing"},
    {R"({"model_type": "qwen3", "layer_types": ["full_attention"]})",
     "layer_types must have num_hidden_layers = 3 items, found 1"},
    // ln 1 = 0 would be a divisor.
    {R"({"max_position_embeddings": 1})",
     "max_position_embeddings must be at least 2 as the training length that log n scaling needs, "
     "found 1",
     R"({"logn": "always"})"},
    {"{}",
     "options: training_length acts on nothing: there is neither log n scaling nor a default "
     "rerope_window",
     R"({"training_length": 64})"},
};

const Refusal kOtherMathematicsOfDense[] = {
    {R"({"model_type": "gpt2"})",
     "model_type must be one of " + FamilyNames() + " for the backend dense, found \"gpt2\""},
    {R"({"model_type": "<absent>"})",
     "model_type must be one of " + FamilyNames() + " for the backend dense, found nothing"},
    {R"({"hidden_act": "relu"})",
     "hidden_act must be silu, gelu or gelu_pytorch_tanh, found \"relu\""},
    {R"({"model_type": "qwen3", "block_type": "gau"})",
     "block_type must be \"transformer\", found \"gau\""},
    {R"({"model_type": "qwen3", "mlp_bias": true})", "mlp_bias must be false, found true"},
    {R"({"num_local_experts": 8})", NotKnown("num_local_experts = 8", "the backend dense")},
    {R"({"sliding_window": 512})", NotKnown("sliding_window = 512", "the backend dense")},
    {R"({"full_position": "rerope"})",
     "full_position must be rope, alibi or nope, found \"rerope\""},
    {R"({"logn_scaling": "sometimes"})",
     "logn_scaling must be null, \"always\" or \"extrapolate\", found \"sometimes\""},
    {R"({"model_type": "mistral", "sliding_window": 96})",
     "layer 0 has a window of 96, which the backend hwfa2 serves, expected full attention in every "
     "layer"},
};

TEST(DensePlanTest, SaysWhatIsWrong) {
  ExpectRefusals(LS_INVALID_ARGUMENT, kWrongValuesOfDense, PlanOfLlama);
  ExpectRefusals(LS_UNIMPLEMENTED, kOtherMathematicsOfDense, PlanOfLlama);
}

TEST(DensePlanTest, RefusesTheOverridesOfHwfa2) {
  for (const std::string option :
       {"rerope_window", "leaky_rerope_factor", "window", "full_layers"}) {
    const std::string value = option == "full_layers" ? "[1]" : "64";
    const std::string options = "{\"" + option + "\": " + value + "}";
    ExpectError(LS_UNIMPLEMENTED,
                "options: " + option +
                    " is not served by the backend dense: name the backend hwfa2 to load this "
                    "checkpoint with it",
                [&] { PlanOfLlama("{}", options.c_str()); });
  }
}

// Log n scaling alone needs a training length of 2.
TEST(DensePlanTest, ShortestTrainingLengths) {
  EXPECT_EQ(PlanOfLlama(R"({"max_position_embeddings": 1})").context_limit, 1);
  const ModelSpec two =
      PlanOfLlama(R"({"max_position_embeddings": 2, "logn_scaling": "extrapolate"})");
  EXPECT_EQ(two.layers[0].logit_scale_base, 2.0);
}

TEST(DenseFitTest, SaysWhyAConfigDoesNotFit) {
  std::string why;
  EXPECT_EQ(DenseFit(Edited(kLlama, "{}"), &why), 100);
  EXPECT_EQ(why, "");
  EXPECT_EQ(DenseFit(Edited(kLlama, R"({"model_type": "hwfa2"})"), &why), 0);
  EXPECT_EQ(why, "m/config.json: model_type must be one of " + FamilyNames() +
                     " for the backend dense, found \"hwfa2\"");
}

}  // namespace
}  // namespace longstream
