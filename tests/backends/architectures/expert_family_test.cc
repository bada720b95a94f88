// Families with mixtures of experts: values of absent keys, which layers have experts, refusals.
// The logits of tests/golden test the keys that a config states.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/architectures/families/family.h"
#include "backends/architectures/placement/hwfa2_plan.h"
#include "tests/backends/architectures/config_edit.h"
#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

ModelSpec PlanOfExperts(const std::string& family, std::string_view changes) {
  const std::string base = EditedText(kLlama, R"({"num_hidden_layers": 4, "num_attention_heads": 16,
                             "num_key_value_heads": "<absent>", "rms_norm_eps": "<absent>",
                             "rope_theta": "<absent>", "head_dim": 4, "model_type": ")" +
                                                  family + R"("})");
  return Hwfa2Plan(Edited(base, changes), LoadOptions("{}"));
}

// The layers that are mixtures of experts.
std::vector<size_t> ExpertLayers(const ModelSpec& spec) {
  std::vector<size_t> layers;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (spec.layers[i].feed_forward == FeedForwardKind::kExperts) layers.push_back(i);
  }
  return layers;
}

std::vector<int32_t> WindowsOfExperts(const ModelSpec& spec) {
  std::vector<int32_t> windows;
  for (const MixerSpec& mixer : spec.layers) windows.push_back(mixer.window);
  return windows;
}

using ExpertIndices = std::vector<size_t>;
using ExpertWindows = std::vector<int32_t>;
const ExpertIndices kAllLayers = {0, 1, 2, 3};

TEST(ExpertFamilyTest, Qwen3) {
  const ModelSpec spec = PlanOfExperts("qwen3_moe", "{}");
  EXPECT_EQ(ExpertLayers(spec), kAllLayers);
  EXPECT_EQ(spec.experts.num_experts, 128);
  EXPECT_EQ(spec.experts.num_chosen, 8);
  EXPECT_EQ(spec.experts.width, 768);
  EXPECT_FALSE(spec.experts.normalise);
  EXPECT_EQ(spec.experts.score, RouterScore::kSoftmax);
  EXPECT_EQ(spec.experts.shared, SharedExpert::kNone);
  EXPECT_EQ(spec.layers[0].num_kv_heads, 4);
  EXPECT_EQ(spec.layers[0].qk_norm, QkNorm::kHead);
  EXPECT_FALSE(spec.layers[0].qkv_bias);
  EXPECT_EQ(spec.mlp_width, 40);  // of dense layers

  EXPECT_EQ(ExpertLayers(PlanOfExperts("qwen3_moe", R"({"decoder_sparse_step": 2})")),
            (ExpertIndices{1, 3}));
  EXPECT_EQ(ExpertLayers(PlanOfExperts("qwen3_moe", R"({"mlp_only_layers": [3, 0, 9]})")),
            (ExpertIndices{1, 2}));
  EXPECT_EQ(ExpertLayers(PlanOfExperts("qwen3_moe", R"({"num_experts": 0})")), ExpertIndices{});
  EXPECT_TRUE(PlanOfExperts("qwen3_moe", R"({"norm_topk_prob": true})").experts.normalise);
  // As transformers 5 writes it.
  EXPECT_EQ(PlanOfExperts("qwen3_moe", R"({"num_local_experts": 16})").experts.num_experts, 16);
}

TEST(ExpertFamilyTest, WindowsOfQwen3AreInAllLayers) {
  EXPECT_EQ(WindowsOfExperts(PlanOfExperts("qwen3_moe", R"({"sliding_window": 32,
                "max_window_layers": 2})")),
            (ExpertWindows{0, 0, 0, 0}));
  EXPECT_EQ(WindowsOfExperts(PlanOfExperts("qwen3_moe", R"({"sliding_window": 32,
                "max_window_layers": 2, "use_sliding_window": true})")),
            (ExpertWindows{32, 32, 32, 32}));
  EXPECT_EQ(WindowsOfExperts(PlanOfExperts("qwen3_moe", R"({"sliding_window": null,
                "use_sliding_window": true})")),
            (ExpertWindows{0, 0, 0, 0}));
  EXPECT_EQ(WindowsOfExperts(PlanOfExperts("qwen3_moe", R"({"use_sliding_window": true,
                "max_position_embeddings": 8192})")),
            (ExpertWindows{4096, 4096, 4096, 4096}));
}

