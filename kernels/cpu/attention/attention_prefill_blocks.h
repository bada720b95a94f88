// The arithmetic of a tile of prefill rows on one block of keys and values.
//
//   F32Blocks   computes in f32, and converts keys and values to f32
//   PairBlocks  uses the bf16 dot product, if the processor has it, over bf16 keys and values. The
//               instruction computes two products in each lane
//   TileBlocks  uses the matrix unit, if the processor has it, over bf16 keys and values
//               (attention_prefill_tiles.h)
//
// PairBlocks reads keys in place. It splits each number of a query into two bf16 numbers, which
// together keep 17 bits. It rounds weights to bf16, as decode rows do (ops/attention/attention.h).
// A sum over d or over keys runs in pairs (2 i, 2 i + 1). Keys pair up by absolute position; a
// missing key counts as zeros.
//
// All classes keep scores transposed: keys go down, rows go across. Score<T> and Weigh<T> read keys
// and values of type T; int8_t means int8 pages.
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_PREFILL_BLOCKS_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_PREFILL_BLOCKS_H_

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/attention/attention_prefill_tiles.h"
#include "kernels/cpu/attention/tile_shape.h"
#include "kernels/cpu/gemm/tile_gemm.h"
#include "kernels/cpu/simd/int8_rows.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {

class F32Blocks : public BlockSizes {
 public:
  struct Queries {
    alignas(64) float data[kMaxHeadDim * kTileRows];  // [D, stride], times scale
  };

  explicit F32Blocks(const TileShape& shape) : shape_(shape) {}

  // Sets column r of the queries to q, or to zeros if q is nullptr.
  LONGSTREAM_INLINE void LoadQuery(const float* q, int64_t r, Queries* queries) const {
    float* to = queries->data + r;
    for (int64_t d = 0; d < shape_.dim; ++d) {
      to[d * shape_.stride] = q == nullptr ? 0.0f : shape_.scale * q[d];
    }
  }

  // scores[j - begin, r] = scale * key_j . q_r for the keys [begin, end). `next` are the keys after
  // `end`.
  template <typename T>
  LONGSTREAM_INLINE void Score(const Queries& queries, const HeadRows& keys, int64_t begin,
                               int64_t end, const Ahead& /*next*/, float* scores) {
    if (begin >= end) return;
    Gather<T>(keys, begin, end);
    TileGemm<float> product;
    product.a = gathered_;
    product.a_row = shape_.dim;
    product.a_k = 1;
    product.b = queries.data;
    product.b_stride = shape_.stride;
    product.c = scores;
    product.c_stride = shape_.stride;
    product.rows = end - begin;
    product.cols = shape_.stride;
    product.depth = shape_.dim;
    product.add = false;
    Multiply(product);
  }

  // Announces the values of a block, before the scores of the block are computed.
  LONGSTREAM_INLINE void LoadValues(const HeadRows& /*values*/, int64_t /*begin*/,
                                    int64_t /*end*/) const {}

  // Turns scores into weights e^(score - max), for the rows r ... r + 15 and the keys [begin, end).
  // The score of key j with row r is scores[(j - begin) * stride + r]. Returns the sums of the
  // weights. The next Weigh uses the weights. `next` are the values of the keys after `end`.
  LONGSTREAM_INLINE F32x16 Weights(float* scores, int64_t begin, int64_t end, int64_t r,
                                   const F32x16& max, const Ahead& /*next*/) {
    scores_ = scores;
    F32x16 sum = Zero();
    for (int64_t j = 0; j < end - begin; ++j) {
      float* score = scores + j * shape_.stride + r;
      const F32x16 weight = Exp(Load(score) - max);
      Store(weight, score);
      sum = sum + weight;
    }
    return sum;
  }

  // sums[r, d] += sum_j weight[j, r] value_j[d]. Rows of `sums` have padded_dim() numbers.
  template <typename T>
  LONGSTREAM_INLINE void Weigh(const HeadRows& values, int64_t begin, int64_t end, float* sums) {
    Gather<T>(values, begin, end);
    TileGemm<float> product;
    product.a = scores_;
    product.a_row = 1;
    product.a_k = shape_.stride;
    product.b = gathered_;
    product.b_stride = shape_.dim;
    product.c = sums;
    product.c_stride = shape_.padded_dim();
    product.rows = shape_.rows;
    product.cols = shape_.dim;
    product.depth = end - begin;
    Multiply(product);
  }

