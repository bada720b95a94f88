// How an op normalises a row before it projects it.
#ifndef LONGSTREAM_KERNELS_CORE_NORM_H_
#define LONGSTREAM_KERNELS_CORE_NORM_H_

#include <cstdint>

namespace longstream {

// RMSNorm: y = x / sqrt(mean(x^2) + eps) * weight + bias, with the mean in f32 over `size`
// elements. If `centred`, the norm is LayerNorm: the equation has x - mean(x) in place of x. Norms
// of heads (rope_cache_write) are not centred and have no bias.
struct Norm {
  const float* weight = nullptr;  // [size] f32; nullptr: no normalisation
  int64_t size = 0;
  float eps = 0.0f;
  bool centred = false;
  const float* bias = nullptr;  // [size] f32; nullptr: none

  bool enabled() const { return weight != nullptr; }
};

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_NORM_H_
