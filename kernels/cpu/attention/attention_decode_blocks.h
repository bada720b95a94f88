// The arithmetic of a decode row on one block of keys and values.
//
//   F32DecodeKeys<T>, F32DecodeValues<T>    convert keys and values of T to f32
//   WidenedDecodeKeys, WidenedDecodeValues  convert bf16 keys and values to f32, with registers of
//                                           AVX2
//   PairDecodeKeys, PairDecodeValues        use the bf16 dot product, if the set has it
//
// The Pair classes do not convert keys and values to f32: two of three instructions would be
// conversions, and the computation would be slower than memory. The Pair classes split each number
// of a query into two bf16 numbers, which together keep 17 bits, and round weights to bf16. Prefill
// rows do the same, so decode and prefill rows use the same weights.
//
// The Widened classes convert a number once for two heads. They take three instructions to convert
// the two numbers of 32 bits: one becomes the f32 of the lane in one register, the other the f32 of
// the same lane in another register. So even and odd numbers end up in different registers.
//
// The scores of a block are [heads, kKeyBlock]; the score of the key at position `block` comes
// first.
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

// Gives rows of T in the form that a product takes. Rows of int8 are converted to f32; other rows
// stay in place.
template <typename T>
class ProductRows {
 public:
  using Element = T;
  explicit ProductRows(const DecodeShape& /*shape*/) {}

  struct View {
    const T* data;
    int64_t stride;  // in elements
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
  // The view is valid until the next call. REQUIRES: run.count <= kKeyBlock
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

// The far or near keys of a K/V head, and the queries of the group's heads for these keys.
template <typename T>
class F32DecodeKeys {
 public:
  F32DecodeKeys(const DecodeShape& shape, const HeadRows& keys)
      : shape_(shape), keys_(keys), rows_(shape) {}

  // q: [heads, D]
  LONGSTREAM_INLINE void LoadQueries(const float* q) {
    for (int64_t i = 0; i < shape_.heads * shape_.dim; ++i) queries_[i] = shape_.scale * q[i];
  }

  // Announces that the keys [begin, end), which are in one block of `keys`, are computed next. This
  // class prefetches nothing.
  LONGSTREAM_INLINE void Announce(const HeadRows& /*keys*/, int64_t /*begin*/,
                                  int64_t /*end*/) const {}

  // Computes the scores of the keys [begin, end) of the block that begins at `block`.
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

  // sums[h, d] += sum_j weights[h, j] value_j[d] for j in [begin, end). Rows of `sums` have
  // kMaxHeadDim numbers.
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

  // Sets to[d] to the sum of dimension d. `sums` may hold the dimensions in another order.
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
  // Each number is the sum of two bf16 numbers. high[d] + low[d] keeps at least 17 bits of number
  // d.
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
  Split queries_[kMaxGroup];  // zeros follow the D numbers
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

  // The pairs of rows [first, last) of a block, and the weights of each head for them.
  struct Pairs {
    const BF16* weights;  // [heads, kKeyBlock]
    const BF16* rows;
    const BF16* next;  // rows to prefetch; nullptr: none
    int64_t first;
    int64_t last;
  };

 private:
  void WeighPairs(Pairs pairs, float* sums) const;
  // Adds the weighted values of row i of a block alone. The other row of its pair holds no valid
  // value and may be NaN.
  void WeighOne(const BF16* rows, int64_t i, float* sums) const;

  const DecodeShape shape_;
  PairRows rows_;
  alignas(64) BF16 weights_[kMaxGroup * kKeyBlock];  // [heads, keys]
};

#elif defined(__AVX2__)

// The queries of WidenedDecodeKeys and the sums of WidenedDecodeValues are stored 16 dimensions at
// a time. Of each 16, the even dimensions come first, then the odd ones.
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

// The classes with which a decode row computes over keys and values of T.
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