 private:
  // Copies rows [begin, end) as f32, without gaps.
  template <typename T>
  LONGSTREAM_INLINE void Gather(const HeadRows& rows, int64_t begin, int64_t end) {
    ForEachRun(rows, begin, end, [&](int64_t position, const RowRun& run) {
      for (int64_t i = 0; i < run.count; ++i) {
        const T* from = reinterpret_cast<const T*>(run.data + i * run.stride);
        float* row = gathered_ + (position + i - begin) * shape_.dim;
        if constexpr (std::is_same_v<T, int8_t>) {
          LoadInt8Row(from, run.scales[i], shape_.dim, row);
          continue;
        }
        ForEachRowVector(shape_.dim, [&](int64_t d, const auto& access) {
          access.Write(access.Read(from + d), row + d);
        });
      }
    });
  }

  const TileShape shape_;
  const float* scores_ = nullptr;                        // scores of the last Weights
  alignas(64) float gathered_[kKeyBlock * kMaxHeadDim];  // [keys, D]
};

#if defined(__AVX512BF16__) && !defined(LONGSTREAM_TILES)

class PairBlocks : public BlockSizes {
 public:
  struct Queries {  // times scale, split into two bf16 numbers: high + low
    alignas(64) BF16Pair high[kMaxHeadDim / 2 * kTileRows];  // [ceil(D / 2), stride]
    alignas(64) BF16Pair low[kMaxHeadDim / 2 * kTileRows];
  };

  explicit PairBlocks(const TileShape& shape) : shape_(shape), pairs_((shape.dim + 1) / 2) {}

  LONGSTREAM_INLINE void LoadQuery(const float* q, int64_t r, Queries* queries) const {
    alignas(64) BF16Pair high[kMaxHeadDim / 2 + kLanes] = {};
    alignas(64) BF16Pair low[kMaxHeadDim / 2 + kLanes] = {};
    if (q != nullptr) {
      ForEachRowVector(shape_.dim, [&](int64_t d, const auto& access) {
        const F32x16 value = Broadcast(shape_.scale) * access.Read(q + d);
        const F32x16 rounded = RoundToBF16(value);
        access.Write(rounded, &high[0].even + d);
        access.Write(value - rounded, &low[0].even + d);
      });
    }
    for (int64_t i = 0; i < pairs_; ++i) {
      queries->high[i * shape_.stride + r] = high[i];
      queries->low[i * shape_.stride + r] = low[i];
    }
  }

  template <typename T>
  LONGSTREAM_INLINE void Score(const Queries& queries, const HeadRows& keys, int64_t begin,
                               int64_t end, const Ahead& next, float* scores) {
    // Prefetches only if one run is the whole block. Then each of its rows prefetches a row of the
    // next block.
    const bool ask = next.bytes == (end - begin) * keys.row_bytes;
    ForEachRun(keys, begin, end, [&](int64_t position, const RowRun& run) {
      SplitTileGemm product;
      if (ask && run.count == end - begin) {
        product.next = reinterpret_cast<const BF16Pair*>(next.data);
      }
      constexpr int64_t kPairBytes = sizeof(BF16Pair);
      if (shape_.dim % 2 == 0 && run.stride % kPairBytes == 0) {
        product.a = reinterpret_cast<const BF16Pair*>(run.data);
        product.a_row = run.stride / kPairBytes;
      } else {
        product.a = GatherRows(run);
        product.a_row = pairs_;
      }
      product.high = queries.high;
      product.low = queries.low;
      product.b_stride = shape_.stride;
      product.c = scores + (position - begin) * shape_.stride;
      product.c_stride = shape_.stride;
      product.rows = run.count;
      product.cols = shape_.stride;
      product.depth = pairs_;
      Multiply(product);
    });
  }

  LONGSTREAM_INLINE void LoadValues(const HeadRows& /*values*/, int64_t /*begin*/,
                                    int64_t /*end*/) const {}

