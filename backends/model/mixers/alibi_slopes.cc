// The slopes of ALiBi and the fixed decay of lightning attention.
#include "backends/model/mixers/alibi_slopes.h"

#include <bit>
#include <cmath>

namespace longstream {

std::vector<float> AlibiSlopes(int32_t num_heads, double max) {
  const auto power = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(num_heads)));
  std::vector<float> slopes;
  for (int32_t h = 1; h <= power; ++h) {
    slopes.push_back(static_cast<float>(std::exp2(-max * h / power)));
  }
  for (int32_t h = 1; h <= num_heads - power; ++h) {
    // This is slope number 2 h - 1 of the slopes for 2 P heads, P = power.
    slopes.push_back(static_cast<float>(std::exp2(-max * (2 * h - 1) / (2 * power))));
  }
  return slopes;
}

std::vector<float> LightningLogDecay(int32_t num_heads) {
  std::vector<float> log_decay = AlibiSlopes(num_heads);
  for (float& value : log_decay) value = -value;
  return log_decay;
}

}  // namespace longstream
