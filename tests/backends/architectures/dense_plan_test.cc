// Specs of `dense`: every key of a Llama-shaped config, the families, and each refusal.
#include "backends/architectures/placement/dense_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "backends/architectures/families/family.h"
#include "tests/backends/architectures/config_edit.h"
#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

ModelSpec Plan(std::string_view changes, const char* options = "{}") {
  return DensePlan(Edited(kLlama, changes), LoadOptions(options));
}

TEST(DensePlanTest, ReadsEveryKey) {
  const ModelSpec spec = Plan("{}");
  EXPECT_EQ(spec.architecture, "llama");
  EXPECT_EQ(spec.vocabulary, 61);
  EXPECT_EQ(spec.width, 24);
  EXPECT_EQ(spec.mlp_width, 40);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-5f);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_EQ(spec.context_limit, 640);
  EXPECT_EQ(spec.training_length, 640);
  EXPECT_EQ(spec.embedding_multiplier, 1.0f);
  EXPECT_EQ(spec.residual_multiplier, 1.0f);
  EXPECT_EQ(spec.logit_multiplier, 1.0f);
  EXPECT_FALSE(spec.chunked());
  ASSERT_EQ(spec.layers.size(), 3u);
  for (const MixerSpec& mixer : spec.layers) {
    EXPECT_EQ(mixer.kind, MixerKind::kFull);
    EXPECT_EQ(mixer.position, PositionKind::kRope);
    EXPECT_EQ(mixer.num_heads, 6);
    EXPECT_EQ(mixer.num_kv_heads, 2);
    EXPECT_EQ(mixer.head_dim, 8);
    EXPECT_EQ(mixer.value_dim, 8);
    EXPECT_EQ(mixer.qk_norm, QkNorm::kNone);
    EXPECT_FALSE(mixer.qkv_bias);
    EXPECT_FALSE(mixer.output_bias);
    EXPECT_EQ(mixer.rope.theta, 500000.0);
    EXPECT_EQ(mixer.logit_scale, LogitScaleKind::kNone);
    EXPECT_DOUBLE_EQ(mixer.score_scale, 1.0 / std::sqrt(8.0));
    EXPECT_FALSE(mixer.output_gate);
    EXPECT_FALSE(mixer.output_norm);
  }
}

TEST(DensePlanTest, DefaultsOfLlama) {
  const ModelSpec spec = Plan(R"({"num_key_value_heads": "<absent>", "head_dim": "<absent>",
      "rms_norm_eps": "<absent>", "rope_theta": "<absent>", "tie_word_embeddings": "<absent>"})");
  EXPECT_EQ(spec.layers[0].num_kv_heads, 6);
  EXPECT_EQ(spec.layers[0].head_dim, 4);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-6f);
  EXPECT_EQ(spec.layers[0].rope.theta, 10000.0);
  EXPECT_FALSE(spec.tied_head);
}

TEST(DensePlanTest, Qwen3) {
  const ModelSpec spec = Plan(R"({"model_type": "qwen3", "head_dim": "<absent>",
      "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28,
      "layer_types": ["full_attention", "full_attention", "full_attention"]})");
  EXPECT_EQ(spec.architecture, "qwen3");
  EXPECT_EQ(spec.layers[0].qk_norm, QkNorm::kHead);
  EXPECT_EQ(spec.layers[0].head_dim, 128);
  EXPECT_EQ(spec.layers[0].kind, MixerKind::kFull);
}

TEST(DensePlanTest, BiasesByFamily) {
  const MixerSpec with_key = Plan(R"({"attention_bias": true})").layers[0];
  EXPECT_TRUE(with_key.qkv_bias);
  EXPECT_TRUE(with_key.output_bias);
  EXPECT_TRUE(Plan(R"({"mlp_bias": true})").mlp_bias);
  EXPECT_FALSE(Plan("{}").mlp_bias);
  const MixerSpec qwen2 = Plan(R"({"model_type": "qwen2"})").layers[0];
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.output_bias);
  EXPECT_EQ(qwen2.qk_norm, QkNorm::kNone);
}

TEST(DensePlanTest, MistralWithoutAWindow) {
  const MixerSpec mixer = Plan(R"({"model_type": "mistral", "sliding_window": null})").layers[0];
  EXPECT_EQ(mixer.kind, MixerKind::kFull);
  EXPECT_EQ(mixer.qk_norm, QkNorm::kNone);
}

