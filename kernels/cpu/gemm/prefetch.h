// Prefetches the weights that several rows use next, while the rows use other weights.
//
// Several rows read weights too slowly to keep memory busy. So every tile of rows that uses the
// same weights prefetches a part of the next ones, at an even rate: a processor drops prefetches
// beyond the number of misses that it can have under way. After the last block of a panel comes the
// panel that the thread takes next.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_PREFETCH_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_PREFETCH_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/equal_parts.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// How far ahead of the weights in use the prefetched weights lie, if one tile has all rows and the
// whole width of a panel. (On a Zen 5 processor, 2 and 8 rows multiplied bf16 weights from memory.
// A distance of 16 KiB gave 0.96 of the speed of 8 KiB, and 4 KiB gave 0.9.)
inline constexpr int64_t kPrefetchDistance = int64_t{8} << 10;

// Describes the memory that a tile prefetches. In each step of its sums, it prefetches a line for
// each vector of weights that it reads.
struct Prefetch {
  const std::byte* from = nullptr;
  int64_t step = 0;    // bytes from the prefetch of one step to that of the next
  int64_t vector = 0;  // bytes from the prefetch of one vector to that of the next
  int64_t tile = 0;    // bytes from the first prefetch of one tile of rows to that of the next
};

// For a single tile: it prefetches the weights kPrefetchDistance bytes behind `from`. `step` is the
// number of bytes of weights that a step uses.
LONGSTREAM_INLINE Prefetch PrefetchBehind(const void* from, int64_t step) {
  return {static_cast<const std::byte*>(from) + kPrefetchDistance, step, kLineBytes, 0};
}

// Divides rows into tiles that use the same weights one after the other. If the weights are cut
// into columns, each column has its own tiles. This class counts the tiles, and says what each of
// them prefetches.
class TilePasses {
 public:
  // step_bytes: bytes of weights that all columns together use in a step of their sums
  LONGSTREAM_INLINE TilePasses(int64_t num_rows, int64_t most_rows, int64_t num_columns,
                               int64_t step_bytes)
      : rows(num_rows, most_rows),
        num_passes_(rows.count * num_columns),
        step_bytes_(step_bytes),
        part_of_step_((step_bytes + num_passes_ - 1) / num_passes_) {}

  // Whether there is only one tile, which has all rows and the whole width of the weights. Such a
  // tile need not stop for other tiles.
  bool in_one_pass() const { return num_passes_ == 1; }

  // Returns the prefetch of the first tile of a column. The column uses the weights at `from` in
  // `steps` steps. The weights at `next` come after all columns and are as long. If there are
  // several tiles, each prefetches its part of them. In a step it prefetches a line or little more.
  // If there are two vectors, the second one prefetches the second half of that, which mostly is
  // the same line again.
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

// Whether a single row prefetches weights that take many instructions a byte: compressed ones and
// int4. A processor reads ahead by itself. But on AVX2 the instructions for few lines fill its
// out-of-order window, so it does not read far enough. On a Zen 3, the prefetch made compressed
// weights 1.2 times and int4 1.4 times as fast. Weights that take fewer instructions became slower:
// f32 had 0.75 of its speed, int8 0.95. On the baseline set, int8 takes many instructions too.
#if !defined(__AVX512F__)
inline constexpr bool kSingleRowPrefetches = true;
#else
inline constexpr bool kSingleRowPrefetches = false;
#endif

// Prefetches a line for a tile of kRows rows. The line goes into the first-level cache or, for few
// rows, into the second. (With lines in the first level, 2 and 3 rows of bf16 had 0.98 of the speed
// that they have with lines in the second.) A single row waits for memory anyway, so it prefetches
// only if kSingleRowPrefetches.
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
