// The families: values of absent keys, alternatives of a key, refusals, and the backend that a
// config goes to. The logits of tests/golden test the keys that a config states.
#include "backends/architectures/families/family.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/architectures/placement/dense_plan.h"
#include "backends/architectures/placement/hwfa2_plan.h"
#include "tests/backends/architectures/config_edit.h"
#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

// A config of four layers for 640 positions.
Config ConfigOf(const std::string& family, std::string_view changes) {
  const std::string base =
      EditedText(kLlama, R"({"num_hidden_layers": 4, "model_type": ")" + family + R"("})");
  return Edited(base, changes);
}

ModelSpec PlanOfFamily(const std::string& family, std::string_view changes,
                       const char* options = "{}") {
  return Hwfa2Plan(ConfigOf(family, changes), LoadOptions(options));
}

// The window of each layer; 0: full attention.
std::vector<int32_t> Windows(const ModelSpec& spec) {
  std::vector<int32_t> windows;
  for (const MixerSpec& mixer : spec.layers) {
    EXPECT_EQ(mixer.kind == MixerKind::kWindow, mixer.window > 0);
    windows.push_back(mixer.window);
  }
  return windows;
}

using Widths = std::vector<int32_t>;
using Flags = std::vector<bool>;

// Whether each layer has no positions.
Flags WithoutPositions(const ModelSpec& spec) {
  Flags without;
  for (const MixerSpec& mixer : spec.layers) {
    without.push_back(mixer.position == PositionKind::kNone);
  }
  return without;
}

// `dense` serves full attention, `hwfa2` serves windows.
TEST(FamilyTest, WindowsChooseTheBackend) {
  std::string why;
  const auto fits = [&](const std::string& family, const char* changes) {
    return std::pair(DenseFit(ConfigOf(family, changes), &why),
                     Hwfa2Fit(ConfigOf(family, changes), &why));
  };
  const std::pair full = {100, 40};
  const std::pair windows = {10, 100};
  EXPECT_EQ(fits("llama", "{}"), full);
  EXPECT_EQ(fits("granite", "{}"), full);
  EXPECT_EQ(fits("mistral", R"({"sliding_window": null})"), full);
  EXPECT_EQ(fits("mistral", R"({"sliding_window": 96})"), windows);
  EXPECT_EQ(fits("mistral", R"({"sliding_window": 640})"), full);
  EXPECT_EQ(fits("mistral", R"({"max_position_embeddings": 8192})"), windows);
  EXPECT_EQ(fits("phi3", R"({"max_position_embeddings": 8192})"), full);
  EXPECT_EQ(fits("phi3", R"({"sliding_window": 96})"), windows);
  const char* off = R"({"use_sliding_window": false, "sliding_window": 96})";
  const char* on = R"({"use_sliding_window": true, "sliding_window": 96, "max_window_layers": 2})";
  for (const char* family : {"qwen2", "qwen3", "smollm3"}) {
    EXPECT_EQ(fits(family, off), full) << family;
    EXPECT_EQ(fits(family, on), windows) << family;
  }
  // `dense` reports configs that cannot be read.
  EXPECT_EQ(fits("mistral", R"({"sliding_window": "wide"})"), full);
}

TEST(FamilyTest, Mistral) {
  const ModelSpec spec = PlanOfFamily("mistral", R"({"sliding_window": 96})");
  EXPECT_EQ(Windows(spec), (Widths{96, 96, 96, 96}));
  // An absent key means the config class's 4096. A window that holds the whole context is no
  // window.
  EXPECT_EQ(Windows(PlanOfFamily("mistral", R"({"max_position_embeddings": 4097})")),
            (Widths{4096, 4096, 4096, 4096}));
  EXPECT_EQ(Windows(PlanOfFamily("mistral", R"({"max_position_embeddings": 4096})")),
            (Widths{0, 0, 0, 0}));
  // With this option, the context no longer fits the window.
  EXPECT_EQ(
      Windows(PlanOfFamily("mistral", R"({"sliding_window": 640})", R"({"context_limit": 641})")),
      (Widths{640, 640, 640, 640}));
}

