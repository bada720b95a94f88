// Products of f32 numbers on bf16 tiles (kernels/cpu/simd/amx_tiles.h).
//
// A number is the exact sum of three bf16 numbers, x = x1 + x2 + x3, of 8 bits each: x1 is x
// without its last 16 bits, and x2 and x3 are cut from the rest in the same way. (If x is tiny, the
// last parts are flushed.) A product takes six of the nine products of parts,
//
//   x y = x3 y1 + x2 y1 + x2 y2 + x1 y2 + x1 y3 + x1 y1
//
// and those that it leaves out are less than 2^-21 |x y|, on average 2^-24 |x y|.
//
// A tile of operands has 16 lines: rows of A, or columns of B. For each line it has up to 64 steps
// of k, in two chunks. In a chunk, steps i and i + 16 are a pair, so that no instruction has to
// bring neighbours together.
#ifndef LONGSTREAM_KERNELS_CPU_RECURRENCE_SPLIT_TILES_H_
#define LONGSTREAM_KERNELS_CPU_RECURRENCE_SPLIT_TILES_H_

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/transpose.h"

#if defined(LONGSTREAM_TILES)

namespace longstream::cpu::LONGSTREAM_ISA {

inline constexpr int kSplitParts = 3;
inline constexpr int64_t kSplitLines = kAmxRows;
inline constexpr int64_t kSplitChunk = 2 * kLanes;  // the steps of k of a chunk
inline constexpr int64_t kSplitChunks = 2;
inline constexpr int64_t kSplitDepth = kSplitChunks * kSplitChunk;

struct SplitChunk {
  alignas(64) BF16 parts[kSplitParts][kSplitLines * kSplitChunk];

  // Writes 16 pairs: one row of A, with 16 pairs of k, or one pair of k for 16 columns of B.
  LONGSTREAM_INLINE void Set(int64_t at, F32x16 first, F32x16 second) {
    const I32x16 upper = Broadcast(-0x10000);
    LONGSTREAM_UNROLL
    for (int part = 0; part < kSplitParts; ++part) {
      const I32x16 first_bits = ToBits(first), second_bits = ToBits(second) & upper;
      Store(((first_bits >> 16) & Broadcast(0xffff)) | second_bits,
            reinterpret_cast<int32_t*>(parts[part] + at * kSplitChunk));
      first = first - FromBits(first_bits & upper);
      second = second - FromBits(second_bits);
    }
  }

  // Writes lines whose steps are rows of a block: step i and line l at block[i * stride + l], and
  // steps i + 16 at second_block.
  LONGSTREAM_INLINE void SetTransposed(const float* first_block, const float* second_block,
                                       int64_t stride);
};

struct SplitTile {
  SplitChunk chunks[kSplitChunks];
};

// The sums of one or two tiles of rows with two tiles of columns.
template <bool kBoth>
struct SplitSums : AmxSums<kBoth, true> {
  // Adds the products of a[0] and, with kBoth, a[1], with b[0] and b[1]. Small products come first.
  LONGSTREAM_INLINE static void Add(AmxTiles& unit, const SplitTile* a, const SplitTile* b,
                                    int64_t num_chunks) {
    for (int64_t c = 0; c < num_chunks; ++c) {
      const auto load_a = [&](int part) LONGSTREAM_INLINE_LAMBDA {
        unit.Load<kAmxA>(a[0].chunks[c].parts[part], kAmxRowBytes);
        if constexpr (kBoth) unit.Load<kAmxA + 1>(a[1].chunks[c].parts[part], kAmxRowBytes);
      };
      const auto load_b = [&](int part) LONGSTREAM_INLINE_LAMBDA {
        unit.Load<kAmxB>(b[0].chunks[c].parts[part], kAmxRowBytes);
        unit.Load<kAmxB + 1>(b[1].chunks[c].parts[part], kAmxRowBytes);
      };
      const auto multiply = [&]() LONGSTREAM_INLINE_LAMBDA {
        unit.MultiplyBF16<0, kAmxA, kAmxB>();
        unit.MultiplyBF16<1, kAmxA, kAmxB + 1>();
        if constexpr (kBoth) {
          unit.MultiplyBF16<2, kAmxA + 1, kAmxB>();
          unit.MultiplyBF16<3, kAmxA + 1, kAmxB + 1>();
        }
      };
      // Each of these six products shares an operand with the one before.
      load_b(0);
      load_a(2);
      multiply();
      load_a(1);
      multiply();
      load_b(1);
      multiply();
      load_a(0);
      multiply();
      load_b(2);
      multiply();
      load_b(0);
      multiply();
    }
  }
};

LONGSTREAM_INLINE void SplitChunk::SetTransposed(const float* first_block,
                                                 const float* second_block, int64_t stride) {
  I32x16 first[kLanes], second[kLanes];
  LONGSTREAM_UNROLL
  for (int step = 0; step < kLanes; ++step) {
    first[step] = ToBits(Load(first_block + step * stride));
    second[step] = ToBits(Load(second_block + step * stride));
  }
  Transpose(first);
  Transpose(second);
  LONGSTREAM_UNROLL
  for (int line = 0; line < kLanes; ++line)
    Set(line, FromBits(first[line]), FromBits(second[line]));
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif

#endif  // LONGSTREAM_KERNELS_CPU_RECURRENCE_SPLIT_TILES_H_
