// Keys or values of one block as a decode row reads them, and those that it asks for meanwhile.
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

// Where keys or values are gathered or converted that cannot be computed with where they lie. What
// is in it is of use until another block is scored or weighed.
struct BlockScratch {
  alignas(64) std::byte rows[kKeyBlock * kMaxHeadDim * sizeof(float)];
};

struct DecodeShape {
  int64_t dim = 0;    // D
  int64_t heads = 0;  // of the group, <= kMaxGroup
  float scale = 1.0f;
  BlockScratch* scratch = nullptr;  // shared by the rows of a task
};

// Registers of `register_dims` numbers that a row of D = `dim` takes, as a power of two.
LONGSTREAM_INLINE int64_t NumVectors(int64_t dim, int64_t register_dims) {
  int64_t vectors = 1;
  while (vectors * register_dims < dim) vectors *= 2;
  return vectors;
}

// Calls body with NumVectors, at most kMost, as a constant.
template <int kMost, typename Body>
LONGSTREAM_INLINE void ForVectors(int64_t num_vectors, const Body& body) {
  if constexpr (kMost > 1) {
    if (num_vectors < kMost) return ForVectors<kMost / 2>(num_vectors, body);
  }
  body(std::integral_constant<int, kMost>{});
}

#if defined(__AVX2__)

// What loops ask for beside what they compute.
enum class Asks { kNothing, kIntoFirstLevel, kIntoSecondLevel };

// Number `index` of those at `next`, which is nullptr where nothing is asked for.
template <Asks kAsks, typename T>
LONGSTREAM_INLINE void AskFor(const T* next, int64_t index) {
  if constexpr (kAsks == Asks::kIntoFirstLevel) PrefetchL1(next + index);
  if constexpr (kAsks == Asks::kIntoSecondLevel) PrefetchL2(next + index);
}

// Calls body with what is asked for as a constant. next: nullptr where nothing is
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

// Blocks of bf16 rows of whole lines, which are a register of AVX-512.
class PairRows {
 public:
  static constexpr int64_t kVectorDims = 32;  // bf16 numbers of a line

  PairRows(const DecodeShape& shape, const HeadRows& rows);

  // Lines of a row: as many as it needs, on AVX-512 1, 2, 4 or 8.
  LONGSTREAM_INLINE int64_t num_vectors() const { return num_vectors_; }
  LONGSTREAM_INLINE int64_t row_dims() const { return num_vectors_ * kVectorDims; }

  // Rows [begin, end) of one block of `rows` come next. They are asked for while another block is
  // computed: by the time they are computed themselves, they have come. With most of a block the
  // rest is asked for too: so it is one run with what lies behind it, and the processor reads ahead
  // into it anyway (a Zen 5 with 56 of 64 keys of 12 heads: 1.07 times as fast).
  LONGSTREAM_INLINE void Announce(const HeadRows& rows, int64_t begin, int64_t end) {
    next_ = begin < end ? InPlace(rows, begin, begin, end) : nullptr;
    num_next_ = next_ == nullptr ? 0 : end - begin > kMostOfABlock ? kKeyBlock : end - begin;
  }
  // Asks for what was announced but for the first `beside` rows, which the caller asks for where
  // they are returned; nullptr: it asks for nothing.
  const BF16* AskBut(int64_t beside) const;

  // The block without gaps, where its rows lie or gathered. What is before `begin` or from `end` on
  // is of no meaning.
  const BF16* Block(int64_t block, int64_t begin, int64_t end);

 private:
  static constexpr int64_t kMostOfABlock = kKeyBlock * 3 / 4;

  // Where a block lies if that is without gaps and may be read as a whole, else nullptr.
  const BF16* InPlace(const HeadRows& rows, int64_t block, int64_t begin, int64_t end) const;

  const int64_t dim_;
  const HeadRows rows_;
  const int64_t num_vectors_;
  const BF16* next_ = nullptr;
  int64_t num_next_ = 0;
  BF16* const gathered_;  // [kKeyBlock, num_vectors * kVectorDims]
};

// Blocks of int8 rows of whole registers, with their scales.
class Int8Rows {
 public:
#if defined(__AVX512VNNI__)
  static constexpr int64_t kVectorDims = 64;  // numbers of a register
#else
  static constexpr int64_t kVectorDims = 32;
#endif

  Int8Rows(const DecodeShape& shape, const HeadRows& rows);

  // Rows of a block without gaps. What is before the first row or behind the last of those asked
  // for is of no meaning.
  struct Block {
    const int8_t* rows = nullptr;  // [kKeyBlock, num_vectors * kVectorDims]; nullptr: not known
    const BF16* scales = nullptr;  // [kKeyBlock]
  };

  // Registers of a row: as many as it needs, on AVX-512 1, 2 or 4.
  LONGSTREAM_INLINE int64_t num_vectors() const { return num_vectors_; }
  LONGSTREAM_INLINE int64_t row_dims() const { return num_vectors_ * kVectorDims; }

  // Rows [begin, end) of one block of `rows` come next.
  void Announce(const HeadRows& rows, int64_t begin, int64_t end);
  // Of the block announced, if it lies without gaps: asked for while another is computed.
  LONGSTREAM_INLINE const Block& next() const { return next_; }

  // Rows [begin, end) of the block that begins at `block`: where they lie, or gathered.
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
