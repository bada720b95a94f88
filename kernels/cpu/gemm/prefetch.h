// Asking for the weights that several rows use next while they use others.
//
// Reading weights for several rows does not keep memory busy. What is asked for meanwhile comes at
// an even rate, from all tiles of rows that pass the same weights one after the other, because what
// exceeds the misses that a processor can have under way is dropped. Behind the last block of a
// panel lies the panel that the thread takes next.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_PREFETCH_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_PREFETCH_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/equal_parts.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// How far behind the weights that several rows use those lie that they ask for, where one tile has
// all rows and the whole width of a panel. (On a Zen 5 processor, 2 and 8 rows of bf16 from memory:
// 16 KiB 0.96 of the speed, 4 KiB 0.9.)
inline constexpr int64_t kPrefetchDistance = int64_t{8} << 10;

// What a tile asks for: in each step of its sums a line for each vector of weights that it reads.
struct Prefetch {
  const std::byte* from = nullptr;
  int64_t step = 0;    // bytes from what one step asks for to what the next one does
  int64_t vector = 0;  // and from what goes with one vector of weights to the next
  int64_t tile = 0;    // and to what the next tile of rows asks for
};

// For the only tile: what lies kPrefetchDistance behind the weights at `from`, of which a step
// takes `step` bytes.
LONGSTREAM_INLINE Prefetch PrefetchBehind(const void* from, int64_t step) {
  return {static_cast<const std::byte*>(from) + kPrefetchDistance, step, kLineBytes, 0};
}

// Rows in tiles that pass the same weights one after the other, in columns of tiles side by side:
// how many, and what each asks for meanwhile.
class TilePasses {
 public:
  // step_bytes: of weights, that all columns together use in a step of their sums
  LONGSTREAM_INLINE TilePasses(int64_t num_rows, int64_t most_rows, int64_t num_columns,
                               int64_t step_bytes)
      : rows(num_rows, most_rows),
        num_passes_(rows.count * num_columns),
        step_bytes_(step_bytes),
        part_of_step_((step_bytes + num_passes_ - 1) / num_passes_) {}

  // Whether there is one tile: all rows, over the whole width of the weights. It need not stop for
  // others.
  bool in_one_pass() const { return num_passes_ == 1; }

  // What the first tile of a column asks for, which uses the weights at `from` in `steps` steps;
  // behind all columns come those at `next`. Of several tiles each asks for its part of as many
  // bytes there. Of a step's part, a line or little more, the second of two vectors asks for the
  // second half: mostly the same line again.
  LONGSTREAM_INLINE Prefetch First(int64_t column, const void* from, const void* next,
                                   int64_t steps) const {
    if (in_one_pass()) return PrefetchBehind(from, step_bytes_);
    const int64_t part = steps * step_bytes_ / num_passes_;
    return {static_cast<const std::byte*>(next) + column * rows.count * part, part_of_step_,
            part_of_step_ / 2, part};
  }

  const EqualParts rows;

 private:
  const int64_t num_passes_;
  const int64_t step_bytes_;
  const int64_t part_of_step_;
};

// Whether a single row asks for weights that take many instructions a byte, compressed and int4
// ones. A processor reads ahead by itself, but on AVX2 the instructions of few lines fill its
// window and it did not read far enough (Zen 3: 1.2 and 1.4 times as fast; f32 and int8, which take
// fewer, 0.75 and 0.95). On the baseline int8 takes many too.
#if !defined(__AVX512F__)
inline constexpr bool kSingleRowPrefetches = true;
#else
inline constexpr bool kSingleRowPrefetches = false;
#endif

// Asks for a line on behalf of kRows rows: into the first-level cache, but that makes few rows
// slower (2 and 3 of bf16: 0.98). A single one waits for memory anyway.
template <int kRows, bool kManyInstructions = false>
LONGSTREAM_INLINE void PrefetchLine(const std::byte* line) {
  if constexpr (kRows > 4) {
    PrefetchL1(line);
  } else if constexpr (kRows > 1 || (kManyInstructions && kSingleRowPrefetches)) {
    PrefetchL2(line);
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_PREFETCH_H_
