// The three published sizes of HypeNet, in both dialects of their config (arXiv 2601.22156).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "backends/architectures/hypenet/hypenet_plan.h"
#include "tests/backends/architectures/config_edit.h"

namespace longstream {
namespace {

struct Size {
  const char* name;
  int layers;
  int width;
  int mlp;
  int heads;
  std::vector<int> attention;
  int hype;
};

const Size kSizes[] = {
    {"2B", 28, 2048, 6144, 16, {2, 3, 6, 8, 9, 21, 25}, 500},
    {"5B", 36, 2560, 9728, 32, {0, 1, 7, 14, 15, 22, 24, 31, 33}, 600},
    {"9B", 36, 4096, 12288, 32, {1, 2, 4, 6, 7, 10, 24, 33, 34}, 900},
};

struct Dialect {
  const char* name;
  const char* identity;
};

const Dialect kDialects[] = {
    {"HypeNet", R"("model_type": "hypenet", "architectures": ["HypeNetForCausalLM"])"},
    {"Hybrid", R"("model_type": "hybrid", "architectures": ["HybridForCausalLM"])"},
};

std::string ConfigOf(const Size& size, const Dialect& dialect) {
  std::string mixers;
  for (int layer = 0; layer < size.layers; ++layer) {
    const bool attention = std::count(size.attention.begin(), size.attention.end(), layer) > 0;
    mixers += std::string(layer > 0 ? ", " : "") + (attention ? "\"attn\"" : "\"lightning-attn\"");
  }
  const std::string heads = std::to_string(size.heads);
  return "{" + std::string(dialect.identity) + ", \"mixer_types\": [" + mixers +
         "], \"num_hidden_layers\": " + std::to_string(size.layers) +
         ", \"hidden_size\": " + std::to_string(size.width) +
         ", \"intermediate_size\": " + std::to_string(size.mlp) +
         ", \"num_attention_heads\": " + heads + ", \"lightning_nh\": " + heads +
         ", \"lightning_nkv\": " + heads + ", \"attn_logits_scaling\": \"hype " +
         std::to_string(size.hype) + R"json(", "num_key_value_heads": 8, "head_dim": 128,
      "lightning_head_dim": 128, "lightning_scale": "1/sqrt(d)", "lightning_use_rope": true,
      "lightning_use_qk_norm": true, "lightning_use_output_norm": true,
      "lightning_use_output_gate": true, "attn_use_rope": false, "attn_use_output_gate": true,
      "attention_bias": false, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000,
      "max_position_embeddings": 131072, "tie_word_embeddings": true, "vocab_size": 151936})json";
}

class HypenetSizesTest : public testing::TestWithParam<std::tuple<Size, Dialect>> {};

TEST_P(HypenetSizesTest, Plan) {
  const auto& [size, dialect] = GetParam();
  const Config config = Edited(ConfigOf(size, dialect), "{}");
  std::string why;
  EXPECT_EQ(HypenetFit(config, &why), 100) << why;
  const ModelSpec spec = HypenetPlan(config, LoadOptions("{}"));
  EXPECT_EQ(spec.width, size.width);
  EXPECT_EQ(spec.mlp_width, size.mlp);
  EXPECT_EQ(spec.vocabulary, 151936);
  EXPECT_EQ(spec.context_limit, 131072);
  EXPECT_TRUE(spec.tied_head);
  ASSERT_EQ(spec.layers.size(), static_cast<size_t>(size.layers));
  std::vector<int> attention;
  for (int layer = 0; layer < size.layers; ++layer) {
    const MixerSpec& mixer = spec.layers[static_cast<size_t>(layer)];
    EXPECT_EQ(mixer.num_heads, size.heads);
    EXPECT_EQ(mixer.head_dim, 128);
    EXPECT_EQ(mixer.qk_norm, QkNorm::kHead);
    EXPECT_TRUE(mixer.output_gate);
    if (mixer.kind == MixerKind::kLightning) {
      EXPECT_EQ(mixer.kind, MixerKind::kLightning);
      EXPECT_EQ(mixer.num_kv_heads, size.heads);
      EXPECT_EQ(mixer.position, PositionKind::kRope);
      EXPECT_EQ(mixer.rope.theta, 1e6);
      EXPECT_TRUE(mixer.output_norm);
      continue;
    }
    attention.push_back(layer);
    EXPECT_EQ(mixer.num_kv_heads, 8);
    EXPECT_EQ(mixer.position, PositionKind::kNone);
    EXPECT_EQ(mixer.logit_scale, LogitScaleKind::kHype);
    EXPECT_EQ(mixer.logit_scale_base, size.hype);
  }
  EXPECT_EQ(attention, size.attention);
}

INSTANTIATE_TEST_SUITE_P(Published, HypenetSizesTest,
                         testing::Combine(testing::ValuesIn(kSizes), testing::ValuesIn(kDialects)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::get<1>(test.param).name;
                         });

}  // namespace
}  // namespace longstream
