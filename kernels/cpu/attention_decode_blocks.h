// The arithmetic of a decode row on one block of keys and values.
//
//   F32DecodeKeys<T>, F32DecodeValues<T>  f32 throughout, keys and values of T converted on the way
//   PairDecodeKeys, PairDecodeValues      by the bf16 dot product, where there is one, over bf16
//
// The latter never convert those: that takes the ports of two of three instructions, and the row
// is then slower than memory. They split queries in two bf16 numbers, which keep 17 bits, and round
// weights to bf16; prefill rows do the same, and see the same weights.
//
// Scores of a block are [heads, kKeyBlock], the key at `block` first.
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_DECODE_BLOCKS_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_DECODE_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/attention_core.h"
#include "kernels/cpu/block_product.h"
#include "kernels/cpu/int8_rows.h"
#include "kernels/cpu/row_vectors.h"

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
      DotProduct<typename ProductRows<T>::Element> product;
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
      Product<typename ProductRows<T>::Element> product;
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

// Blocks of bf16 rows of whole registers.
class PairRows {
 public:
  static constexpr int64_t kVectorDims = 32;  // bf16 numbers of a register

  PairRows(const DecodeShape& shape, const HeadRows& rows);

  LONGSTREAM_INLINE int64_t num_vectors() const { return num_vectors_; }  // of a row: 1, 2, 4 or 8

  // Rows [begin, end) of one block of `rows` come next. They are asked for while another block is
  // computed: by the time they are computed themselves, they have come.
  LONGSTREAM_INLINE void Announce(const HeadRows& rows, int64_t begin, int64_t end) {
    next_ = begin < end ? InPlace(rows, begin, begin, end) : nullptr;
    num_next_ = next_ == nullptr ? 0 : end - begin;
  }
  // Asks for what was announced but for the first `beside` rows, which the caller asks for where
  // they are returned; nullptr: it asks for nothing.
  const BF16* AskBut(int64_t beside) const;

  // The block without gaps, where its rows lie or gathered. What is before `begin` or from `end` on
  // is of no meaning.
  const BF16* Block(int64_t block, int64_t begin, int64_t end);

 private:
  // Where a block lies if that is without gaps and may be read as a whole, else nullptr.
  const BF16* InPlace(const HeadRows& rows, int64_t block, int64_t begin, int64_t end) const;

  const int64_t dim_;
  const HeadRows rows_;
  const int64_t num_vectors_;
  const BF16* next_ = nullptr;
  int64_t num_next_ = 0;
  BF16* const gathered_;  // [kKeyBlock, num_vectors * kVectorDims]
};

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
#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_DECODE_BLOCKS_H_