TEST(DensePlanTest, RopeThetaInItsPlaces) {
  for (const char* changes :
       {R"({"rope_theta": 7e5})",
        R"({"rope_theta": 7e5, "rope_scaling": null, "rope_parameters": null})",
        R"({"rope_theta": 7e5, "rope_scaling": {"type": "default"}})",
        R"({"rope_theta": "<absent>", "rope_parameters": {"rope_type": "default",
                                                         "rope_theta": 7e5}})",
        R"({"rope_theta": 7e5, "rope_parameters": {"rope_type": "default", "rope_theta": 7e5}})",
        R"({"rope_theta": "<absent>", "rope_scaling": {"rope_theta": 7e5}})"}) {
    SCOPED_TRACE(changes);
    EXPECT_EQ(Plan(changes).layers[0].rope.theta, 7e5);
  }
  const ModelSpec unstated =
      Plan(R"({"rope_theta": "<absent>", "rope_parameters": {"rope_type": "default"}})");
  EXPECT_EQ(unstated.layers[0].rope.theta, 10000.0);
}

TEST(DensePlanTest, FullPositions) {
  const auto position_of = [](std::string_view changes) {
    const ModelSpec spec = Plan(changes);
    EXPECT_EQ(spec.layers[2].position, spec.layers[0].position);
    return spec.layers[0].position;
  };
  EXPECT_EQ(position_of(R"({"full_position": null})"), PositionKind::kRope);
  EXPECT_EQ(position_of(R"({"full_position": "rope"})"), PositionKind::kRope);
  EXPECT_EQ(position_of(R"({"full_position": "alibi"})"), PositionKind::kAlibi);
  EXPECT_EQ(position_of(R"({"full_position": "nope"})"), PositionKind::kNone);
}

TEST(DensePlanTest, LogN) {
  const ModelSpec always = Plan(R"({"logn_scaling": "always", "training_length": 64})");
  EXPECT_EQ(always.training_length, 64);
  for (const MixerSpec& mixer : always.layers) {
    EXPECT_EQ(mixer.logit_scale, LogitScaleKind::kLogNAlways);
    EXPECT_EQ(mixer.logit_scale_base, 64.0);
  }
  const MixerSpec extrapolate = Plan(R"({"logn_scaling": "extrapolate"})").layers[0];
  EXPECT_EQ(extrapolate.logit_scale, LogitScaleKind::kLogNExtrapolate);
  EXPECT_EQ(extrapolate.logit_scale_base, 640.0);  // max_position_embeddings
  EXPECT_EQ(Plan(R"({"logn_scaling": null})").layers[0].logit_scale, LogitScaleKind::kNone);
}

TEST(DensePlanTest, Options) {
  const ModelSpec spec = Plan(R"({"logn_scaling": "always"})",
                              R"({"logn": "extrapolate", "training_length": 128,
                                  "context_limit": 4096, "weights": "f32"})");
  EXPECT_EQ(spec.context_limit, 4096);
  EXPECT_EQ(spec.training_length, 128);
  EXPECT_EQ(spec.layers[0].logit_scale, LogitScaleKind::kLogNExtrapolate);
  EXPECT_EQ(spec.layers[0].logit_scale_base, 128.0);
  // The context limit is not the training length.
  EXPECT_EQ(Plan("{}", R"({"context_limit": 4096})").training_length, 640);
}

TEST(DensePlanTest, HarmlessKeysPass) {
  Plan(R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "mlp_bias": false,
           "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": [2, 3], "dtype": "bfloat16",
           "torch_dtype": "float16", "hidden_act": "silu", "initializer_range": 0.02,
           "pretraining_tp": 1, "transformers_version": "5.0", "use_cache": true,
           "block_type": "transformer", "quantization_config": null})");
}

struct Refusal {
  const char* changes;
  ls_code code;
  std::string message;
  const char* options = "{}";
};

class DensePlanErrorTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(DensePlanErrorTest, SaysWhatIsWrong) {
  ExpectError(GetParam().code, GetParam().message,
              [] { Plan(GetParam().changes, GetParam().options); });
}

INSTANTIATE_TEST_SUITE_P(
    MissingKeys, DensePlanErrorTest,
    ::testing::Values(
        Refusal{R"({"vocab_size": "<absent>"})", LS_INVALID_ARGUMENT,
                "m/config.json: vocab_size is missing, expected an integer from 1 to 2147483647"},
        Refusal{R"({"hidden_size": "<absent>"})", LS_INVALID_ARGUMENT,
                "m/config.json: hidden_size is missing, expected an integer from 1 to 16777216"},
        Refusal{R"({"intermediate_size": null})", LS_INVALID_ARGUMENT,
                "m/config.json: intermediate_size is missing, expected an integer from 1 to "
                "16777216"},
        Refusal{R"({"num_hidden_layers": "<absent>"})", LS_INVALID_ARGUMENT,
                "m/config.json: num_hidden_layers is missing, expected an integer from 1 to 4096"},
        Refusal{R"({"num_attention_heads": "<absent>"})", LS_INVALID_ARGUMENT,
                "m/config.json: num_attention_heads is missing, expected an integer from 1 to "
                "16777216"},
        Refusal{R"({"model_type": "qwen2", "max_position_embeddings": "<absent>"})",
                LS_INVALID_ARGUMENT,
                "m/config.json: max_position_embeddings is missing, expected an integer from 1 to "
                "1099511627776"}));

INSTANTIATE_TEST_SUITE_P(
    WrongValues, DensePlanErrorTest,
    ::testing::Values(
        Refusal{R"({"vocab_size": 0})", LS_INVALID_ARGUMENT,
                "m/config.json: vocab_size must be an integer from 1 to 2147483647, found 0"},
        Refusal{R"({"num_hidden_layers": 1e9})", LS_INVALID_ARGUMENT,
                "m/config.json: num_hidden_layers must be an integer from 1 to 4096, found "
                "1000000000.0"},
        Refusal{R"({"num_key_value_heads": 4})", LS_INVALID_ARGUMENT,
                "m/config.json: num_key_value_heads must divide num_attention_heads = 6, found 4"},
        Refusal{R"({"num_key_value_heads": 12})", LS_INVALID_ARGUMENT,
                "m/config.json: num_key_value_heads must be an integer from 1 to 6, found 12"},
        Refusal{R"({"head_dim": "<absent>", "num_attention_heads": 5, "num_key_value_heads": 1})",
                LS_INVALID_ARGUMENT,
                "m/config.json: num_attention_heads must divide hidden_size = 24 where head_dim is "
                "absent, found 5"},
        Refusal{R"({"head_dim": 7})", LS_INVALID_ARGUMENT,
                "m/config.json: head_dim must be even for RoPE, found 7"},
        Refusal{R"({"head_dim": 8192})", LS_INVALID_ARGUMENT,
                "m/config.json: head_dim must be an integer from 2 to 4096, found 8192"},
        Refusal{R"({"head_dim": 4096, "num_attention_heads": 8192})", LS_INVALID_ARGUMENT,
                "m/config.json: num_attention_heads must be at most 4096 where heads are 4096 "
                "wide, found 8192"},
        Refusal{R"({"head_dim": "<absent>", "hidden_size": 16384, "num_attention_heads": 2,
                    "num_key_value_heads": 2})",
                LS_INVALID_ARGUMENT,
                "m/config.json: num_attention_heads must divide hidden_size = 16384 into heads of "
                "at most 4096, found 2"},
        Refusal{R"({"rms_norm_eps": "tiny"})", LS_INVALID_ARGUMENT,
                "m/config.json: rms_norm_eps must be a number from 0 to 1, found \"tiny\""},
        Refusal{R"({"rope_theta": 0})", LS_INVALID_ARGUMENT,
                "m/config.json: rope_theta must be a number from 1 to 1e+15, found 0"},
        Refusal{R"({"rope_parameters": {"rope_theta": 10000.0}})", LS_INVALID_ARGUMENT,
                "m/config.json: rope_parameters.rope_theta = 10000.0 disagrees with rope_theta = "
                "500000.0"},
        Refusal{R"({"rope_scaling": "linear"})", LS_INVALID_ARGUMENT,
                "m/config.json: rope_scaling must be an object, found \"linear\""},
        Refusal{R"({"tie_word_embeddings": 1})", LS_INVALID_ARGUMENT,
                "m/config.json: tie_word_embeddings must be true or false, found 1"},
        Refusal{R"({"training_length": 1})", LS_INVALID_ARGUMENT,
                "m/config.json: training_length must be an integer from 2 to 1099511627776, found "
                "1"}));

INSTANTIATE_TEST_SUITE_P(
    OtherMathematics, DensePlanErrorTest,
    ::testing::Values(
        Refusal{R"({"model_type": "gpt2"})", LS_UNIMPLEMENTED,
                "m/config.json: model_type must be one of " + FamilyNames() +
                    " for the backend dense, found \"gpt2\""},
        Refusal{R"({"model_type": "<absent>"})", LS_UNIMPLEMENTED,
                "m/config.json: model_type must be one of " + FamilyNames() +
                    " for the backend dense, found nothing"},
        Refusal{
            R"({"hidden_act": "relu"})", LS_UNIMPLEMENTED,
            "m/config.json: hidden_act must be silu, gelu or gelu_pytorch_tanh, found \"relu\""},
        Refusal{R"({"model_type": "qwen3", "block_type": "gau"})", LS_UNIMPLEMENTED,
                "m/config.json: block_type must be \"transformer\", found \"gau\""},
        Refusal{R"({"model_type": "qwen3", "mlp_bias": true})", LS_UNIMPLEMENTED,
                "m/config.json: mlp_bias must be false, found true"},
        Refusal{R"({"num_local_experts": 8})", LS_UNIMPLEMENTED,
                "m/config.json: num_local_experts = 8 is not known to the backend dense, and what "
                "is not known may change the mathematics"},
        Refusal{
            R"({"sliding_window": 512})", LS_UNIMPLEMENTED,
            "m/config.json: sliding_window = 512 is not known to the backend dense, and what is "
            "not known may change the mathematics"},
        Refusal{R"({"full_position": "rerope"})", LS_UNIMPLEMENTED,
                "m/config.json: full_position must be rope, alibi or nope, found \"rerope\""},
        Refusal{R"({"logn_scaling": "sometimes"})", LS_UNIMPLEMENTED,
                "m/config.json: logn_scaling must be null, \"always\" or \"extrapolate\", found "
                "\"sometimes\""},
        Refusal{R"({"model_type": "mistral", "sliding_window": 96})", LS_UNIMPLEMENTED,
                "m/config.json: layer 0 has a window of 96, which the backend hwfa2 serves, "
                "expected full attention in every layer"},
        Refusal{R"({"model_type": "qwen3",
                    "layer_types": ["full_attention", "full_attention", "sliding_attention"]})",
                LS_INVALID_ARGUMENT,
                "m/config.json: layer_types asks for sliding_attention, expected "
                "use_sliding_window = true and sliding_window beside it, found nothing and "
                "nothing"},
        Refusal{R"({"model_type": "qwen3", "layer_types": ["full_attention"]})",
                LS_INVALID_ARGUMENT,
                "m/config.json: layer_types must have num_hidden_layers = 3 items, found 1"}));

INSTANTIATE_TEST_SUITE_P(
    OverridesOfHwfa2, DensePlanErrorTest,
    ::testing::Values(
        Refusal{"{}", LS_UNIMPLEMENTED,
                "options: rerope_window is not served by the backend dense: name the backend hwfa2 "
                "to load this checkpoint with it",
                R"({"rerope_window": 128})"},
        Refusal{"{}", LS_UNIMPLEMENTED,
                "options: leaky_rerope_factor is not served by the backend dense: name the backend "
                "hwfa2 to load this checkpoint with it",
                R"({"leaky_rerope_factor": 8})"},
        Refusal{
            "{}", LS_UNIMPLEMENTED,
            "options: window is not served by the backend dense: name the backend hwfa2 to load "
            "this checkpoint with it",
            R"({"window": 64, "full_layers": [1]})"},
        Refusal{
            "{}", LS_UNIMPLEMENTED,
            "options: full_layers is not served by the backend dense: name the backend hwfa2 to "
            "load this checkpoint with it",
            R"({"full_layers": [1]})"}));

TEST(DensePlanTest, TrainingLengths) {
  // ln 1 = 0 would be a divisor.
  ExpectError(LS_INVALID_ARGUMENT,
              "m/config.json: max_position_embeddings must be at least 2 as the training length "
              "that log n scaling needs, found 1",
              [] { Plan(R"({"max_position_embeddings": 1})", R"({"logn": "always"})"); });
  EXPECT_EQ(Plan(R"({"max_position_embeddings": 1})").context_limit, 1);
  EXPECT_EQ(Plan(R"({"max_position_embeddings": 2, "logn_scaling": "extrapolate"})")
                .layers[0]
                .logit_scale_base,
            2.0);
  ExpectError(LS_INVALID_ARGUMENT,
              "options: training_length acts on nothing: there is neither log n scaling nor a "
              "default rerope_window",
              [] { Plan("{}", R"({"training_length": 64})"); });
}

TEST(DenseFitTest, FamiliesFitAndOthersSayWhy) {
  std::string why;
  for (const char* family : {"granite", "llama", "mistral", "phi3", "qwen2", "qwen3", "smollm3"}) {
    const std::string changes = std::string(R"({"model_type": ")") + family + R"("})";
    EXPECT_EQ(DenseFit(Edited(kLlama, changes), &why), 100) << family;
  }
  EXPECT_EQ(why, "");
  EXPECT_EQ(DenseFit(Edited(kLlama, R"({"model_type": "hwfa2"})"), &why), 0);
  EXPECT_EQ(why, "m/config.json: model_type must be one of " + FamilyNames() +
                     " for the backend dense, found \"hwfa2\"");
}

}  // namespace
}  // namespace longstream