TEST(ExpertFamilyTest, Qwen2) {
  const ModelSpec spec = PlanOfExperts("qwen2_moe", "{}");
  EXPECT_EQ(ExpertLayers(spec), kAllLayers);
  EXPECT_EQ(spec.experts.num_experts, 60);
  EXPECT_EQ(spec.experts.num_chosen, 4);
  EXPECT_EQ(spec.experts.width, 1408);
  EXPECT_EQ(spec.experts.shared, SharedExpert::kGated);
  EXPECT_EQ(spec.experts.shared_width, 5632);
  EXPECT_FALSE(spec.experts.normalise);
  EXPECT_EQ(spec.layers[0].num_kv_heads, 16);
  EXPECT_TRUE(spec.layers[0].qkv_bias);
  EXPECT_FALSE(spec.layers[0].output_bias);
  EXPECT_FALSE(PlanOfExperts("qwen2_moe", R"({"qkv_bias": false})").layers[0].qkv_bias);
  EXPECT_EQ(WindowsOfExperts(PlanOfExperts("qwen2_moe", R"({"use_sliding_window": true,
                "sliding_window": 32})")),
            (ExpertWindows{32, 0, 32, 0}));
  EXPECT_EQ(WindowsOfExperts(PlanOfExperts("qwen2_moe", R"({"use_sliding_window": true,
                "sliding_window": 32, "max_window_layers": 1})")),
            (ExpertWindows{32, 0, 0, 0}));
}

TEST(ExpertFamilyTest, Mixtral) {
  const ModelSpec spec = PlanOfExperts("mixtral", "{}");
  EXPECT_EQ(ExpertLayers(spec), kAllLayers);
  EXPECT_EQ(spec.experts.num_experts, 8);
  EXPECT_EQ(spec.experts.num_chosen, 2);
  EXPECT_EQ(spec.experts.width, 40);
  EXPECT_TRUE(spec.experts.normalise);
  EXPECT_EQ(spec.layers[0].num_kv_heads, 8);
  EXPECT_EQ(spec.layers[0].rope.theta, 1e6);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-5f);
  EXPECT_EQ(WindowsOfExperts(spec), (ExpertWindows{0, 0, 0, 0}));
  EXPECT_EQ(PlanOfExperts("mixtral", R"({"num_key_value_heads": null})").layers[0].num_kv_heads,
            16);
}

TEST(ExpertFamilyTest, Olmoe) {
  const ModelSpec spec = PlanOfExperts("olmoe", R"({"clip_qkv": 8})");
  EXPECT_EQ(ExpertLayers(spec), kAllLayers);
  EXPECT_EQ(spec.experts.num_experts, 64);
  EXPECT_EQ(spec.experts.num_chosen, 8);
  EXPECT_EQ(spec.experts.width, 40);
  EXPECT_FALSE(spec.experts.normalise);
  EXPECT_EQ(spec.layers[0].num_kv_heads, 16);
  EXPECT_EQ(spec.layers[0].qk_norm, QkNorm::kAllHeads);
  EXPECT_EQ(spec.layers[0].qkv_clip, 8.0);
  EXPECT_TRUE(spec.layers[0].norm_before_clip);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-5f);
}

