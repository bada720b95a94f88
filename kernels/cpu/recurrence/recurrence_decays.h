// The decays of a block's rows, for all ways to compute its products.
#ifndef LONGSTREAM_KERNELS_CPU_RECURRENCE_RECURRENCE_DECAYS_H_
#define LONGSTREAM_KERNELS_CPU_RECURRENCE_RECURRENCE_DECAYS_H_

#include <cstdint>

#include "kernels/cpu/recurrence/recurrence_block.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// The number of key elements whose decays are on the stack at a time. Their part of a slice of the
// state stays in a second-level cache while the rows of a block are added to it.
inline constexpr int64_t kKeyChunk = 64;

// decays[i] = e^(log_decay (grid - i)). A reader that begins at index grid - r gets the decays of
// the keys 0, 1, ... r for query r: e^(log_decay r) for key 0, and 1 for key r.
LONGSTREAM_INLINE void FallingDecays(float log_decay, int64_t grid, float* decays) {
  for (int64_t i = 0; i <= grid; i += kLanes) {
    const F32x16 n = ToF32(Broadcast(static_cast<int32_t>(grid)) - Iota(static_cast<int32_t>(i)));
    Store(Exp(n * Broadcast(log_decay)), decays + i);
  }
}

// For the rows [begin, end) of a block and the key elements [first, first + width), computes
// keys[j - begin] = k_j * F(j + 1, end - 1) and decays = F(begin, end - 1).
LONGSTREAM_INLINE void DecayFixedKeys(const RecurrenceBlock& block, int64_t begin, int64_t end,
                                      int64_t first, int64_t width, float* keys, float* decays) {
  for (int64_t j = begin; j < end; ++j) {
    const F32x16 decay = Exp(Broadcast(block.log_decay * static_cast<float>(end - 1 - j)));
    ForEachRowVector(width, [&](int64_t d, const auto& access) LONGSTREAM_INLINE_LAMBDA {
      Store(access.Read(block.keys.row(j) + first + d) * decay, keys + (j - begin) * kKeyChunk + d);
    });
  }
  const F32x16 decay = Exp(Broadcast(block.log_decay * static_cast<float>(end - begin)));
  for (int64_t d = 0; d < kKeyChunk; d += kLanes) Store(decay, decays + d);
}

LONGSTREAM_INLINE void DecayGatedKeys(const RecurrenceBlock& block, int64_t begin, int64_t end,
                                      int64_t first, int64_t width, float* keys, float* decays) {
  ForEachRowVector(width, [&](int64_t d, const auto& access) LONGSTREAM_INLINE_LAMBDA {
    F32x16 sum = Zero();
    for (int64_t j = end - 1; j >= begin; --j) {
      const F32x16 key = access.Read(block.keys.row(j) + first + d);
      Store(key * Exp(sum), keys + (j - begin) * kKeyChunk + d);
      sum = sum + access.Read(block.log_gates.row(j) + first + d);
    }
    Store(Exp(sum), decays + d);
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_RECURRENCE_RECURRENCE_DECAYS_H_
