// The arithmetic of a decode row on one block of keys and values.
//
//   F32DecodeKeys<T>, F32DecodeValues<T>    f32, keys and values of T converted on the way
//   WidenedDecodeKeys, WidenedDecodeValues  the same over bf16 on AVX2
//   PairDecodeKeys, PairDecodeValues        over bf16 by its dot product, where there is one
//
// The last never convert those: that takes the ports of two of three instructions, and the row
// is then slower than memory. They split queries in two bf16 numbers, which keep 17 bits, and round
// weights to bf16; prefill rows do the same, and see the same weights. Where there is no such
// instruction, a number is converted once for two heads, and two numbers in three instructions: as
// halves of 32 bits, without moving them to where their neighbours in f32 would be.
//
// Scores of a block are [heads, kKeyBlock], the key at `block` first.
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_DECODE_BLOCKS_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_DECODE_BLOCKS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/attention/attention_decode_rows.h"
#include "kernels/cpu/gemm/tile_gemm.h"
#include "kernels/cpu/simd/int8_rows.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Rows of T as a product takes them: where they lie, or those of int8 as f32.
template <typename T>
class ProductRows {
 public:
  using Element = T;
  explicit ProductRows(const DecodeShape& /*shape*/) {}

  struct View {
    const T* data;
    int64_t stride;  // elements
  };
  LONGSTREAM_INLINE View Of(const RowRun& run, int64_t /*dim*/) const {
    return {reinterpret_cast<const T*>(run.data), run.stride / static_cast<int64_t>(sizeof(T))};
  }
};

template <>
class ProductRows<int8_t> {
 public:
  using Element = float;
  explicit ProductRows(const DecodeShape& shape)
      : converted_(reinterpret_cast<float*>(shape.scratch->rows)) {}

  struct View {
    const float* data;
    int64_t stride;
  };
  // Valid until the next call. REQUIRES: run.count <= kKeyBlock
  LONGSTREAM_INLINE View Of(const RowRun& run, int64_t dim) {
    for (int64_t i = 0; i < run.count; ++i) {
      LoadInt8Row(reinterpret_cast<const int8_t*>(run.data + i * run.stride), run.scales[i], dim,
                  converted_ + i * dim);
    }
    return {converted_, dim};
  }

 private:
  float* const converted_;  // [kKeyBlock, dim]
};

// The keys of a K/V head, far or near ones, and the queries of the group's heads for them.
template <typename T>
class F32DecodeKeys {
 public:
  F32DecodeKeys(const DecodeShape& shape, const HeadRows& keys)
      : shape_(shape), keys_(keys), rows_(shape) {}

  // q: [heads, D]
  LONGSTREAM_INLINE void LoadQueries(const float* q) {
    for (int64_t i = 0; i < shape_.heads * shape_.dim; ++i) queries_[i] = shape_.scale * q[i];
  }

  // The keys [begin, end), of one block of `keys`, are what comes next.
  LONGSTREAM_INLINE void Announce(const HeadRows& /*keys*/, int64_t /*begin*/,
                                  int64_t /*end*/) const {}

  // Scores of the keys [begin, end) of the block that begins at `block`.
  LONGSTREAM_INLINE void Score(int64_t block, int64_t begin, int64_t end, float* scores) {
    ForEachRun(keys_, begin, end, [&](int64_t position, const RowRun& run) {
      const auto rows = rows_.Of(run, shape_.dim);
      TransposedTileGemm<typename ProductRows<T>::Element> product;
      product.a = queries_;
      product.a_stride = shape_.dim;
      product.b = rows.data;
      product.b_stride = rows.stride;
      product.c = scores + (position - block);
      product.c_stride = kKeyBlock;
      product.rows = shape_.heads;
      product.cols = run.count;
      product.depth = shape_.dim;
      product.add = false;
      MultiplyTransposed(product);
    });
  }

 private:
  const DecodeShape shape_;
  const HeadRows keys_;
  alignas(64) float queries_[kMaxGroup * kMaxHeadDim];  // [heads, D], times scale
  ProductRows<T> rows_;
};

template <typename T>
class F32DecodeValues {
 public:
  F32DecodeValues(const DecodeShape& shape, const HeadRows& values)
      : shape_(shape), values_(values), rows_(shape) {}

  LONGSTREAM_INLINE void Announce(const HeadRows& /*values*/, int64_t /*begin*/,
                                  int64_t /*end*/) const {}

