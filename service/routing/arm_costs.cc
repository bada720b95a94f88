// Predicts times and bytes.
#include "service/routing/arm_costs.h"

#include <algorithm>
#include <cmath>

namespace longstream {

double ArmCosts::PrefillSeconds(uint64_t tokens) const {
  if (tokens == 0) return 0.0;
  return std::max(prefill.Sum(0, static_cast<double>(tokens)), decode.base);
}

double ArmCosts::SecondsPerToken(uint64_t prompt, uint64_t tokens) const {
  return decode.At(static_cast<double>(prompt) + static_cast<double>(tokens) / 2);
}

uint64_t ArmCosts::SessionBytes(uint64_t tokens) const {
  if (page_tokens == 0) return fixed_bytes;
  const uint64_t pages = tokens / page_tokens + (tokens % page_tokens == 0 ? 0 : 1);
  return fixed_bytes + pages * page_tokens * kv_bytes_per_token;
}

uint64_t ArmCosts::TokensOf(uint64_t text_bytes) const {
  return static_cast<uint64_t>(
      std::ceil(static_cast<double>(text_bytes) / std::max(bytes_per_token, 0.01)));
}

void SetSlopesByMemory(uint64_t weight_bytes, ArmCosts* costs) {
  if (weight_bytes == 0) return;
  const double part =
      static_cast<double>(costs->kv_bytes_per_token) / static_cast<double>(weight_bytes);
  costs->decode.slope = costs->decode.base * part;
  costs->prefill.slope = costs->prefill.base * part;
}

void LimitSlopeByMemory(uint64_t weight_bytes, ArmCosts* costs) {
  if (weight_bytes == 0) return;
  const double middle = static_cast<double>(costs->measured_depth) / 2;
  const double level = costs->decode.At(middle);
  // level = base + slope * middle with slope = base * part
  const double part =
      static_cast<double>(costs->kv_bytes_per_token) / static_cast<double>(weight_bytes);
  const double by_memory = level * part / (1 + part * middle);
  costs->decode.slope = std::clamp(costs->decode.slope, 0.5 * by_memory, 2 * by_memory);
  costs->decode.base = std::max(0.0, level - costs->decode.slope * middle);
}

}  // namespace longstream
