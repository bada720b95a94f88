// The arithmetic of a decode row on one block of keys and values.
//
//   F32DecodeBlocks<T>  f32 throughout, keys and values of T converted on the way
//   PairDecodeBlocks    by the bf16 dot product, where there is one, over bf16 keys and values
//
// The latter never converts those: that takes the ports of two of three instructions, and the row
// is then slower than memory. It splits queries in two bf16 numbers, which keep 17 bits, and rounds
// weights to bf16; prefill rows do the same, and see the same weights.
//
// Scores of a block are [heads, kKeyBlock], the key at `block` first.
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_DECODE_BLOCKS_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_DECODE_BLOCKS_H_

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/attention_core.h"
#include "kernels/cpu/block_product.h"
#include "kernels/cpu/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {

struct DecodeShape {
  int64_t dim = 0;    // D
  int64_t heads = 0;  // of the group, <= kMaxGroup
  float scale = 1.0f;
};

template <typename T>
class F32DecodeBlocks {
 public:
  struct Queries {
    alignas(64) float data[kMaxGroup * kMaxHeadDim];  // [heads, D], times scale
  };

  F32DecodeBlocks(const DecodeShape& shape, const HeadRows& values)
      : shape_(shape), values_(values) {}

  // q: [heads, D]
  LONGSTREAM_INLINE void LoadQueries(const float* q, Queries* to) const {
    for (int64_t i = 0; i < shape_.heads * shape_.dim; ++i) to->data[i] = shape_.scale * q[i];
  }

  // The keys and values [begin, end), of one block, are what comes next.
  LONGSTREAM_INLINE void Announce(const HeadRows& /*keys*/, int64_t /*begin*/,
                                  int64_t /*end*/) const {}

  // Scores of the keys [begin, end) of the block that begins at `block`.
  LONGSTREAM_INLINE void Score(const Queries& queries, const HeadRows& keys, int64_t block,
                               int64_t begin, int64_t end, float* scores) const {
    ForEachRun(keys, begin, end, [&](int64_t position, const RowRun& run) {
      DotProduct<T> product;
      product.a = queries.data;
      product.a_stride = shape_.dim;
      product.b = reinterpret_cast<const T*>(run.data);
      product.b_stride = run.stride / static_cast<int64_t>(sizeof(T));
      product.c = scores + (position - block);
      product.c_stride = kKeyBlock;
      product.rows = shape_.heads;
      product.cols = run.count;
      product.depth = shape_.dim;
      product.add = false;
      MultiplyTransposed(product);
    });
  }

  // sums[h, ...] += sum_j weights[h, j] value_j over [begin, end); rows of kMaxHeadDim.
  LONGSTREAM_INLINE void Weigh(const float* weights, int64_t block, int64_t begin, int64_t end,
                               float* sums) const {
    ForEachRun(values_, begin, end, [&](int64_t position, const RowRun& run) {
      Product<T> product;
      product.a = weights + (position - block);
      product.a_row = kKeyBlock;
      product.a_k = 1;
      product.b = reinterpret_cast<const T*>(run.data);
      product.b_stride = run.stride / static_cast<int64_t>(sizeof(T));
      product.c = sums;
      product.c_stride = kMaxHeadDim;
      product.rows = shape_.heads;
      product.cols = shape_.dim;
      product.depth = run.count;
      Multiply(product);
    });
  }

  // to[d] = what `sums` has of dimension d, in whatever order it is there.
  LONGSTREAM_INLINE void InOrder(const float* sums, float* to) const {
    for (int64_t d = 0; d < shape_.dim; ++d) to[d] = sums[d];
  }

 private:
  const DecodeShape shape_;
  const HeadRows values_;
};

#if defined(__AVX512BF16__)

class PairDecodeBlocks {
 public:
  static constexpr int64_t kVectorDims = 32;  // bf16 numbers of a register

  // A number as two of bf16: their sum has 17 bits of it at least.
  struct Split {
    alignas(64) BF16 high[kMaxHeadDim];
    alignas(64) BF16 low[kMaxHeadDim];
  };
  struct Queries {
    Split heads[kMaxGroup];  // behind D zeros
  };

  PairDecodeBlocks(const DecodeShape& shape, const HeadRows& values);

  void LoadQueries(const float* q, Queries* to) const;
  void Announce(const HeadRows& keys, int64_t begin, int64_t end);
  void Score(const Queries& queries, const HeadRows& keys, int64_t block, int64_t begin,
             int64_t end, float* scores);
  void Weigh(const float* weights, int64_t block, int64_t begin, int64_t end, float* sums);
  void InOrder(const float* sums, float* to) const;

 private:
  // The rows of whole registers of a block, without gaps, those before `begin` and from `end` on
  // zeros: where they lie, or gathered.
  const BF16* Rows(const HeadRows& rows, int64_t block, int64_t begin, int64_t end);
  // Where they lie if that is without gaps, else nullptr.
  const BF16* RowsInPlace(const HeadRows& rows, int64_t block, int64_t begin, int64_t end) const;

  const DecodeShape shape_;
  const HeadRows values_;
  const int64_t num_vectors_;  // of a row: 1, 2, 4 or 8
  // Of the block announced, asked for while this one is computed: by the time it is computed
  // itself, it has come. nullptr: not known.
  const BF16* next_keys_ = nullptr;
  const BF16* next_values_ = nullptr;
  alignas(64) BF16 weights_[kMaxGroup * kKeyBlock];  // [heads, keys]
  alignas(64) BF16 gathered_[kKeyBlock * kMaxHeadDim];
};

#endif

// How a decode row computes over keys and values of T.
template <typename T>
struct DecodeBlocksFor {
  using Type = F32DecodeBlocks<T>;
};
#if defined(__AVX512BF16__)
template <>
struct DecodeBlocksFor<BF16> {
  using Type = PairDecodeBlocks;
};
#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_DECODE_BLOCKS_H_
