// Counts the bytes that a step reads.
#include "tests/bench/plans/step_bytes.h"

#include <algorithm>

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

double StepWeightBytes(const ModelWeights& weights, const OpTable& ops) {
  const auto bytes = [&](const PackedWeight& weight) {
    return weight.data == nullptr ? 0.0 : static_cast<double>(ops.read_bytes(weight));
  };
  double sum = bytes(weights.head);
  for (const LayerWeights& layer : weights.layers) {
    sum += bytes(layer.mixer.in) + bytes(layer.mixer.value) + bytes(layer.mixer.out) +
           bytes(layer.mlp.gate) + bytes(layer.mlp.up) + bytes(layer.mlp.down);
  }
  return sum;
}

double DecodeCacheBytes(const CacheLayout& layout, int64_t context) {
  double sum = 0;
  for (const LayerCacheLayout& layer : layout.layers) sum += LayerBytes(layer, context);
  return sum;
}

}  // namespace longstream
