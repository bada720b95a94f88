// Decode rows over bf16 keys and values, computed by the bf16 dot product.
#include "kernels/cpu/attention/attention_decode_blocks.h"

#include <algorithm>

#if defined(__AVX512BF16__)

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// The number of scores whose lanes are summed together, by a tree of additions of registers.
constexpr int kScoresAtOnce = 16;
constexpr int64_t kVectorDims = PairRows::kVectorDims;

LONGSTREAM_INLINE __m512bh LoadPairs(const BF16* from) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
}
LONGSTREAM_INLINE __m512bh BroadcastPair(const BF16* from) {
  int32_t bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
}

// Splits each of 16 numbers into the sum of two bf16 numbers.
LONGSTREAM_INLINE void SplitVector(const F32x16& value, BF16* high, BF16* low) {
  const F32x16 rounded = RoundToBF16(value);
  Store(rounded, high);
  Store(value - rounded, low);
}

// Lane i of the result is the sum of the lanes of sums[i]. The 16 sums use the same tree of
// additions.
LONGSTREAM_INLINE __m512 SumsOfSixteen(__m512 (&sums)[kScoresAtOnce]) {
  // Adds neighbouring registers into one: this halves the number of registers, and the number of
  // lanes over which a sum is spread.
  for (int i = 0; i < 8; ++i) {
    const __m512 a = sums[2 * i], b = sums[2 * i + 1];
    sums[i] = _mm512_unpacklo_ps(a, b) + _mm512_unpackhi_ps(a, b);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(sums[2 * i]), b = _mm512_castps_pd(sums[2 * i + 1]);
    sums[i] =
        _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)) + _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
  }
  // Each 128 bits now hold four sums. The four 128-bit parts of each register are still to be
  // added. The code below adds the parts of four registers at once.
  for (int i = 0; i < 2; ++i) {
    const __m512 a = sums[2 * i], b = sums[2 * i + 1];
    sums[i] = _mm512_shuffle_f32x4(a, b, 0x88) + _mm512_shuffle_f32x4(a, b, 0xdd);
  }
  return _mm512_shuffle_f32x4(sums[0], sums[1], 0x88) +
         _mm512_shuffle_f32x4(sums[0], sums[1], 0xdd);
}

// Computes the scores of kHeads heads with 16 / kHeads rows of kVectors registers each. Lane
// h * (16 / kHeads) + i of the result is the score of head h with row i. Unless kAsks is kNothing,
// prefetches the same number of bytes at `next`.
template <int kVectors, int kHeads, Asks kAsks>
LONGSTREAM_INLINE __m512 ScoreRows(const PairDecodeKeys::Split* q, const BF16* rows,
                                   const BF16* next) {
  constexpr int kRows = kScoresAtOnce / kHeads;
  __m512 sums[kScoresAtOnce];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  // Reads kAtOnce neighbouring registers of a row together, because the processor's prefetcher
  // follows lines better that are read in order. These are all or most registers of a row, as far
  // as the queries for them stay in registers. (For two heads of D = 128, half a row at once had
  // 0.93 of the speed of a quarter at once.)
  constexpr int kAtOnce = kHeads == 1 ? std::min(kVectors, 4) : kVectors == 2 ? 2 : 1;
  for (int first = 0; first < kVectors; first += kAtOnce) {
    __m512bh high[kAtOnce][kHeads], low[kAtOnce][kHeads];
    for (int v = 0; v < kAtOnce; ++v) {
      for (int h = 0; h < kHeads; ++h) {
        high[v][h] = LoadPairs(q[h].high + (first + v) * kVectorDims);
        low[v][h] = LoadPairs(q[h].low + (first + v) * kVectorDims);
      }
    }
    for (int i = 0; i < kRows; ++i) {
      for (int v = 0; v < kAtOnce; ++v) {
        const __m512bh row = LoadPairs(rows + (i * kVectors + first + v) * kVectorDims);
        AskFor<kAsks>(next, (first * kRows + i * kAtOnce + v) * kVectorDims);
        for (int h = 0; h < kHeads; ++h) {
          sums[h * kRows + i] = _mm512_dpbf16_ps(sums[h * kRows + i], high[v][h], row);
        }
        for (int h = 0; h < kHeads; ++h) {
          sums[h * kRows + i] = _mm512_dpbf16_ps(sums[h * kRows + i], low[v][h], row);
        }
      }
    }
  }
  return SumsOfSixteen(sums);
}

