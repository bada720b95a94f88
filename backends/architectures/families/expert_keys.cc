// Keys of mixtures of experts that several families have.
#include "backends/architectures/families/expert_keys.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace longstream {
namespace {

constexpr int64_t kMaxExperts = 1 << 12;

int64_t ReadNumExperts(const Config& config, int64_t absent) {
  const std::optional<int64_t> number = config.FindInteger("num_experts", 0, kMaxExperts);
  const std::optional<int64_t> local = config.FindInteger("num_local_experts", 0, kMaxExperts);
  if (number && local && *number != *local) {
    config.Invalid("num_local_experts",
                   "= " + config.Found("num_local_experts") +
                       " disagrees with num_experts = " + config.Found("num_experts"));
  }
  return number ? *number : local.value_or(absent);
}

}  // namespace

ExpertsSpec ReadExperts(const Config& config, const ExpertDefaults& defaults) {
  ExpertsSpec experts;
  experts.num_experts = ReadNumExperts(config, defaults.num_experts);
  experts.num_chosen =
      config.FindInteger("num_experts_per_tok", 1, kMaxExperts).value_or(defaults.num_chosen);
  experts.width =
      defaults.width > 0
          ? config.FindInteger(defaults.width_key, 1, kMaxWidth).value_or(defaults.width)
          : config.Integer(defaults.width_key, 1, kMaxWidth);
  if (experts.num_experts > 0 && experts.num_chosen > experts.num_experts) {
    config.Invalid("num_experts_per_tok", "must be at most the number of experts, " +
                                              std::to_string(experts.num_experts) + ", found " +
                                              std::to_string(experts.num_chosen));
  }
  for (const char* training :
       {"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"}) {
    config.Has(training);
  }
  return experts;
}

void RequireExperts(const Config& config, const ExpertsSpec& experts) {
  if (experts.num_experts > 0) return;
  const char* key = config.Has("num_experts") ? "num_experts" : "num_local_experts";
  config.Invalid(key, "must be at least 1, found " + config.Found(key));
}

void SetExperts(const ExpertsSpec& experts, size_t first, TransformerPlan* plan) {
  plan->spec.experts = experts;
  std::vector<MixerSpec>& layers = plan->spec.layers;
  for (size_t i = first; i < layers.size(); ++i) {
    layers[i].feed_forward = FeedForwardKind::kExperts;
  }
}

void SetQwenExperts(const Config& config, const ExpertsSpec& experts, TransformerPlan* plan) {
  const int64_t step = config.FindInteger("decoder_sparse_step", 1, kMaxLayers).value_or(1);
  const std::vector<int64_t> dense =
      config.FindIntegers("mlp_only_layers", 0, kMaxLayers).value_or(std::vector<int64_t>());
  if (experts.num_experts == 0) return;
  plan->spec.experts = experts;
  std::vector<MixerSpec>& layers = plan->spec.layers;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const bool is_dense = std::find(dense.begin(), dense.end(), index) != dense.end();
    if (!is_dense && (index + 1) % step == 0) layers[i].feed_forward = FeedForwardKind::kExperts;
  }
}

}  // namespace longstream