TEST(FamilyTest, Qwen) {
  for (const char* family : {"qwen2", "qwen3"}) {
    SCOPED_TRACE(family);
    EXPECT_EQ(Windows(PlanOfFamily(family, R"({"use_sliding_window": true, "sliding_window": 96,
                                       "max_window_layers": 3})")),
              (Widths{0, 0, 0, 96}));
    EXPECT_EQ(
        Windows(PlanOfFamily(family, R"({"use_sliding_window": true, "sliding_window": 96})")),
        (Widths{0, 0, 0, 0}));
    EXPECT_EQ(Windows(PlanOfFamily(family, R"({"use_sliding_window": true, "sliding_window": 96,
                                       "layer_types": ["sliding_attention", "full_attention",
                                                       "sliding_attention", "full_attention"]})")),
              (Widths{96, 0, 96, 0}));
  }
  EXPECT_EQ(PlanOfFamily("qwen3", R"({"head_dim": "<absent>"})").layers[3].head_dim, 128);
}

TEST(FamilyTest, Phi3) {
  const ModelSpec spec = PlanOfFamily(
      "phi3", R"({"sliding_window": 96, "rms_norm_eps": "<absent>", "attention_bias": false,
                  "mlp_bias": false, "lm_head_bias": false, "full_attn_mod": 1,
                  "interpolate_factor": 1, "original_max_position_embeddings": 128,
                  "partial_rotary_factor": 0.75,
                  "rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1],
                                   "long_factor": [1, 2, 4]}})");
  EXPECT_EQ(Windows(spec), (Widths{96, 96, 96, 96}));
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-5f);
}

TEST(FamilyTest, SmolLm3) {
  const ModelSpec silent =
      PlanOfFamily("smollm3", R"({"tie_word_embeddings": "<absent>", "rope_theta": "<absent>"})");
  EXPECT_EQ(WithoutPositions(silent), (Flags{false, false, false, true}));
  EXPECT_TRUE(silent.tied_head);
  EXPECT_EQ(silent.layers[0].rope.theta, 2e6);
  EXPECT_EQ(WithoutPositions(PlanOfFamily("smollm3", R"({"no_rope_layer_interval": 2})")),
            (Flags{false, true, false, true}));
  const ModelSpec listed =
      PlanOfFamily("smollm3", R"({"no_rope_layers": [0, 1, 1, 0], "no_rope_layer_interval": 2,
                          "use_sliding_window": true, "sliding_window": 96})");
  EXPECT_EQ(WithoutPositions(listed), (Flags{true, false, false, true}));
  EXPECT_EQ(Windows(listed), (Widths{96, 0, 0, 96}));
  EXPECT_EQ(Windows(PlanOfFamily("smollm3", R"({"use_sliding_window": true, "sliding_window": 96,
                                        "layer_types": ["sliding_attention", "full_attention",
                                                        "full_attention", "full_attention"]})")),
            (Widths{96, 0, 0, 0}));
  // ReRoPE is for layers that rotate.
  const ModelSpec rerope = PlanOfFamily("smollm3", "{}", R"({"rerope_window": 30})");
  EXPECT_EQ(rerope.layers[0].position, PositionKind::kRerope);
  EXPECT_EQ(rerope.layers[3].position, PositionKind::kNone);
}

TEST(FamilyTest, Exaone4) {
  const ModelSpec spec = PlanOfFamily("exaone4", R"({"sliding_window": 96})");
  EXPECT_EQ(Windows(spec), (Widths{96, 96, 96, 0}));
  EXPECT_EQ(WithoutPositions(spec), (Flags{false, false, false, true}));
  EXPECT_EQ(
      Windows(PlanOfFamily("exaone4", R"({"sliding_window": 96, "sliding_window_pattern": "LG"})")),
      (Widths{96, 0, 96, 0}));
  EXPECT_EQ(Windows(PlanOfFamily("exaone4", R"({"sliding_window": 96, "sliding_window_pattern": 2,
      "layer_types": ["full_attention", "sliding_attention", "full_attention",
                      "full_attention"]})")),
            (Widths{0, 96, 0, 0}));
  const ModelSpec full = PlanOfFamily("exaone4", R"({"sliding_window": null})");
  EXPECT_EQ(Windows(full), (Widths{0, 0, 0, 0}));
  EXPECT_EQ(WithoutPositions(full), (Flags{false, false, false, false}));
}