// Computes the scores of kHeads heads with the block's rows [first, last); both are multiples of
// 16.
template <int kVectors, int kHeads, Asks kAsks>
void ScoreHeads(const PairDecodeKeys::Split* q, const BF16* rows, const BF16* next, int64_t first,
                int64_t last, float* scores) {
  constexpr int kRows = kScoresAtOnce / kHeads;
  const BF16* ahead = nullptr;
  for (int64_t i = first; i < last; i += kRows) {
    const int64_t offset = i * kVectors * kVectorDims;
    if constexpr (kAsks != Asks::kNothing) ahead = next + offset;
    const __m512 group = ScoreRows<kVectors, kHeads, kAsks>(q, rows + offset, ahead);
    if constexpr (kHeads == 1) {
      _mm512_storeu_ps(scores + i, group);
    } else {
      _mm256_storeu_ps(scores + i, _mm512_castps512_ps256(group));
      _mm256_storeu_ps(scores + kKeyBlock + i, _mm512_extractf32x8_ps(group, 1));
    }
  }
}

// Adds weighted values to the sums of kHeads heads, for kChunks registers of a row. Rows of `sums`
// have kMaxHeadDim numbers.
template <int kVectors, int kHeads, int kChunks, Asks kAsks>
void WeighTile(const PairDecodeValues::Pairs& pairs, float* sums) {
  // The operands are copied, so that the compiler knows that stores do not change them.
  const auto [weights, rows, next, first_pair, last_pair] = pairs;
  constexpr int64_t kRow = kVectors * kVectorDims;
  // A register of values of two rows becomes two registers of pairs, and so two registers of sums.
  // Their order is that of InOrder.
  __m512 sum[kHeads][kChunks][2];
  for (int h = 0; h < kHeads; ++h) {
    for (int c = 0; c < kChunks; ++c) {
      sum[h][c][0] = _mm512_loadu_ps(sums + h * kMaxHeadDim + c * kVectorDims);
      sum[h][c][1] = _mm512_loadu_ps(sums + h * kMaxHeadDim + c * kVectorDims + kLanes);
    }
  }
  for (int64_t pair = first_pair; pair < last_pair; ++pair) {
    __m512bh weight[kHeads];
    for (int h = 0; h < kHeads; ++h) {
      weight[h] = BroadcastPair(weights + h * kKeyBlock + 2 * pair);
    }
    const BF16* even = rows + 2 * pair * kRow;
    for (int c = 0; c < kChunks; ++c) {
      const __m512i a = _mm512_loadu_si512(even + c * kVectorDims);
      const __m512i b = _mm512_loadu_si512(even + kRow + c * kVectorDims);
      AskFor<kAsks>(next, (2 * pair * kVectors + 2 * c) * kVectorDims);
      AskFor<kAsks>(next, (2 * pair * kVectors + 2 * c + 1) * kVectorDims);
      const auto first = reinterpret_cast<__m512bh>(_mm512_unpacklo_epi16(a, b));
      const auto second = reinterpret_cast<__m512bh>(_mm512_unpackhi_epi16(a, b));
      for (int h = 0; h < kHeads; ++h) {
        sum[h][c][0] = _mm512_dpbf16_ps(sum[h][c][0], weight[h], first);
        sum[h][c][1] = _mm512_dpbf16_ps(sum[h][c][1], weight[h], second);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int c = 0; c < kChunks; ++c) {
      _mm512_storeu_ps(sums + h * kMaxHeadDim + c * kVectorDims, sum[h][c][0]);
      _mm512_storeu_ps(sums + h * kMaxHeadDim + c * kVectorDims + kLanes, sum[h][c][1]);
    }
  }
}

// Adds weighted rows of values in their whole width. The sums of each tile stay in 16 registers.
template <int kVectors, int kHeads>
void WeighHeads(PairDecodeValues::Pairs pairs, float* sums) {
  constexpr int kChunks = std::min(kVectors, 4);
  for (int c = 0; c < kVectors; c += kChunks) {
    ForAsks(pairs.next, [&](auto asks) {
      WeighTile<kVectors, kHeads, kChunks, decltype(asks)::value>(pairs, sums);
    });
    if (pairs.next != nullptr) pairs.next += 2 * kChunks * kVectorDims;
    pairs.rows += kChunks * kVectorDims;
    sums += kChunks * kVectorDims;
  }
}

}  // namespace

