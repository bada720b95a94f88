// The keys or values of a block as a decode row reads them, and those of the next block, which it
// prefetches meanwhile.
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_DECODE_ROWS_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_DECODE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/core/instruction_set.h"
#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/attention/head_rows.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Memory for keys or values that must be gathered or converted before they are used. Its content is
// valid until the next block is scored or weighed.
struct BlockScratch {
  alignas(64) std::byte rows[kKeyBlock * kMaxHeadDim * sizeof(float)];
};

struct DecodeShape {
  int64_t dim = 0;    // D
  int64_t heads = 0;  // heads of the group, <= kMaxGroup
  float scale = 1.0f;
  BlockScratch* scratch = nullptr;  // shared by the rows of a task
};

// The number of registers, rounded up to a power of two, that a row of `dim` numbers takes. A
// register holds `register_dims` numbers.
LONGSTREAM_INLINE int64_t NumVectors(int64_t dim, int64_t register_dims) {
  int64_t vectors = 1;
  while (vectors * register_dims < dim) vectors *= 2;
  return vectors;
}

// Calls body with num_vectors, which is at most kMost, as a constant.
template <int kMost, typename Body>
LONGSTREAM_INLINE void ForVectors(int64_t num_vectors, const Body& body) {
  if constexpr (kMost > 1) {
    if (num_vectors < kMost) return ForVectors<kMost / 2>(num_vectors, body);
  }
  body(std::integral_constant<int, kMost>{});
}

#if defined(__AVX2__)

// Says whether a loop prefetches while it computes, and into which cache.
enum class Asks { kNothing, kIntoFirstLevel, kIntoSecondLevel };

// Prefetches the cache line of next[index]. `next` is nullptr if kAsks is kNothing.
template <Asks kAsks, typename T>
LONGSTREAM_INLINE void AskFor(const T* next, int64_t index) {
  if constexpr (kAsks == Asks::kIntoFirstLevel) PrefetchL1(next + index);
  if constexpr (kAsks == Asks::kIntoSecondLevel) PrefetchL2(next + index);
}

// Calls body with the kind of prefetch as a constant. It is kNothing if `next` is nullptr.
template <typename T, typename Body>
LONGSTREAM_INLINE void ForAsks(const T* next, const Body& body) {
  if (next == nullptr) {
    body(std::integral_constant<Asks, Asks::kNothing>{});
  } else if (AsksIntoFirstLevelCache()) {
    body(std::integral_constant<Asks, Asks::kIntoFirstLevel>{});
  } else {
    body(std::integral_constant<Asks, Asks::kIntoSecondLevel>{});
  }
}

// Blocks of bf16 rows. A row takes whole cache lines. A register of AVX-512 holds a line.
class PairRows {
 public:
  static constexpr int64_t kVectorDims = 32;  // bf16 numbers of a line

  PairRows(const DecodeShape& shape, const HeadRows& rows);

  // The number of lines of a row: as many as it needs; on AVX-512 1, 2, 4 or 8.
  LONGSTREAM_INLINE int64_t num_vectors() const { return num_vectors_; }
  LONGSTREAM_INLINE int64_t row_dims() const { return num_vectors_ * kVectorDims; }

  // Announces that rows [begin, end) of one block of `rows` are computed next. They are prefetched
  // while another block is computed, so they are in the cache when they are needed. If they are
  // most of a block, the rest of the block is prefetched too. Then this block and the one behind it
  // are one run of memory, which the processor's own prefetcher reads anyway. (With 12 heads, and
  // 56 of 64 keys of each block, this made a Zen 5 processor 1.07 times as fast.)
  LONGSTREAM_INLINE void Announce(const HeadRows& rows, int64_t begin, int64_t end) {
    next_ = begin < end ? InPlace(rows, begin, begin, end) : nullptr;
    num_next_ = next_ == nullptr ? 0 : end - begin > kMostOfABlock ? kKeyBlock : end - begin;
  }
  // Prefetches the announced rows except the first `beside` of them. Returns a pointer to these
  // first rows, which the caller prefetches, or nullptr if the caller has nothing to prefetch.
  const BF16* AskBut(int64_t beside) const;

  // The rows of the block that begins at `block`, without gaps, in place or gathered. Rows before
  // `begin` and from `end` on hold no valid values.
  const BF16* Block(int64_t block, int64_t begin, int64_t end);

 private:
  static constexpr int64_t kMostOfABlock = kKeyBlock * 3 / 4;

  // A pointer to the block if its rows have no gaps between them and all of them may be read, else
  // nullptr.
  const BF16* InPlace(const HeadRows& rows, int64_t block, int64_t begin, int64_t end) const;

  const int64_t dim_;
  const HeadRows rows_;
  const int64_t num_vectors_;
  const BF16* next_ = nullptr;
  int64_t num_next_ = 0;
  BF16* const gathered_;  // [kKeyBlock, num_vectors * kVectorDims]
};

// Blocks of int8 rows, with the scales of the rows. A row takes whole registers.
class Int8Rows {
 public:
#if defined(__AVX512VNNI__)
  static constexpr int64_t kVectorDims = 64;  // numbers of a register
#else
  static constexpr int64_t kVectorDims = 32;
#endif

  Int8Rows(const DecodeShape& shape, const HeadRows& rows);

  // The rows of a block without gaps. Rows outside the requested range hold no valid values.
  struct Block {
    const int8_t* rows = nullptr;  // [kKeyBlock, num_vectors * kVectorDims]; nullptr: no block
    const BF16* scales = nullptr;  // [kKeyBlock]
  };

  // The number of registers of a row: as many as it needs; on AVX-512 1, 2 or 4.
  LONGSTREAM_INLINE int64_t num_vectors() const { return num_vectors_; }
  LONGSTREAM_INLINE int64_t row_dims() const { return num_vectors_ * kVectorDims; }

  // Announces that rows [begin, end) of one block of `rows` are computed next.
  void Announce(const HeadRows& rows, int64_t begin, int64_t end);
  // The announced block if its rows have no gaps between them, else no block. The caller prefetches
  // it while it computes another one.
  LONGSTREAM_INLINE const Block& next() const { return next_; }

  // Rows [begin, end) of the block that begins at `block`, in place or gathered.
  Block Of(int64_t block, int64_t begin, int64_t end);

 private:
  Block InPlace(const HeadRows& rows, int64_t block) const;

  const int64_t dim_;
  const HeadRows rows_;
  const int64_t num_vectors_;
  Block next_;
  int8_t* const gathered_;  // [kKeyBlock, num_vectors * kVectorDims]
  alignas(64) BF16 gathered_scales_[kKeyBlock] = {};
};

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_DECODE_ROWS_H_
