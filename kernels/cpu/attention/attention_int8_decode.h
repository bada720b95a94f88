// Decode rows over int8 pages in integers.
//
// A number of a query is rounded to 16 bits, relative to the largest number of its head
// (QueryNumbers). A weight is multiplied by the scale of its value; the product is rounded to 15 or
// 16 bits, relative to the largest product of the block. Sums are exact. Prefill rows
// (attention_int8_prefill.h) use the same numbers.
//
//   score_j        = scale_j step sum_d n_d k_jd    n_d: integers of the query
//   value sum of d += step' sum_j w_j v_jd          w_j: integers of the weights
//
//   Int8DecodeKeys, Int8DecodeValues    use the dot product of bytes (VNNI), if the processor has
//                                       it: a number of 16 bits is two bytes and takes two products
//   WordsDecodeKeys, WordsDecodeValues  use the dot product of words on AVX2: numbers of pages are
//                                       widened to 16 bits; weights have 15 bits, because the
//                                       factors are signed
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_INT8_DECODE_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_INT8_DECODE_H_

#include <cstdint>

#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/attention/attention_decode_blocks.h"
#include "kernels/cpu/attention/head_rows.h"

#if defined(__AVX2__)

namespace longstream::cpu::LONGSTREAM_ISA {

#if defined(__AVX512VNNI__)

class Int8DecodeKeys {
 public:
  // Number d of the query is 256 high[d] + low[d]. Zeros follow the D numbers.
  struct Query {
    alignas(64) int8_t high[kMaxHeadDim];
    alignas(64) int8_t low[kMaxHeadDim];
    float step;
    int32_t sum;  // the sum of the query's numbers
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
  // The integer of weight j is 256 high[j] + low[j].
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

#else

class WordsDecodeKeys {
 public:
  struct Query {
    alignas(64) int16_t numbers[kMaxHeadDim];  // zeros follow the D numbers
    float step;
  };

  WordsDecodeKeys(const DecodeShape& shape, const HeadRows& keys)
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

// The sums are stored 16 dimensions at a time. Of each 16, the dimensions have the order that
// interleaving two rows of words gives them.
class WordsDecodeValues {
 public:
  WordsDecodeValues(const DecodeShape& shape, const HeadRows& values)
      : shape_(shape), rows_(shape, values) {}

  LONGSTREAM_INLINE void Announce(const HeadRows& values, int64_t begin, int64_t end) {
    rows_.Announce(values, begin, end);
  }
  void Weigh(const float* weights, int64_t block, int64_t begin, int64_t end, float* sums);
  void InOrder(const float* sums, float* to) const;

 private:
  const DecodeShape shape_;
  Int8Rows rows_;
};

template <>
struct DecodeBlocksFor<int8_t> {
  using Keys = WordsDecodeKeys;
  using Values = WordsDecodeValues;
};

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_INT8_DECODE_H_
