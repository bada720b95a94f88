// Writes the config.json of each shape and plan.
#include "tests/bench/plans/bench_plans.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <stdexcept>

#include "backends/architectures/hypenet/hypenet_plan.h"
#include "backends/architectures/placement/dense_plan.h"
#include "backends/architectures/placement/hwfa2_plan.h"
#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"

namespace longstream {
namespace {

struct Shape {
  const char* name;
  int num_layers;
  int num_heads;
  int head_dim;
  bool qk_norm;
  int mlp_width;
  const char* members;  // members of config.json
};

constexpr Shape kShapes[] = {
    {"0.6b", 28, 16, 128, true, 3072,
     R"("hidden_size": 1024, "num_key_value_heads": 8,
        "vocab_size": 151936, "tie_word_embeddings": true, )"},
    {"200m", 24, 12, 64, false, 2048,
     R"("hidden_size": 768, "num_key_value_heads": 12,
        "vocab_size": 32000, "tie_word_embeddings": true, )"},
    {"2b", 28, 16, 128, true, 6144,
     R"("hidden_size": 2048, "num_key_value_heads": 8,
        "vocab_size": 151936, "tie_word_embeddings": true, )"},
    {"14b", 40, 40, 128, true, 17408,
     R"("hidden_size": 5120, "num_key_value_heads": 8,
        "vocab_size": 151936, "tie_word_embeddings": false, )"},
    {"tiny", 4, 4, 16, true, 64,
     R"("hidden_size": 48, "num_key_value_heads": 2,
        "vocab_size": 257, "tie_word_embeddings": false, )"},
};

std::string Quoted(const std::string& key, int value) {
  return "\"" + key + "\": " + std::to_string(value) + ", ";
}

std::string Quoted(const std::string& key, bool value) {
  return "\"" + key + "\": " + (value ? "true" : "false") + ", ";
}

std::string ShapeMembers(const Shape& shape) {
  return shape.members + Quoted("intermediate_size", shape.mlp_width) +
         Quoted("num_hidden_layers", shape.num_layers) +
         Quoted("num_attention_heads", shape.num_heads) + Quoted("head_dim", shape.head_dim) +
         R"("rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "hidden_act": "silu",
            "max_position_embeddings": 532480, "torch_dtype": "bfloat16", )";
}

std::string DenseMembers(const Shape& shape) {
  return shape.qk_norm ? R"("model_type": "qwen3", "attention_bias": false)"
                       : R"("model_type": "llama", "attention_bias": false)";
}

std::string ExpertMembers(const Shape& shape) {
  constexpr int kChosen = 8;
  return Quoted("num_experts", 4 * kChosen) + Quoted("num_experts_per_tok", kChosen) +
         Quoted("moe_intermediate_size", shape.mlp_width / kChosen) +
         R"("model_type": "qwen3_moe", "attention_bias": false, "norm_topk_prob": true)";
}

std::string Hwfa2Members(const Shape& shape) {
  return Quoted("use_qk_norm", shape.qk_norm) +
         R"("model_type": "hwfa2", "training_length": 4096, "num_full_layers": 2,
            "sliding_window": 64, "full_position": "rerope", "rerope_window": 2048)";
}

std::string PublishedMixers(int num_layers) {
  const std::set<int> attention_of_2b = {2, 3, 6, 8, 9, 21, 25};
  std::string mixers;
  for (int i = 0; i < num_layers; ++i) {
    const bool attention = num_layers == 28 ? attention_of_2b.contains(i) : i % 4 == 3;
    mixers += std::string(i == 0 ? "" : ", ") + (attention ? R"("attn")" : R"("lightning-attn")");
  }
  return "[" + mixers + "]";
}

std::string PublishedMembers(const Shape& shape) {
  return Quoted("lightning_nh", shape.num_heads) + Quoted("lightning_nkv", shape.num_heads) +
         Quoted("lightning_head_dim", shape.head_dim) +
         R"json("model_type": "hypenet", "attn_use_rope": false, "attn_use_output_gate": true,
            "attn_logits_scaling": "hype 500", "lightning_scale": "1/sqrt(d)",
            "lightning_use_rope": true, "lightning_use_qk_norm": true,
            "lightning_use_output_norm": true, "lightning_use_output_gate": true,
            "mixer_types": )json" +
         PublishedMixers(shape.num_layers);
}

std::string ChunkedMembers(const Shape& shape) {
  return Quoted("use_qk_norm", shape.qk_norm) +
         R"("model_type": "hypenet", "hypenet_profile": "chunked", "attention_window": 2048)";
}

struct Plan {
  const char* name;
  ModelSpec (*read)(const Config&, const LoadOptions&);
  std::string (*members)(const Shape&);
};

constexpr Plan kPlans[] = {{"dense", DensePlan, DenseMembers},
                           {"experts", DensePlan, ExpertMembers},
                           {"hwfa2", Hwfa2Plan, Hwfa2Members},
                           {"hypenet", HypenetPlan, PublishedMembers},
                           {"chunked", HypenetPlan, ChunkedMembers}};

template <typename Item, size_t kCount>
std::vector<std::string> Names(const Item (&items)[kCount]) {
  std::vector<std::string> names;
  for (const Item& item : items) names.emplace_back(item.name);
  return names;
}

template <typename Item, size_t kCount>
const Item& Find(const Item (&items)[kCount], const std::string& kind, const std::string& name) {
  const auto found = std::find_if(std::begin(items), std::end(items),
                                  [&](const Item& item) { return item.name == name; });
  if (found != std::end(items)) return *found;
  std::string known;
  for (const Item& item : items) known += (known.empty() ? "" : ", ") + std::string(item.name);
  throw std::invalid_argument(kind + " must be one of " + known + ", found " + name);
}

}  // namespace

std::vector<std::string> BenchShapes() { return Names(kShapes); }

std::vector<std::string> BenchPlans() { return Names(kPlans); }

std::string BenchConfig(const std::string& shape, const std::string& plan) {
  const Shape& sizes = Find(kShapes, "shape", shape);
  return "{" + ShapeMembers(sizes) + Find(kPlans, "plan", plan).members(sizes) + "}";
}

ModelSpec BenchSpec(const std::string& shape, const std::string& plan) {
  const std::string json = BenchConfig(shape, plan);
  return Find(kPlans, "plan", plan).read(Config(json, shape + " " + plan), LoadOptions());
}

}  // namespace longstream