  // sums[h, ...] += sum_j weights[h, j] value_j over [begin, end); rows of kMaxHeadDim.
  LONGSTREAM_INLINE void Weigh(const float* weights, int64_t block, int64_t begin, int64_t end,
                               float* sums) {
    ForEachRun(values_, begin, end, [&](int64_t position, const RowRun& run) {
      const auto rows = rows_.Of(run, shape_.dim);
      TileGemm<typename ProductRows<T>::Element> product;
      product.a = weights + (position - block);
      product.a_row = kKeyBlock;
      product.a_k = 1;
      product.b = rows.data;
      product.b_stride = rows.stride;
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
  ProductRows<T> rows_;
};

#if defined(__AVX512BF16__)

class PairDecodeKeys {
 public:
  // A number as two of bf16: their sum has 17 bits of it at least.
  struct Split {
    alignas(64) BF16 high[kMaxHeadDim];
    alignas(64) BF16 low[kMaxHeadDim];
  };

  PairDecodeKeys(const DecodeShape& shape, const HeadRows& keys)
      : shape_(shape), rows_(shape, keys) {}

  void LoadQueries(const float* q);
  LONGSTREAM_INLINE void Announce(const HeadRows& keys, int64_t begin, int64_t end) {
    rows_.Announce(keys, begin, end);
  }
  void Score(int64_t block, int64_t begin, int64_t end, float* scores);

 private:
  const DecodeShape shape_;
  PairRows rows_;
  Split queries_[kMaxGroup];  // behind D zeros
};

class PairDecodeValues {
 public:
  PairDecodeValues(const DecodeShape& shape, const HeadRows& values)
      : shape_(shape), rows_(shape, values) {}

  LONGSTREAM_INLINE void Announce(const HeadRows& values, int64_t begin, int64_t end) {
    rows_.Announce(values, begin, end);
  }
  void Weigh(const float* weights, int64_t block, int64_t begin, int64_t end, float* sums);
  void InOrder(const float* sums, float* to) const;

  // Pairs of rows, and for each head its weights.
  struct Pairs {
    const BF16* weights;  // [heads, kKeyBlock]
    const BF16* rows;
    const BF16* next;  // asked for; nullptr: nothing is
    int64_t first;
    int64_t last;
  };

 private:
  void WeighPairs(Pairs pairs, float* sums) const;
  // Row i of a block alone: its neighbour in a pair is of no meaning, and may be NaN.
  void WeighOne(const BF16* rows, int64_t i, float* sums) const;

  const DecodeShape shape_;
  PairRows rows_;
  alignas(64) BF16 weights_[kMaxGroup * kKeyBlock];  // [heads, keys]
};

#elif defined(__AVX2__)

// Sums and queries have the numbers of 16 dimensions in this order: the even ones, then the odd
// ones.
class WidenedDecodeKeys {
 public:
  WidenedDecodeKeys(const DecodeShape& shape, const HeadRows& keys)
      : shape_(shape), rows_(shape, keys) {}

  void LoadQueries(const float* q);
  LONGSTREAM_INLINE void Announce(const HeadRows& keys, int64_t begin, int64_t end) {
    rows_.Announce(keys, begin, end);
  }
  void Score(int64_t block, int64_t begin, int64_t end, float* scores);

 private:
  const DecodeShape shape_;
  PairRows rows_;
  alignas(64) float queries_[kMaxGroup * kMaxHeadDim];  // [heads, kMaxHeadDim], times scale
};

class WidenedDecodeValues {
 public:
  WidenedDecodeValues(const DecodeShape& shape, const HeadRows& values)
      : shape_(shape), rows_(shape, values) {}

  LONGSTREAM_INLINE void Announce(const HeadRows& values, int64_t begin, int64_t end) {
    rows_.Announce(values, begin, end);
  }
  void Weigh(const float* weights, int64_t block, int64_t begin, int64_t end, float* sums);
  void InOrder(const float* sums, float* to) const;

 private:
  const DecodeShape shape_;
  PairRows rows_;
};

#endif

// How a decode row computes over keys and values of T.
template <typename T>
struct DecodeBlocksFor {
  using Keys = F32DecodeKeys<T>;
  using Values = F32DecodeValues<T>;
};
#if defined(__AVX512BF16__)
template <>
struct DecodeBlocksFor<BF16> {
  using Keys = PairDecodeKeys;
  using Values = PairDecodeValues;
};
#elif defined(__AVX2__)
template <>
struct DecodeBlocksFor<BF16> {
  using Keys = WidenedDecodeKeys;
  using Values = WidenedDecodeValues;
};
#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_DECODE_BLOCKS_H_