TEST(FamilyTest, Olmo) {
  const ModelSpec olmo2 = PlanOfFamily("olmo2", R"({"rms_norm_eps": "<absent>"})");
  EXPECT_FLOAT_EQ(olmo2.norm_eps, 1e-5f);
  EXPECT_EQ(Windows(olmo2), (Widths{0, 0, 0, 0}));
  const ModelSpec olmo3 = PlanOfFamily("olmo3", R"({"sliding_window": 96, "rope_theta": "<absent>",
                        "rope_scaling": {"rope_type": "linear", "factor": 2.0}})");
  EXPECT_EQ(Windows(olmo3), (Widths{96, 96, 96, 0}));
  EXPECT_EQ(olmo3.layers[0].rope, RopeSpec{.theta = 5e5});
  EXPECT_EQ(olmo3.layers[3].rope.inv_freq[0], 0.5);
  EXPECT_EQ(Windows(PlanOfFamily("olmo3", R"({"max_position_embeddings": 8192,
      "layer_types": ["full_attention", "sliding_attention", "full_attention",
                      "full_attention"]})")),
            (Widths{0, 4096, 0, 0}));
}

TEST(FamilyTest, Gemma) {
  const ModelSpec gemma = PlanOfFamily("gemma", R"({"hidden_act": "gelu", "head_dim": "<absent>",
                                            "tie_word_embeddings": "<absent>"})");
  EXPECT_EQ(gemma.activation, Activation::kGeluTanh);
  EXPECT_TRUE(gemma.tied_head);
  EXPECT_EQ(gemma.layers[0].head_dim, 256);
  const ModelSpec local =
      PlanOfFamily("gemma3_text", R"({"sliding_window": 96, "rope_local_base_freq": 5000})");
  EXPECT_EQ(local.layers[0].rope, RopeSpec{.theta = 5000});
  const ModelSpec by_type = PlanOfFamily(
      "gemma3_text",
      R"({"sliding_window": 96, "rope_theta": "<absent>", "layer_types": ["sliding_attention",
          "full_attention", "full_attention", "full_attention"], "rope_parameters": {
          "full_attention": {"rope_type": "default", "rope_theta": 1e6},
          "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})");
  EXPECT_EQ(by_type.layers[0].rope, RopeSpec{.theta = 1e4});
  EXPECT_EQ(by_type.layers[1].rope, RopeSpec{.theta = 1e6});
}

TEST(FamilyTest, Gemma2) {
  const ModelSpec spec =
      PlanOfFamily("gemma2", R"({"hidden_act": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16,
          "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 96,
          "sliding_window_size": 96, "cache_implementation": "hybrid"})");
  EXPECT_EQ(Windows(spec), (Widths{96, 0, 96, 0}));
  EXPECT_EQ(spec.layers[0].softcap, 50.0);
  EXPECT_EQ(spec.layers[1].softcap, 50.0);
  EXPECT_EQ(spec.logit_softcap, 30.0f);
  const ModelSpec without = PlanOfFamily("gemma2", R"({"attn_logit_softcapping": null,
      "final_logit_softcapping": null, "max_position_embeddings": 8192})");
  EXPECT_EQ(without.layers[0].softcap, 0.0);
  EXPECT_EQ(without.logit_softcap, 0.0f);
  EXPECT_EQ(Windows(without), (Widths{4096, 0, 4096, 0}));
  // Gemma 3's class also has these keys, but it has no values for them and applies only the second.
  const ModelSpec gemma3 = PlanOfFamily("gemma3_text", R"({"attn_logit_softcapping": 20.0,
                                                        "hidden_act": "gelu"})");
  EXPECT_EQ(gemma3.activation, Activation::kGeluTanh);
  EXPECT_EQ(gemma3.layers[3].softcap, 0.0);
  EXPECT_EQ(gemma3.logit_softcap, 0.0f);
  EXPECT_EQ(PlanOfFamily("gemma3_text", R"({"final_logit_softcapping": 20.0})").logit_softcap,
            20.0f);
}

