// Decode rows over int8 pages, computed by the dot product of words. It multiplies pairs of 16-bit
// numbers and adds the products to sums of 32 bits.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/attention/attention_int8_decode.h"

#if defined(__AVX2__) && !defined(__AVX512VNNI__)

#include "kernels/cpu/attention/attention_int8.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

constexpr int64_t kChunk = 16;  // numbers of a register as words
constexpr int64_t kHalf = kChunk / 2;
// The number of scores that are computed together: of eight rows and one head, or of four rows and
// two heads.
constexpr int64_t kScoresAtOnce = 8;
// The number of rows whose values are weighed together, in pairs.
constexpr int kRowsAtOnce = 8;

LONGSTREAM_INLINE __m256i Words(const int8_t* from) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
LONGSTREAM_INLINE __m256i LoadAligned(const void* from) {
  return _mm256_load_si256(static_cast<const __m256i*>(from));
}
LONGSTREAM_INLINE void StoreAligned(const __m256i& value, void* to) {
  _mm256_store_si256(static_cast<__m256i*>(to), value);
}

// The place of number d of 16 in the sums of two interleaved rows. Interleaving works within 128
// bits. So the first register gets the lower four numbers of both halves, and the second register
// gets the upper four numbers of both.
LONGSTREAM_INLINE int64_t PlaceInChunk(int64_t d) { return d / 4 % 2 * kHalf + d / 8 * 4 + d % 4; }

// Number i of the result is the sum of the lanes of sums[i].
LONGSTREAM_INLINE __m128i SumsOfFour(const __m256i* sums) {
  const auto neighbours = [](const __m256i& a, const __m256i& b) LONGSTREAM_INLINE_LAMBDA {
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  };
  const __m256i ab = neighbours(sums[0], sums[1]), cd = neighbours(sums[2], sums[3]);
  const __m256i all =
      _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
  return _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

// Rows of `stride` numbers that follow each other in memory, and the same number of rows at `next`
// to prefetch.
struct Rows {
  const int8_t* data;
  const int8_t* next;
  int64_t stride;  // a multiple of Int8Rows::kVectorDims
};

// Computes scores[h * kKeyBlock + i] for kScoresAtOnce / kHeads rows; row i has the scale
// scales[i].
template <int kHeads, Asks kAsks>
LONGSTREAM_INLINE void ScoreRows(const WordsDecodeKeys::Query* q, const Rows& rows,
                                 const float* scales, float* scores) {
  constexpr int kRows = kScoresAtOnce / kHeads;
  const auto [data, next, stride] = rows;
  __m256i sums[kHeads][kRows];
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    for (int64_t d = 0; d < stride; d += kLineBytes) AskFor<kAsks>(next, r * stride + d);
    __m256i of_row[kHeads][2];
    LONGSTREAM_UNROLL
    for (int h = 0; h < kHeads; ++h) of_row[h][0] = of_row[h][1] = _mm256_setzero_si256();
    for (int64_t d = 0; d < stride; d += Int8Rows::kVectorDims) {
      LONGSTREAM_UNROLL
      for (int c = 0; c < 2; ++c) {
        const __m256i key = Words(data + r * stride + d + c * kChunk);
        LONGSTREAM_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          const __m256i query = LoadAligned(q[h].numbers + d + c * kChunk);
          of_row[h][c] = AddPairs(of_row[h][c], key, query);
        }
      }
    }
    LONGSTREAM_UNROLL
    for (int h = 0; h < kHeads; ++h) sums[h][r] = _mm256_add_epi32(of_row[h][0], of_row[h][1]);
  }
  LONGSTREAM_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    const __m128 step = _mm_set1_ps(q[h].step);
    LONGSTREAM_UNROLL
    for (int i = 0; i < kRows; i += 4) {
      const __m128 unscaled = _mm_cvtepi32_ps(SumsOfFour(sums[h] + i)) * step;
      _mm_storeu_ps(scores + h * kKeyBlock + i, unscaled * _mm_load_ps(scales + i));
    }
  }
}

