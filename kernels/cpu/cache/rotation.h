// Rotary position embedding of one head's row, half-split form: element i pairs with i + D / 2.
#ifndef LONGSTREAM_KERNELS_CPU_CACHE_ROTATION_H_
#define LONGSTREAM_KERNELS_CPU_CACHE_ROTATION_H_

#include <cstdint>

#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// The steps that transform a head's row. Each is optional.
struct HeadTransform {
  const float* norm_weight = nullptr;  // [D]
  float inverse_rms = 1.0f;            // read with norm_weight
  const float* rope = nullptr;         // [D] a row of RopeTable
  float scale = 1.0f;
};

// to = scale * (x * inverse_rms * norm_weight, rotated by rope), D elements; `to` may be `from`.
// The products are not fused, so a key has the same bits on every instruction set.
template <typename From, typename To>
LONGSTREAM_INLINE void TransformHead(const HeadTransform& transform, int64_t dim, const From* from,
                                     To* to) {
  const float* norm_weight = transform.norm_weight;
  const float* rope = transform.rope;
  const float inverse_rms = transform.inverse_rms;
  const float scale = transform.scale;
  const auto read = [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
    const F32x16 x = access.Read(from + i);
    if (norm_weight == nullptr) return x;
    return x * Broadcast(inverse_rms) * access.Read(norm_weight + i);
  };
  if (rope == nullptr) {
    ForEachRowVector(dim, [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
      access.Write(read(i, access) * Broadcast(scale), to + i);
    });
    return;
  }
  const int64_t half = dim / 2;
  ForEachRowVector(half, [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
    const F32x16 a = read(i, access);
    const F32x16 b = read(i + half, access);
    const F32x16 cosine = access.Read(rope + i);
    const F32x16 sine = access.Read(rope + half + i);
    access.Write((a * cosine - b * sine) * Broadcast(scale), to + i);
    access.Write((b * cosine + a * sine) * Broadcast(scale), to + half + i);
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_CACHE_ROTATION_H_