TEST(FamilyTest, Afmoe) {
  const ModelSpec spec = PlanOfFamily("afmoe", R"({"num_dense_layers": 4, "sliding_window": 96,
      "global_attn_every_n_layers": 2, "mup_enabled": true, "rms_norm_eps": "<absent>",
      "head_dim": "<absent>", "tie_word_embeddings": "<absent>", "num_experts": 64,
      "num_experts_per_tok": 6, "num_shared_experts": 2, "moe_intermediate_size": 32,
      "route_scale": 2.5, "route_norm": true, "score_func": "sigmoid", "n_group": 1})");
  EXPECT_EQ(Windows(spec), (Widths{96, 0, 96, 0}));
  EXPECT_EQ(WithoutPositions(spec), (Flags{false, true, false, true}));
  EXPECT_EQ(spec.layers[1].head_dim, 128);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-5f);
  EXPECT_FALSE(spec.tied_head);
  EXPECT_EQ(PlanOfFamily("afmoe", R"({"num_dense_layers": 4})").embedding_multiplier, 1.0f);
}

TEST(FamilyTest, Cohere) {
  EXPECT_EQ(PlanOfFamily("cohere", "{}").logit_multiplier, 0.0625f);
  EXPECT_TRUE(PlanOfFamily("cohere", R"({"attention_bias": true})").layers[3].qkv_bias);
}

TEST(FamilyTest, Glm) {
  const ModelSpec silent = PlanOfFamily(
      "glm",
      R"({"head_dim": "<absent>", "num_key_value_heads": "<absent>", "rms_norm_eps": "<absent>"})");
  const MixerSpec& mixer = silent.layers[3];
  EXPECT_EQ(mixer.num_kv_heads, 2);
  EXPECT_EQ(mixer.head_dim, 128);
  EXPECT_EQ(mixer.rope.rotated, 64);
  EXPECT_TRUE(mixer.qkv_bias);
  EXPECT_FLOAT_EQ(silent.norm_eps, 1.5625e-7f);
  EXPECT_FALSE(PlanOfFamily("glm", R"({"attention_bias": false})").layers[0].qkv_bias);
  // The config's values remain where the option has none.
  const ModelSpec whole = PlanOfFamily("glm", R"({"rope_theta": "<absent>", "rope_parameters": {
      "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}})",
                                       R"({"rope_scaling": {"type": "linear", "factor": 2.0}})");
  EXPECT_EQ(whole.layers[0].rope.inv_freq.size(), 4U);
  EXPECT_TRUE(whole.layers[0].rope.neighbours);
}

TEST(FamilyTest, RopeByLayerType) {
  const ModelSpec spec =
      PlanOfFamily("qwen3",
                   R"({"use_sliding_window": true, "sliding_window": 96, "max_window_layers": 3,
          "rope_theta": "<absent>",
          "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})");
  EXPECT_EQ(spec.layers[2].rope.theta, 1e6);
  EXPECT_EQ(spec.layers[3].rope.theta, 1e4);
}

TEST(FamilyTest, Overrides) {
  const char* qwen =
      R"({"use_sliding_window": true, "sliding_window": 96, "max_window_layers": 2})";
  // Only the width, only the layers, both.
  EXPECT_EQ(Windows(PlanOfFamily("qwen3", qwen, R"({"window": 48})")), (Widths{0, 0, 48, 48}));
  EXPECT_EQ(Windows(PlanOfFamily("qwen3", qwen, R"({"full_layers": [1, 3]})")),
            (Widths{96, 0, 96, 0}));
  EXPECT_EQ(Windows(PlanOfFamily("qwen3", qwen, R"({"window": 48, "full_layers": []})")),
            (Widths{48, 48, 48, 48}));
  const ModelSpec rerope =
      PlanOfFamily("qwen3", qwen, R"({"rerope_window": 30, "rope_scaling": {"type": "linear",
                                                                    "factor": 2.0}})");
  EXPECT_EQ(rerope.layers[0].position, PositionKind::kRerope);
  EXPECT_EQ(rerope.layers[3].position, PositionKind::kRope);
  EXPECT_EQ(rerope.layers[0].rope.inv_freq[0], 0.5);
  EXPECT_EQ(rerope.layers[3].rope, rerope.layers[0].rope);
}

