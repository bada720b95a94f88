// Configs of the 14B shape.
#include "tests/bench/gpu/step_plans.h"

#include "backends/common/weights/config.h"
#include "backends/common/weights/load_options.h"
#include "backends/dense/dense_plan.h"
#include "backends/hwfa2/hwfa2_plan.h"
#include "backends/hypenet/hypenet_plan.h"

namespace longstream {
namespace {

// Members that all configs share. The context has room for a measurement after 512K tokens.
constexpr char kShape[] = R"("hidden_size": 5120, "intermediate_size": 17408,
  "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
  "vocab_size": 151936, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "hidden_act": "silu",
  "max_position_embeddings": 532480, "tie_word_embeddings": false, "torch_dtype": "bfloat16", )";

constexpr char kDense[] =
    R"("model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "attention_bias": false)";

constexpr char kTwoFull[] = R"("model_type": "hwfa2", "use_qk_norm": true, "training_length": 4096,
  "num_full_layers": 2, "sliding_window": 64, "full_position": "rerope", "rerope_window": 2048)";

constexpr char kPublished[] = R"json("model_type": "hypenet", "attn_use_rope": false,
  "attn_use_output_gate": true, "attn_logits_scaling": "hype 500", "lightning_nh": 40,
  "lightning_nkv": 40, "lightning_head_dim": 128, "lightning_scale": "1/sqrt(d)",
  "lightning_use_rope": true, "lightning_use_qk_norm": true, "lightning_use_output_norm": true,
  "lightning_use_output_gate": true, "mixer_types": )json";

std::string PublishedMixers() {
  std::string mixers = "[";
  for (int i = 0; i < 40; ++i) {
    mixers += std::string(i == 0 ? "" : ", ") + (i % 4 == 3 ? R"("attn")" : R"("lightning-attn")");
  }
  return mixers + "]";
}

using PlanFunction = ModelSpec (*)(const Config&, const LoadOptions&);

StepPlan Plan(const std::string& name, PlanFunction plan, const std::string& members) {
  return {name, plan(Config("{" + (kShape + members) + "}", name), LoadOptions())};
}

}  // namespace

std::vector<StepPlan> StepPlans() {
  return {Plan("dense", DensePlan, kDense), Plan("2 full + w 64", Hwfa2Plan, kTwoFull),
          Plan("HypeNet", HypenetPlan, kPublished + PublishedMixers())};
}

}  // namespace longstream
