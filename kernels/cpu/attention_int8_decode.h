// Decode rows over int8 pages by the dot product of bytes, where there is one (VNNI).
//
// Queries are rounded to 16 bits of the largest of their head (QueryNumbers), a block's weights,
// times the scales of its values, to 16 bits of the largest of them. Each is two bytes and takes
// two products, whose sums are exact: prefill rows (attention_int8_prefill.h) have the same.
//
//   score_j = scale_j step sum_d n_d k_jd        value sums += step' sum_j w_j v_jd
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_INT8_DECODE_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_INT8_DECODE_H_

#include <cstdint>

#include "kernels/cpu/attention_core.h"
#include "kernels/cpu/attention_decode_blocks.h"
#include "kernels/cpu/head_rows.h"

#if defined(__AVX512VNNI__)

namespace longstream::cpu::LONGSTREAM_ISA {

// Blocks of int8 rows of whole registers, with their scales.
class Int8Rows {
 public:
  static constexpr int64_t kVectorDims = 64;  // numbers of a register

  Int8Rows(const DecodeShape& shape, const HeadRows& rows);

  // Rows of a block without gaps. What is before the first row or behind the last of those asked
  // for is of no meaning.
  struct Block {
    const int8_t* rows = nullptr;  // [kKeyBlock, num_vectors * kVectorDims]; nullptr: not known
    const BF16* scales = nullptr;  // [kKeyBlock]
  };

  LONGSTREAM_INLINE int64_t num_vectors() const { return num_vectors_; }  // of a row: 1, 2 or 4

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

class Int8DecodeKeys {
 public:
  // Both parts of 256 high + low, and behind D zeros.
  struct Query {
    alignas(64) int8_t high[kMaxHeadDim];
    alignas(64) int8_t low[kMaxHeadDim];
    float step;
    int32_t sum;  // of the numbers
  };

  Int8DecodeKeys(const DecodeShape& shape, const HeadRows& keys)
      : shape_(shape), rows_(shape, keys) {}

  void LoadQueries(const float* q);
  LONGSTREAM_INLINE void Announce(const HeadRows& keys, int64_t begin, int64_t end) {
    rows_.Announce(keys, begin, end);
  }
  void Score(int64_t block, int64_t begin, int64_t end, float* scores);

 private:
  const DecodeShape shape_;
  Int8Rows rows_;
  Query queries_[kMaxGroup];
};

class Int8DecodeValues {
 public:
  // Both bytes of 256 high + low.
  struct Weights {
    alignas(64) uint8_t high[kKeyBlock];
    alignas(64) uint8_t low[kKeyBlock];
    float step;
  };

  Int8DecodeValues(const DecodeShape& shape, const HeadRows& values)
      : shape_(shape), rows_(shape, values) {}

  LONGSTREAM_INLINE void Announce(const HeadRows& values, int64_t begin, int64_t end) {
    rows_.Announce(values, begin, end);
  }
  void Weigh(const float* weights, int64_t block, int64_t begin, int64_t end, float* sums);
  void InOrder(const float* sums, float* to) const;

 private:
  const DecodeShape shape_;
  Int8Rows rows_;
  Weights weights_[kMaxGroup];
};

template <>
struct DecodeBlocksFor<int8_t> {
  using Keys = Int8DecodeKeys;
  using Values = Int8DecodeValues;
};

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_INT8_DECODE_H_