// The context is the length to which YaRN extends.
TEST(FamilyTest, YarnExtendsTheContext) {
  const char* yarn = R"({"rope_scaling": {"type": "yarn", "factor": 4.0,
                                          "original_max_position_embeddings": 640}})";
  EXPECT_EQ(PlanOfFamily("qwen2", yarn).context_limit, 2560);
  EXPECT_EQ(PlanOfFamily("qwen2", yarn, R"({"context_limit": 100})").context_limit, 100);
  EXPECT_EQ(
      PlanOfFamily("qwen2", R"({"rope_scaling": {"type": "linear", "factor": 4.0}})").context_limit,
      640);
}

const Refusal kWrongValuesOfFamily[] = {
    {R"({"model_type": "mistral", "sliding_window": 0})",
     "sliding_window must be an integer from 1 to 1099511627776, found 0"},
    {R"({"model_type": "smollm3", "no_rope_layers": [1, 0]})",
     "no_rope_layers must have num_hidden_layers = 4 items, found 2"},
    {R"({"model_type": "smollm3", "no_rope_layers": [1, 0, 2, 1]})",
     "no_rope_layers must be a list, each item an integer from 0 to 1, found [1,0,2,1]"},
    {R"({"model_type": "gemma2", "final_logit_softcapping": 0})",
     "final_logit_softcapping must be a number from 0.001 to 1e+09, found 0"},
    {R"({"model_type": "granite", "logits_scaling": 0})",
     "logits_scaling must be a number from 1e-09 to 1e+09, found 0"},
    {R"({"model_type": "llama", "full_position": "nope"})",
     "options: rope_scaling acts on nothing: no layer has RoPE",
     R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0}})"},
};

const Refusal kOtherMathematicsOfFamily[] = {
    {R"({"model_type": "mistral", "attention_bias": true})",
     "attention_bias must be false, found true"},
    {R"({"model_type": "mistral", "layer_types": ["full_attention"]})",
     NotKnown("layer_types = [\"full_attention\"]", "the backend hwfa2")},
    {R"({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 96,
          "layer_types": ["full_attention", "chunked_attention", "full_attention",
          "full_attention"]})",
     "layer_types must hold full_attention and sliding_attention only, found \"chunked_attention\" "
     "in layer 1"},
    {R"({"model_type": "phi3", "full_attn_mod": 2})", "full_attn_mod must be 1, found 2"},
    {R"({"model_type": "phi3", "lm_head_bias": true})", "lm_head_bias must be false, found true"},
    {R"({"model_type": "exaone4", "sliding_window": 96, "sliding_window_pattern": "GLL"})",
     "sliding_window_pattern must be a number or letters L before one G, found \"GLL\""},
    {R"({"model_type": "gpt_oss", "num_local_experts": 32, "sliding_window": 128,
          "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
          "full_attention"]})",
     "num_local_experts = 32 of model_type \"gpt_oss\": mixtures of experts of this model_type are "
     "not served"},
    {R"({"model_type": "cohere2", "use_qk_norm": true})", "use_qk_norm must be false, found true"},
    {R"({"model_type": "cohere2", "use_parallel_block": false})",
     "use_parallel_block must be true, found false"},
    {R"({"model_type": "glm", "head_dim": 6})",
     "partial_rotary_factor must rotate an even number of each head's 6 elements, found 3"},
    {R"({"model_type": "glm", "mlp_bias": true})",
     NotKnown("mlp_bias = true", "the backend hwfa2")},
};

TEST(FamilyTest, SaysWhatIsWrong) {
  const auto plan = [](const char* changes, const char* options) {
    PlanOfFamily("llama", changes, options);
  };
  ExpectRefusals(LS_INVALID_ARGUMENT, kWrongValuesOfFamily, plan);
  ExpectRefusals(LS_UNIMPLEMENTED, kOtherMathematicsOfFamily, plan);
}

}  // namespace
}  // namespace longstream
