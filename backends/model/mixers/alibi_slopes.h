// The slopes of ALiBi (Press et al., Train Short, Test Long), and the fixed decay that lightning
// attention (Qin et al., Lightning Attention-2) derives from them.
#ifndef LONGSTREAM_BACKENDS_MODEL_MIXERS_ALIBI_SLOPES_H_
#define LONGSTREAM_BACKENDS_MODEL_MIXERS_ALIBI_SLOPES_H_

#include <cstdint>
#include <vector>

namespace longstream {

// m_h of heads h = 1 ... H, the same in every layer:
//
//   m_h = 2^(-b h / H)    for H a power of two; b = `max`, 8 unless a model states another
//
// For other H, with P the largest power of two below H: the P slopes of P heads, then the 1st, 3rd,
// 5th ... of the 2 P slopes of 2 P heads, H slopes in all.
std::vector<float> AlibiSlopes(int32_t num_heads, double max = 8.0);

// ln gamma_h of heads h = 1 ... H, gamma_h = exp(-m_h).
std::vector<float> LightningLogDecay(int32_t num_heads);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_MIXERS_ALIBI_SLOPES_H_
