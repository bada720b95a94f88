// The fixed decay of lightning attention (Qin et al., Lightning Attention-2; slopes of ALiBi).
#ifndef LONGSTREAM_BACKENDS_COMMON_WEIGHTS_DECAY_H_
#define LONGSTREAM_BACKENDS_COMMON_WEIGHTS_DECAY_H_

#include <cstdint>
#include <vector>

namespace longstream {

// ln gamma_h of heads h = 1 ... H, the same in every layer:
//
//   gamma_h = exp(-slope_h),  slope_h = 2^(-8 h / H)    for H a power of two
//
// else, with P the largest power of two below H: the P slopes of P heads, then the 1st, 3rd, 5th
// ... of the 2 P slopes of 2 P heads until there are H.
std::vector<float> LightningLogDecay(int32_t num_heads);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_COMMON_WEIGHTS_DECAY_H_