  LONGSTREAM_INLINE F32x16 Weights(const float* scores, int64_t begin, int64_t end, int64_t r,
                                   const F32x16& max, const Ahead& next) {
    F32x16 sum = Zero();
    const auto weight = [&](int64_t j) {
      if (j < begin || j >= end) return Zero();
      const F32x16 w = ExpOfNegative(Load(scores + (j - begin) * shape_.stride + r) - max);
      sum = sum + w;
      return w;
    };
    BF16Pair* to = weights_ + r;
    for (int64_t j = begin / 2 * 2; j < end; j += 2, to += shape_.stride) {
      next.Ask(r / kLanes * kMaxPairs + j / 2 % kMaxPairs, shape_.stride / kLanes * kMaxPairs);
      const F32x16 even = weight(j), odd = weight(j + 1);
      const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd.part[0], even.part[0]));
      _mm512_storeu_si512(to, _mm512_permutexvar_epi16(Indices(kPairsOfHalves), both));
    }
    return sum;
  }

  template <typename T>
  LONGSTREAM_INLINE void Weigh(const HeadRows& values, int64_t begin, int64_t end, float* sums) {
    const int64_t base = begin / 2 * 2;
    InterleaveRows(values, begin, end);
    TileGemm<BF16Pair> product;
    product.a = weights_;
    product.a_row = 1;
    product.a_k = shape_.stride;
    product.b = interleaved_;
    product.b_stride = shape_.padded_dim();
    product.c = sums;
    product.c_stride = shape_.padded_dim();
    product.rows = shape_.rows;
    product.cols = shape_.padded_dim();
    product.depth = (end - base + 1) / 2;
    Multiply(product);
  }

 private:
  static constexpr int64_t kMaxPairs = kKeyBlock / 2;

  // Gathers rows as whole pairs. A zero follows the last number of a row of odd width.
  LONGSTREAM_INLINE const BF16Pair* GatherRows(const RowRun& run) {
    for (int64_t i = 0; i < run.count; ++i) {
      BF16Pair* row = interleaved_ + i * pairs_;
      row[pairs_ - 1] = {};
      __builtin_memcpy(row, run.data + i * run.stride,
                       static_cast<size_t>(shape_.dim) * sizeof(BF16));
    }
    return interleaved_;
  }

  // interleaved_[i, d] = the two values d at the positions base + 2 i and base + 2 i + 1, where
  // base is `begin` rounded down to an even number. Positions outside [begin, end) count as zeros.
  LONGSTREAM_INLINE void InterleaveRows(const HeadRows& values, int64_t begin, int64_t end) {
    static constexpr BF16 kZeros[kMaxHeadDim] = {};
    const int64_t base = begin / 2 * 2;
    const BF16* rows[kKeyBlock];
    rows[0] = kZeros;
    rows[(end - base + 1) / 2 * 2 - 1] = kZeros;
    ForEachRun(values, begin, end, [&](int64_t position, const RowRun& run) {
      for (int64_t i = 0; i < run.count; ++i) {
        rows[position - base + i] = reinterpret_cast<const BF16*>(run.data + i * run.stride);
      }
    });
    const __m512i first = Indices(kPairsOfTwo[0]), second = Indices(kPairsOfTwo[1]);
    BF16Pair* to = interleaved_;
    for (int64_t i = 0; i < end - base; i += 2, to += shape_.padded_dim()) {
      for (int64_t d = 0; d < shape_.dim; d += 2 * kLanes) {
        const int64_t left = shape_.dim - d;
        const __mmask32 there = left >= 2 * kLanes ? ~__mmask32{} : (__mmask32{1} << left) - 1;
        const __m512i even = _mm512_maskz_loadu_epi16(there, rows[i] + d);
        const __m512i odd = _mm512_maskz_loadu_epi16(there, rows[i + 1] + d);
        _mm512_storeu_si512(to + d, _mm512_permutex2var_epi16(even, first, odd));
        if (left <= kLanes) continue;
        _mm512_storeu_si512(to + d + kLanes, _mm512_permutex2var_epi16(even, second, odd));
      }
    }
  }

  // The orders in which permutations take the 32 numbers of 16 pairs. kPairsOfHalves takes them
  // from one register, in which the first numbers of all pairs come before the second ones.
  // kPairsOfTwo takes them from two registers: one holds 32 first numbers, the other 32 second
  // ones.
  static constexpr uint16_t kPairsOfHalves[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                  21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                  11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  static constexpr uint16_t kPairsOfTwo[2][32] = {
      {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
      {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63}};
  LONGSTREAM_INLINE static __m512i Indices(const uint16_t* from) {
    return _mm512_loadu_si512(from);
  }

  const TileShape shape_;
  const int64_t pairs_;                                        // pairs of numbers in a head's row
  alignas(64) BF16Pair weights_[kMaxPairs * kTileRows];        // [pairs of keys, stride]
  alignas(64) BF16Pair interleaved_[kMaxPairs * kMaxHeadDim];  // [pairs of keys, padded_dim()]
};

#endif

// The class with which a tile computes on keys and values of type T.
template <typename T>
struct BlocksFor {
  using Type = F32Blocks;
};
#if defined(LONGSTREAM_TILES)
template <>
struct BlocksFor<BF16> {
  using Type = TileBlocks;
};
#elif defined(__AVX512BF16__)
template <>
struct BlocksFor<BF16> {
  using Type = PairBlocks;
};
#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_PREFILL_BLOCKS_H_