void PairDecodeKeys::LoadQueries(const float* q) {
  for (int64_t h = 0; h < shape_.heads; ++h) {
    for (int64_t d = 0; d < rows_.num_vectors() * kVectorDims; d += kLanes) {
      const int64_t left = shape_.dim - d;
      F32x16 value = Zero();
      if (left >= kLanes) {
        value = Load(q + h * shape_.dim + d);
      } else if (left > 0) {
        value = LoadPartial(q + h * shape_.dim + d, left);
      }
      SplitVector(Broadcast(shape_.scale) * value, queries_[h].high + d, queries_[h].low + d);
    }
  }
}

void PairDecodeKeys::Score(int64_t block, int64_t begin, int64_t end, float* scores) {
  if (begin >= end) return;
  const BF16* rows = rows_.Block(block, begin, end);
  // Scores are computed kScoresAtOnce at a time. Only those of the keys [begin, end) are copied to
  // `scores`.
  const int64_t first = (begin - block) / kScoresAtOnce * kScoresAtOnce;
  const int64_t last = (end - block + kScoresAtOnce - 1) / kScoresAtOnce * kScoresAtOnce;
  alignas(64) float computed[2 * kKeyBlock];
  for (int64_t h = 0; h < shape_.heads; h += 2) {
    const int64_t heads = shape_.heads - h < 2 ? 1 : 2;
    const BF16* next = h == 0 ? rows_.AskBut(last) : nullptr;
    ForVectors<8>(rows_.num_vectors(), [&](auto vectors) {
      constexpr int kVectors = decltype(vectors)::value;
      const Split* q = queries_ + h;
      ForAsks(next, [&](auto asks) {
        constexpr Asks kAsks = decltype(asks)::value;
        if (heads == 2) {
          ScoreHeads<kVectors, 2, kAsks>(q, rows, next, first, last, computed);
        } else {
          ScoreHeads<kVectors, 1, kAsks>(q, rows, next, first, last, computed);
        }
      });
    });
    for (int64_t i = 0; i < heads; ++i) {
      __builtin_memcpy(scores + (h + i) * kKeyBlock + (begin - block),
                       computed + i * kKeyBlock + (begin - block),
                       static_cast<size_t>(end - begin) * sizeof(float));
    }
  }
}

void PairDecodeValues::Weigh(const float* weights, int64_t block, int64_t begin, int64_t end,
                             float* sums) {
  for (int64_t i = 0; i < shape_.heads * kKeyBlock; i += kLanes) {
    Store(Load(weights + i), weights_ + i);
  }
  const BF16* rows = rows_.Block(block, begin, end);
  const int64_t first = begin - block, last = end - block;
  const BF16* next = rows_.AskBut(last / 2 * 2);
  if (first % 2 != 0) WeighOne(rows, first, sums);
  WeighPairs({weights_, rows, next, (first + 1) / 2, last / 2}, sums);
  if (last % 2 != 0) WeighOne(rows, last - 1, sums);
}

void PairDecodeValues::WeighOne(const BF16* rows, int64_t i, float* sums) const {
  const int64_t row = rows_.num_vectors() * kVectorDims;
  alignas(64) BF16 pair[2 * kMaxHeadDim] = {};
  __builtin_memcpy(pair + i % 2 * row, rows + i * row, static_cast<size_t>(row) * sizeof(BF16));
  WeighPairs({weights_ + i / 2 * 2, pair, nullptr, 0, 1}, sums);
}

void PairDecodeValues::WeighPairs(Pairs pairs, float* sums) const {
  for (int64_t h = 0; h < shape_.heads; h += 2) {
    ForVectors<8>(rows_.num_vectors(), [&](auto vectors) {
      if (shape_.heads - h >= 2) {
        WeighHeads<decltype(vectors)::value, 2>(pairs, sums + h * kMaxHeadDim);
      } else {
        WeighHeads<decltype(vectors)::value, 1>(pairs, sums + h * kMaxHeadDim);
      }
    });
    pairs.weights += 2 * kKeyBlock;
    pairs.next = nullptr;
  }
}

void PairDecodeValues::InOrder(const float* sums, float* to) const {
  // Interleaving works within 128 bits: of eight numbers, the first four go to the first register
  // of sums, the other four to the second.
  constexpr int64_t kFour = 4;
  for (int64_t d = 0; d < shape_.dim; d += kFour) {
    const int64_t in_vector = d % kVectorDims;
    const float* from =
        sums + (d - in_vector) + in_vector / 8 * kFour + in_vector / kFour % 2 * kLanes;
    const int64_t left = shape_.dim - d;
    if (left >= kFour) {
      __builtin_memcpy(to + d, from, kFour * sizeof(float));
    } else {
      __builtin_memcpy(to + d, from, static_cast<size_t>(left) * sizeof(float));
    }
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif
