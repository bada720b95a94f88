// Specs of `hwfa2`: defaults, the placement rule, overrides, and each refusal. The logits of
// tests/golden test the positions of full layers.
#include "backends/architectures/placement/hwfa2_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/architectures/families/family.h"
#include "tests/backends/architectures/config_edit.h"
#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

using Layers = std::vector<int64_t>;

constexpr std::string_view kHwfa2 = R"({
    "model_type": "hwfa2", "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40,
    "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8,
    "max_position_embeddings": 4096, "training_length": 96, "sliding_window": 20,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]})";

ModelSpec PlanOfHwfa2(std::string_view changes, const char* options = "{}") {
  return Hwfa2Plan(Edited(kHwfa2, changes), LoadOptions(options));
}

ModelSpec PlanOfDense(std::string_view changes, const char* options) {
  return Hwfa2Plan(Edited(kLlama, changes), LoadOptions(options));
}

// Indices of the full-attention layers. The others must be windows of width `window` with RoPE.
Layers FullLayers(const ModelSpec& spec, int64_t window) {
  Layers full;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const MixerSpec& mixer = spec.layers[i];
    if (mixer.kind == MixerKind::kFull) {
      full.push_back(static_cast<int64_t>(i));
      EXPECT_EQ(mixer.window, 0);
    } else {
      EXPECT_EQ(mixer.kind, MixerKind::kWindow);
      EXPECT_EQ(mixer.window, window);
      EXPECT_EQ(mixer.position, PositionKind::kRope);
      EXPECT_EQ(mixer.logit_scale, LogitScaleKind::kNone);
      EXPECT_EQ(mixer.rerope_window, 0);
    }
  }
  return full;
}

TEST(Hwfa2PlanTest, ReadsEveryKey) {
  const ModelSpec spec = PlanOfHwfa2("{}");
  EXPECT_EQ(spec.architecture, "hwfa2");
  EXPECT_EQ(spec.context_limit, 4096);
  EXPECT_EQ(spec.training_length, 96);
  EXPECT_EQ(FullLayers(spec, 20), (Layers{1, 3}));
  const MixerSpec& full = spec.layers[1];
  EXPECT_EQ(full.position, PositionKind::kRerope);
  EXPECT_EQ(full.rerope_window, 48);  // N / 2
  EXPECT_EQ(full.qk_norm, QkNorm::kHead);
  EXPECT_EQ(spec.layers[0].qk_norm, QkNorm::kHead);
  EXPECT_EQ(full.num_heads, 6);
  EXPECT_EQ(full.head_dim, 8);
}

TEST(Hwfa2PlanTest, PlacementRule) {
  EXPECT_EQ(PlaceFullLayers(24, 2), (Layers{8, 16}));
  EXPECT_EQ(PlaceFullLayers(8, 2), (Layers{2, 5}));
  EXPECT_EQ(PlaceFullLayers(5, 2), (Layers{1, 3}));
  EXPECT_EQ(PlaceFullLayers(24, 1), Layers{12});
  EXPECT_EQ(PlaceFullLayers(3, 0), Layers{});
  EXPECT_EQ(PlaceFullLayers(4, 4), (Layers{0, 1, 2, 3}));
  EXPECT_EQ(FullLayers(PlanOfHwfa2(R"({"layer_types": "<absent>", "num_full_layers": 1})"), 20),
            Layers{2});
  EXPECT_EQ(FullLayers(PlanOfHwfa2(R"({"layer_types": "<absent>", "num_full_layers": 0})"), 20),
            Layers{});
  // Both keys, which agree.
  EXPECT_EQ(FullLayers(PlanOfHwfa2(R"({"num_full_layers": 2})"), 20), (Layers{1, 3}));
}

TEST(Hwfa2PlanTest, NoWindowIsNeededWhereNoLayerHasOne) {
  const ModelSpec spec = PlanOfHwfa2(R"({"layer_types": "<absent>", "num_full_layers": 4,
                                  "sliding_window": "<absent>"})");
  EXPECT_EQ(FullLayers(spec, 0), (Layers{0, 1, 2, 3}));
}

TEST(Hwfa2PlanTest, OverridesOfItsOwnConfigs) {
  const ModelSpec spec = PlanOfHwfa2(R"({"full_position": "rope"})",
                                     R"({"rerope_window": 30, "window": 12, "full_layers": [0],
                                  "logn": "extrapolate", "training_length": 256})");
  EXPECT_EQ(FullLayers(spec, 12), Layers{0});
  EXPECT_EQ(spec.layers[0].position, PositionKind::kRerope);
  EXPECT_EQ(spec.layers[0].rerope_window, 30);
  EXPECT_EQ(spec.layers[0].logit_scale, LogitScaleKind::kLogNExtrapolate);
  EXPECT_EQ(spec.layers[0].logit_scale_base, 256.0);
  const MixerSpec leaky = PlanOfHwfa2("{}", R"({"leaky_rerope_factor": 4})").layers[1];
  EXPECT_EQ(leaky.position, PositionKind::kLeakyRerope);
  EXPECT_EQ(leaky.rerope_window, 48);
  EXPECT_EQ(leaky.leaky_factor, 4.0);
  const MixerSpec still_leaky =
      PlanOfHwfa2(R"({"full_position": "leaky_rerope", "leaky_rerope_factor": 4})",
                  R"({"rerope_window": 9})")
          .layers[1];
  EXPECT_EQ(still_leaky.position, PositionKind::kLeakyRerope);
  EXPECT_EQ(still_leaky.rerope_window, 9);
}

TEST(Hwfa2PlanTest, DenseCheckpointsAsTheyAre) {
  const ModelSpec spec = PlanOfDense("{}", "{}");
  EXPECT_EQ(spec.architecture, "llama");
  EXPECT_EQ(FullLayers(spec, 0), (Layers{0, 1, 2}));
  EXPECT_EQ(spec.layers[0].position, PositionKind::kRope);
  EXPECT_EQ(spec.layers[0].qk_norm, QkNorm::kNone);
  const ModelSpec alibi = PlanOfDense(R"({"full_position": "alibi"})", "{}");
  EXPECT_EQ(FullLayers(alibi, 0), (Layers{0, 1, 2}));
  EXPECT_EQ(alibi.layers[2].position, PositionKind::kAlibi);
}

TEST(Hwfa2PlanTest, DenseCheckpointsWithOverrides) {
  EXPECT_EQ(PlanOfDense("{}", R"({"context_limit": 9000})").context_limit, 9000);
  EXPECT_EQ(FullLayers(PlanOfDense("{}", R"({"window": 18, "full_layers": []})"), 18), Layers{});
  const ModelSpec leaky = PlanOfDense("{}", R"({"leaky_rerope_factor": 8})");
  EXPECT_EQ(leaky.layers[2].position, PositionKind::kLeakyRerope);
  EXPECT_EQ(leaky.layers[2].rerope_window, 320);
}

const Refusal kWrongValuesOfHwfa2[] = {
    {R"({"layer_types": "<absent>"})", "layer_types is missing, expected it or num_full_layers"},
    {R"({"layer_types": ["full_attention"]})",
     "layer_types must have num_hidden_layers = 4 items, found 1"},
    {R"({"num_full_layers": 3})",
     "num_full_layers = 3 disagrees with layer_types, which has 2 full_attention"},
    {R"({"layer_types": "<absent>", "num_full_layers": 5})",
     "num_full_layers must be an integer from 0 to 4, found 5"},
    {R"({"sliding_window": "<absent>"})",
     "sliding_window is missing, expected the keys that a window layer sees"},
    {R"({"sliding_window": 0})", "sliding_window must be an integer from 1 to 1073741824, found 0"},
    {R"({"training_length": "<absent>"})",
     "training_length is missing, expected the training length that the default rerope_window, "
     "half of it, needs"},
    {R"({"training_length": "<absent>", "rerope_window": 8, "logn_scaling": "always"})",
     "training_length is missing, expected the training length that log n scaling needs"},
    {R"({"full_position": "leaky_rerope"})",
     "leaky_rerope_factor is missing, expected a number from 1"},
    {R"({"leaky_rerope_factor": 0.5})",
     "leaky_rerope_factor must be a number from 1 to 1e+09, found 0.5"},
    {R"({"rerope_window": 0})", "rerope_window must be an integer from 1 to 1073741824, found 0"},
    {R"({"full_position": "rope", "rerope_window": 7})",
     "rerope_window acts on nothing: full_position must be rerope or leaky_rerope, found \"rope\""},
    {R"({"full_position": "nope", "rerope_window": 7})",
     "rerope_window acts on nothing: full_position must be rerope or leaky_rerope, found \"nope\""},
    {R"({"leaky_rerope_factor": 4})",
     "leaky_rerope_factor acts on nothing: full_position must be leaky_rerope, found nothing"},
    {R"({"use_qk_norm": "yes"})", "use_qk_norm must be true or false, found \"yes\""},
    {R"({"full_position": "alibi", "rerope_window": 7})",
     "rerope_window acts on nothing: full_position must be rerope or leaky_rerope, found "
     "\"alibi\""},
    {R"({"full_position": "nope"})",
     "options: rerope_window needs layers trained with RoPE, and full_position is nope",
     R"({"rerope_window": 8})"},
    {R"({"full_position": "alibi"})",
     "options: leaky_rerope_factor needs layers trained with RoPE, and full_position is alibi",
     R"({"leaky_rerope_factor": 8})"},
    {"{}", "options: full_layers must be below num_hidden_layers = 4, found 4",
     R"({"full_layers": [0, 4]})"},
};

const Refusal kOtherMathematicsOfHwfa2[] = {
    {R"({"model_type": "gpt2"})", "model_type must be hwfa2 or one of " + FamilyNames() +
                                      " for the backend hwfa2, found \"gpt2\""},
    {R"({"layer_types": ["full_attention", "full_attention", "chunked_attention",
          "full_attention"]})",
     "layer_types must hold full_attention and sliding_attention only, found \"chunked_attention\" "
     "in layer 2"},
    {R"({"full_position": "t5"})",
     "full_position must be rope, rerope, leaky_rerope, alibi or nope, found \"t5\""},
    {R"({"block_type": "moe"})", "block_type must be transformer or gau, found \"moe\""},
    {R"({"gau_expansion": 48})", NotKnown("gau_expansion = 48", "the backend hwfa2")},
    {R"({"attention_window": 48})", NotKnown("attention_window = 48", "the backend hwfa2")},
};

// Options of a dense checkpoint without a layer to act on, and options that miss another one.
const Refusal kIdleOptions[] = {
    {"{}", "options: window needs full_layers, the layers that stay full attention ([]: none)",
     R"({"window": 8})"},
    {"{}", "options: full_layers needs window, the keys that the other layers see",
     R"({"full_layers": [1]})"},
    // Windows have RoPE, but this model was trained without it.
    {R"({"full_position": "alibi"})",
     "options: window needs layers trained with RoPE, and full_position is alibi",
     R"({"window": 8, "full_layers": []})"},
    {"{}", "options: rerope_window acts on nothing: no layer is full attention",
     R"({"window": 8, "full_layers": [], "rerope_window": 4})"},
    {"{}", "options: leaky_rerope_factor acts on nothing: no layer is full attention",
     R"({"window": 8, "full_layers": [], "leaky_rerope_factor": 4})"},
    {"{}", "options: logn acts on nothing: no layer is full attention",
     R"({"window": 8, "full_layers": [], "logn": "always"})"},
    {"{}", "options: window acts on nothing: all layers are full attention",
     R"({"window": 8, "full_layers": [0, 1, 2]})"},
    {"{}",
     "options: training_length acts on nothing: there is neither log n scaling nor a default "
     "rerope_window",
     R"({"training_length": 64})"},
    {"{}",
     "options: training_length acts on nothing: there is neither log n scaling nor a default "
     "rerope_window",
     R"({"training_length": 64, "rerope_window": 20})"},
};

TEST(Hwfa2PlanTest, SaysWhatIsWrong) {
  ExpectRefusals(LS_INVALID_ARGUMENT, kWrongValuesOfHwfa2, PlanOfHwfa2);
  ExpectRefusals(LS_UNIMPLEMENTED, kOtherMathematicsOfHwfa2, PlanOfHwfa2);
  ExpectRefusals(LS_INVALID_ARGUMENT, kIdleOptions, PlanOfDense);
  const Refusal dense_rerope[] = {{R"({"full_position": "rerope"})",
                                   "full_position must be rope, alibi or nope, found \"rerope\""}};
  ExpectRefusals(LS_UNIMPLEMENTED, dense_rerope, PlanOfDense);
}

TEST(Hwfa2PlanTest, TrainingLengthActsOnTheDefaultRerope) {
  const ModelSpec leaky = PlanOfDense("{}", R"({"training_length": 64, "leaky_rerope_factor": 2})");
  EXPECT_EQ(leaky.layers[0].rerope_window, 32);
}

TEST(Hwfa2PlanTest, FullLayersReplaceTheConfigsKeysOfFullAttention) {
  const ModelSpec spec =
      PlanOfHwfa2(R"({"rerope_window": 7, "logn_scaling": "always"})", R"({"full_layers": []})");
  EXPECT_EQ(FullLayers(spec, 20), Layers{});
}

TEST(Hwfa2FitTest, OwnConfigsBeforeDenseOnes) {
  std::string why;
  EXPECT_EQ(Hwfa2Fit(Edited(kHwfa2, "{}"), &why), 100);
  EXPECT_EQ(Hwfa2Fit(Edited(kLlama, "{}"), &why), 40);
  EXPECT_EQ(why, "");
  EXPECT_EQ(Hwfa2Fit(Edited(kLlama, R"({"model_type": "hypenet"})"), &why), 0);
  EXPECT_EQ(why, "m/config.json: model_type must be hwfa2 or one of " + FamilyNames() +
                     " for the backend hwfa2, found \"hypenet\"");
}

}  // namespace
}  // namespace longstream