// sums[h * kMaxHeadDim + ...] += weights[h * kKeyBlock + j] rows[j] for kRowsAtOnce rows, which are
// read side by side. The sums of a chunk are read from the first-level cache and written back to
// it.
template <int kHeads, Asks kAsks>
LONGSTREAM_INLINE void WeighRows(const int16_t* weights, const Rows& rows, int32_t* sums) {
  constexpr int kPairs = kRowsAtOnce / 2;
  const auto [data, next, stride] = rows;
  __m256i weight[kHeads][kPairs];
  LONGSTREAM_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    LONGSTREAM_UNROLL
    for (int p = 0; p < kPairs; ++p) {
      int32_t pair;
      __builtin_memcpy(&pair, weights + h * kKeyBlock + 2 * p, sizeof(pair));
      weight[h][p] = _mm256_set1_epi32(pair);
    }
  }
  for (int64_t d = 0; d < stride; d += Int8Rows::kVectorDims) {
    constexpr int64_t kLines = kRowsAtOnce * Int8Rows::kVectorDims / kLineBytes;
    LONGSTREAM_UNROLL
    for (int64_t i = 0; i < kLines; ++i) AskFor<kAsks>(next, kRowsAtOnce * d + i * kLineBytes);
    LONGSTREAM_UNROLL
    for (int c = 0; c < 2; ++c) {
      int32_t* const at = sums + d + c * kChunk;
      __m256i sum[kHeads][2];
      LONGSTREAM_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        sum[h][0] = LoadAligned(at + h * kMaxHeadDim);
        sum[h][1] = LoadAligned(at + h * kMaxHeadDim + kHalf);
      }
      LONGSTREAM_UNROLL
      for (int p = 0; p < kPairs; ++p) {
        const int8_t* pair = data + 2 * p * stride + d + c * kChunk;
        const __m256i first = Words(pair), second = Words(pair + stride);
        const __m256i lower = _mm256_unpacklo_epi16(first, second);
        const __m256i upper = _mm256_unpackhi_epi16(first, second);
        LONGSTREAM_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          sum[h][0] = AddPairs(sum[h][0], lower, weight[h][p]);
          sum[h][1] = AddPairs(sum[h][1], upper, weight[h][p]);
        }
      }
      LONGSTREAM_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        StoreAligned(sum[h][0], at + h * kMaxHeadDim);
        StoreAligned(sum[h][1], at + h * kMaxHeadDim + kHalf);
      }
    }
  }
}

// Rounds a block's weights, multiplied by the scales of their values, to integers times a step.
// Returns the step. `weights`, `scales` and `numbers` are [kKeyBlock].
LONGSTREAM_INLINE float RoundWeights(const float* weights, const float* scales, int16_t* numbers) {
  alignas(64) float scaled[kKeyBlock];
  for (int64_t i = 0; i < kKeyBlock; i += kLanes) {
    Store(Load(weights + i) * Load(scales + i), scaled + i);
  }
  const WeightSteps steps = WeightStepsOf(Broadcast(LargestMagnitude(scaled, kKeyBlock)));
  for (int64_t i = 0; i < kKeyBlock; i += kLanes) {
    alignas(64) int32_t lanes[kLanes];
    Store(WeightNumbers(Load(scaled + i), steps.inverse), lanes);
    // Within each 128 bits, the pack instruction puts four numbers of one register, then four of
    // the other. The permutation restores their order.
    const __m256i turns = _mm256_packs_epi32(LoadAligned(lanes), LoadAligned(lanes + kHalf));
    StoreAligned(_mm256_permute4x64_epi64(turns, _MM_SHUFFLE(3, 1, 2, 0)), numbers + i);
  }
  return steps.step.part[0][0];
}

}  // namespace

void WordsDecodeKeys::LoadQueries(const float* q) {
  for (int64_t h = 0; h < shape_.heads; ++h) {
    alignas(64) int32_t numbers[kMaxHeadDim] = {};
    queries_[h].step = QueryNumbers(q + h * shape_.dim, shape_.dim, shape_.scale, numbers);
    std::copy_n(numbers, kMaxHeadDim, queries_[h].numbers);
  }
}

