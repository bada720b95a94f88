// Counts the bytes that a step reads.
#include "tests/bench/plans/step_bytes.h"

#include <algorithm>
#include <cmath>

namespace longstream {
namespace {

double LayerBytes(const LayerCacheLayout& layer, int64_t context) {
  const auto tokens = static_cast<double>(context);
  if (layer.paged.has_value()) return static_cast<double>(layer.bytes_per_token) * tokens;
  const auto fixed = static_cast<double>(layer.bytes_fixed);
  if (layer.ring.has_value()) {
    return fixed / layer.ring->slots * std::min(tokens, static_cast<double>(layer.ring->window));
  }
  const double state = sizeof(float) * static_cast<double>(layer.recurrent->state_elements());
  return state + (fixed - state) / 2;
}

}  // namespace

double StepWeightBytes(const ModelSpec& spec, const ModelWeights& weights, const OpTable& ops,
                       int64_t rows) {
  const auto num_experts = static_cast<double>(spec.experts.num_experts);
  const auto num_chosen = static_cast<double>(spec.experts.num_chosen);
  // The part of the experts that some row chooses.
  const double used = 1.0 - std::pow(1.0 - num_chosen / num_experts, static_cast<double>(rows));
  const auto bytes = [&](const PackedWeight& weight) {
    return weight.data == nullptr ? 0.0 : static_cast<double>(ops.read_bytes(weight));
  };
  double sum = bytes(weights.head);
  for (const LayerWeights& layer : weights.layers) {
    sum += bytes(layer.mixer.in) + bytes(layer.mixer.value) + bytes(layer.mixer.out) +
           bytes(layer.mlp.gate) + bytes(layer.mlp.up) + bytes(layer.mlp.down) +
           bytes(layer.experts.router);
    for (size_t e = 0; e < layer.experts.experts.size(); ++e) {
      const Expert& expert = layer.experts.experts[e];
      const bool is_shared = static_cast<int64_t>(e) >= spec.experts.num_experts;
      sum +=
          (is_shared ? 1.0 : used) * (bytes(expert.gate) + bytes(expert.up) + bytes(expert.down));
    }
  }
  return sum;
}

double DecodeCacheBytes(const CacheLayout& layout, int64_t context) {
  double sum = 0;
  for (const LayerCacheLayout& layer : layout.layers) sum += LayerBytes(layer, context);
  return sum;
}

}  // namespace longstream
