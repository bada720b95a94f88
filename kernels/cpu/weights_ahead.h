// Asking for the weights that several rows use next while they use others.
//
// Reading weights for several rows does not keep memory busy. What is asked for meanwhile comes at
// an even rate, from all tiles of rows that pass the same weights one after the other, because what
// exceeds the misses that a processor can have under way is dropped. Behind the last block of a
// panel lies the panel that the thread takes next.
#ifndef LONGSTREAM_KERNELS_CPU_WEIGHTS_AHEAD_H_
#define LONGSTREAM_KERNELS_CPU_WEIGHTS_AHEAD_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// How far behind the weights that several rows use those lie that they ask for, where all rows are
// one tile and pass the weights once. (On a Zen 5 processor, 2 and 8 rows of bf16 from memory: 16
// KiB 0.96 of the speed, 4 KiB 0.9.)
inline constexpr int64_t kAheadBytes = int64_t{8} << 10;

// What a tile asks for: in each step of its sums a line for each vector of weights that it reads.
struct WeightsAhead {
  const std::byte* from = nullptr;
  int64_t step = 0;    // bytes from what one step asks for to what the next one does
  int64_t vector = 0;  // and from what goes with one vector of weights to the next
};

// For the only tile: what lies kAheadBytes behind the weights at `from`, of which a step takes
// `step` bytes.
LONGSTREAM_INLINE WeightsAhead Behind(const void* from, int64_t step) {
  return {static_cast<const std::byte*>(from) + kAheadBytes, step, kLineBytes};
}

// For tile number `tile` of several that pass the same weights in `steps` steps each: its part of
// the `bytes` at `from`. Of a step's part, a line or little more, the second of two vectors asks
// for the second half: mostly the same line again.
LONGSTREAM_INLINE WeightsAhead PartOf(const void* from, int64_t bytes, int64_t tile,
                                      int64_t num_tiles, int64_t steps) {
  const int64_t step = (bytes / num_tiles + steps - 1) / steps;
  return {static_cast<const std::byte*>(from) + bytes * tile / num_tiles, step, step / 2};
}

// Asks for a line on behalf of kRows rows: into the first-level cache, but that makes few rows
// slower (2 and 3 of bf16: 0.98), and a single one waits for memory anyway.
template <int kRows>
LONGSTREAM_INLINE void Ask(const std::byte* line) {
  if constexpr (kRows > 4) {
    PrefetchL1(line);
  } else if constexpr (kRows > 1) {
    PrefetchL2(line);
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_WEIGHTS_AHEAD_H_