void WordsDecodeKeys::Score(int64_t block, int64_t begin, int64_t end, float* scores) {
  if (begin >= end) return;
  const int64_t stride = rows_.row_dims();
  const Int8Rows::Block rows = rows_.Of(block, begin, end);
  alignas(64) float scales[kKeyBlock];
  for (int64_t i = 0; i < kKeyBlock; i += kLanes) Store(Load(rows.scales + i), scales + i);
  // Scores are computed kScoresAtOnce at a time. Only those of the keys [begin, end) are copied to
  // `scores`.
  const int64_t first = (begin - block) / kScoresAtOnce * kScoresAtOnce;
  const int64_t last = (end - block + kScoresAtOnce - 1) / kScoresAtOnce * kScoresAtOnce;
  alignas(64) float computed[2 * kKeyBlock];
  for (int64_t h = 0; h < shape_.heads; h += 2) {
    const int64_t heads = std::min<int64_t>(shape_.heads - h, 2);
    const auto score = [&](auto num_heads, auto asks, const int8_t* next) {
      constexpr int kHeads = decltype(num_heads)::value;
      constexpr Asks kAsks = decltype(asks)::value;
      for (int64_t i = first; i < last; i += kScoresAtOnce / kHeads) {
        const int8_t* ahead = kAsks == Asks::kNothing ? nullptr : next + i * stride;
        ScoreRows<kHeads, kAsks>(queries_ + h, {rows.rows + i * stride, ahead, stride}, scales + i,
                                 computed + i);
      }
    };
    const Int8Rows::Block next = h == 0 ? rows_.next() : Int8Rows::Block{};
    if (next.scales != nullptr) PrefetchL2(next.scales);
    ForAsks(next.rows, [&](auto asks) {
      if (heads == 2) {
        score(std::integral_constant<int, 2>{}, asks, next.rows);
      } else {
        score(std::integral_constant<int, 1>{}, asks, next.rows);
      }
    });
    for (int64_t i = 0; i < heads; ++i) {
      std::copy(computed + i * kKeyBlock + (begin - block),
                computed + i * kKeyBlock + (end - block),
                scores + (h + i) * kKeyBlock + (begin - block));
    }
  }
}

void WordsDecodeValues::Weigh(const float* weights, int64_t block, int64_t begin, int64_t end,
                              float* sums) {
  const int64_t stride = rows_.row_dims();
  const Int8Rows::Block rows = rows_.Of(block, begin, end);
  // Rows outside the block's keys may have any scale, even NaN, so their scales become zeros.
  alignas(64) float scales[kKeyBlock] = {};
  for (int64_t i = begin - block; i < end - block; ++i) {
    scales[i] = longstream::ToF32(rows.scales[i]);
  }
  const int64_t first = (begin - block) / kRowsAtOnce * kRowsAtOnce;
  for (int64_t h = 0; h < shape_.heads; h += 2) {
    const int64_t heads = std::min<int64_t>(shape_.heads - h, 2);
    alignas(64) int16_t numbers[2 * kKeyBlock];
    float steps[2];
    for (int64_t i = 0; i < heads; ++i) {
      steps[i] = RoundWeights(weights + (h + i) * kKeyBlock, scales, numbers + i * kKeyBlock);
    }
    alignas(64) int32_t totals[2 * kMaxHeadDim];
    for (int64_t i = 0; i < heads; ++i) std::fill_n(totals + i * kMaxHeadDim, stride, 0);
    const Int8Rows::Block next = h == 0 ? rows_.next() : Int8Rows::Block{};
    if (next.scales != nullptr) PrefetchL2(next.scales);
    const auto weigh = [&](auto num_heads, auto asks) {
      constexpr Asks kAsks = decltype(asks)::value;
      for (int64_t i = first; i < end - block; i += kRowsAtOnce) {
        const int8_t* ahead = kAsks == Asks::kNothing ? nullptr : next.rows + i * stride;
        WeighRows<decltype(num_heads)::value, kAsks>(
            numbers + i, {rows.rows + i * stride, ahead, stride}, totals);
      }
    };
    ForAsks(next.rows, [&](auto asks) {
      if (heads == 2) {
        weigh(std::integral_constant<int, 2>{}, asks);
      } else {
        weigh(std::integral_constant<int, 1>{}, asks);
      }
    });
    for (int64_t i = 0; i < heads; ++i) {
      const __m256 step = _mm256_set1_ps(steps[i]);
      float* const to = sums + (h + i) * kMaxHeadDim;
      for (int64_t d = 0; d < stride; d += kHalf) {
        const __m256 total = _mm256_cvtepi32_ps(LoadAligned(totals + i * kMaxHeadDim + d));
        _mm256_storeu_ps(to + d, _mm256_fmadd_ps(step, total, _mm256_loadu_ps(to + d)));
      }
    }
  }
}

void WordsDecodeValues::InOrder(const float* sums, float* to) const {
  for (int64_t d = 0; d < shape_.dim; ++d) {
    to[d] = sums[d / kChunk * kChunk + PlaceInChunk(d % kChunk)];
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif
