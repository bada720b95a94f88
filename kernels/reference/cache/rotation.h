// Rotary position embedding of one head's row in the reference ops.
#ifndef LONGSTREAM_KERNELS_REFERENCE_CACHE_ROTATION_H_
#define LONGSTREAM_KERNELS_REFERENCE_CACHE_ROTATION_H_

#include <cstdint>
#include <vector>

namespace longstream::reference {

// x rotated by a row of RopeTable or, if rope is nullptr, x itself. Computes in f32, because a
// rounded key must have the same bits in every op that rotates it.
inline std::vector<float> Rotated(const std::vector<float>& x, const float* rope) {
  if (rope == nullptr) return x;
  const size_t half = x.size() / 2;
  std::vector<float> y(x.size());
  for (size_t i = 0; i < half; ++i) {
    const float cosine = rope[i];
    const float sine = rope[half + i];
    y[i] = x[i] * cosine - x[i + half] * sine;
    y[i + half] = x[i + half] * cosine + x[i] * sine;
  }
  return y;
}

}  // namespace longstream::reference

#endif  // LONGSTREAM_KERNELS_REFERENCE_CACHE_ROTATION_H_