TEST(ExpertFamilyTest, Granite) {
  const ModelSpec spec = PlanOfExperts("granitemoe", R"({"residual_multiplier": 0.5})");
  EXPECT_EQ(ExpertLayers(spec), kAllLayers);
  EXPECT_EQ(spec.experts.num_experts, 8);
  EXPECT_EQ(spec.experts.num_chosen, 2);
  EXPECT_TRUE(spec.experts.normalise);
  EXPECT_EQ(spec.experts.shared, SharedExpert::kNone);
  EXPECT_EQ(spec.residual_multiplier, 0.5f);
  EXPECT_EQ(spec.layers[0].score_scale, 1.0);

  EXPECT_EQ(PlanOfExperts("granitemoeshared", "{}").experts.shared, SharedExpert::kNone);
  const ModelSpec shared = PlanOfExperts("granitemoeshared", R"({"shared_intermediate_size": 24})");
  EXPECT_EQ(shared.experts.shared, SharedExpert::kPlain);
  EXPECT_EQ(shared.experts.shared_width, 24);
}

TEST(ExpertFamilyTest, Afmoe) {
  const ModelSpec spec = PlanOfExperts("afmoe", "{}");
  EXPECT_EQ(ExpertLayers(spec), (ExpertIndices{1, 2, 3}));
  EXPECT_EQ(spec.experts.num_experts, 64);
  EXPECT_EQ(spec.experts.num_chosen, 6);
  EXPECT_EQ(spec.experts.width, 1408);
  EXPECT_EQ(spec.experts.shared_width, 2816);
  EXPECT_EQ(spec.experts.shared, SharedExpert::kPlain);
  EXPECT_EQ(spec.experts.score, RouterScore::kSigmoid);
  EXPECT_TRUE(spec.experts.choice_bias);
  EXPECT_TRUE(spec.experts.normalise);
  EXPECT_EQ(spec.experts.scale, 1.0f);
  EXPECT_EQ(PlanOfExperts("afmoe", R"({"route_scale": 2.5})").experts.scale, 2.5f);
}

const std::vector<Refusal> kWrongExperts = {
    {R"({"model_type": "qwen3_moe", "num_experts": 4})",
     "num_experts_per_tok must be at most the number of experts, 4, found 8"},
    {R"({"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 5})",
     "num_experts_per_tok must be at most the number of experts, 4, found 5"},
    {R"({"model_type": "qwen3_moe", "num_experts": 8, "num_local_experts": 16})",
     "num_local_experts = 16 disagrees with num_experts = 8"},
    {R"({"model_type": "qwen3_moe", "num_experts": 4097})",
     "num_experts must be an integer from 0 to 4096, found 4097"},
    {R"({"model_type": "qwen3_moe", "decoder_sparse_step": 0})",
     "decoder_sparse_step must be an integer from 1 to 4096, found 0"},
    {R"({"model_type": "olmoe", "clip_qkv": 0})",
     "clip_qkv must be a number from 1e-09 to 1e+09, found 0"},
    {R"({"model_type": "mixtral", "num_local_experts": 0})",
     "num_local_experts must be at least 1, found 0"},
    {R"({"model_type": "afmoe", "num_shared_experts": 0})",
     "num_shared_experts must be an integer from 1 to 11915, found 0"},
};

const std::vector<Refusal> kOtherExperts = {
    {R"({"model_type": "afmoe", "score_func": "softmax"})",
     "score_func must be \"sigmoid\", found \"softmax\""},
    {R"({"model_type": "afmoe", "route_norm": false})", "route_norm must be true, found false"},
    {R"({"model_type": "afmoe", "n_group": 2})", "n_group must be 1, found 2"},
    {R"({"model_type": "olmoe", "sliding_window": 32})",
     NotKnown("sliding_window = 32", "the backend hwfa2")},
};

TEST(ExpertFamilyTest, SaysWhatIsWrong) {
  const auto plan = [](const char* changes, const char* options) {
    const std::string base =
        EditedText(kLlama, R"({"num_attention_heads": 16, "num_key_value_heads": 16})");
    Hwfa2Plan(Edited(base, changes), LoadOptions(options));
  };
  ExpectRefusals(LS_INVALID_ARGUMENT, kWrongExperts, plan);
  ExpectRefusals(LS_UNIMPLEMENTED, kOtherExperts, plan);
}

}  // namespace
}  // namespace longstream
