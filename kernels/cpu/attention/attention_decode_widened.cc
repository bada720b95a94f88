// Decode rows over bf16 keys and values, computed in f32. Two numbers are converted together, from
// 32 bits. avx512_f32 uses registers of 256 bits here too: those of 512 bits gain nothing, because
// the loops wait for memory.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/attention/attention_decode_blocks.h"

#if defined(__AVX2__) && !defined(__AVX512BF16__)

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// bf16 numbers of a register. The even ones become one register of f32, the odd ones another.
constexpr int64_t kChunk = 16;
constexpr int64_t kHalf = kChunk / 2;
constexpr int64_t kLineDims = PairRows::kVectorDims;
// The number of scores that are computed together: of eight rows and one head, or of four rows and
// two heads.
constexpr int64_t kScoresAtOnce = 8;

struct Chunk {
  __m256 even;
  __m256 odd;
};

LONGSTREAM_INLINE Chunk Widen(const BF16* from) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)),
          _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-0x10000)))};
}

// The place of number d in a chunk.
LONGSTREAM_INLINE int64_t PlaceInChunk(int64_t d) { return d % 2 * kHalf + d / 2; }

// Number i of the result is the sum of the lanes of sums[i]. The four sums use the same tree of
// additions.
LONGSTREAM_INLINE __m128 SumsOfFour(const __m256* sums) {
  const __m256 ab = _mm256_unpacklo_ps(sums[0], sums[1]) + _mm256_unpackhi_ps(sums[0], sums[1]);
  const __m256 cd = _mm256_unpacklo_ps(sums[2], sums[3]) + _mm256_unpackhi_ps(sums[2], sums[3]);
  const __m256d even = _mm256_unpacklo_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
  const __m256d odd = _mm256_unpackhi_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
  const __m256 all = _mm256_castpd_ps(even) + _mm256_castpd_ps(odd);
  return _mm256_castps256_ps128(all) + _mm256_extractf128_ps(all, 1);
}

// Rows of `stride` numbers that follow each other in memory, and the same number of rows at `next`
// to prefetch.
struct Rows {
  const BF16* data;
  const BF16* next;
  int64_t stride;  // a multiple of kLineDims
};

// Computes scores[h * kKeyBlock + i] for kScoresAtOnce / kHeads rows. q: kHeads rows of kMaxHeadDim
//
// Each row is read from its beginning to its end, because processors read ahead in that order. For
// one head, two rows are read side by side, so that eight sums are computed at the same time.
template <int kHeads, Asks kAsks>
LONGSTREAM_INLINE void ScoreRows(const float* q, const Rows& rows, float* scores) {
  constexpr int kRows = kScoresAtOnce / kHeads;
  constexpr int kSideBySide = 2 / kHeads;
  const auto [data, next, stride] = rows;
  __m256 of_row[kHeads][kRows];
  LONGSTREAM_UNROLL
  for (int first = 0; first < kRows; first += kSideBySide) {
    __m256 sums[2][2][2];  // [head or row][chunk][even or odd numbers]
    LONGSTREAM_UNROLL
    for (int i = 0; i < 8; ++i) sums[i / 4][i / 2 % 2][i % 2] = _mm256_setzero_ps();
    for (int64_t d = 0; d < stride; d += kLineDims) {
      LONGSTREAM_UNROLL
      for (int r = 0; r < kSideBySide; ++r) AskFor<kAsks>(next, (first + r) * stride + d);
      LONGSTREAM_UNROLL
      for (int c = 0; c < 2; ++c) {
        LONGSTREAM_UNROLL
        for (int r = 0; r < kSideBySide; ++r) {
          const Chunk key = Widen(data + (first + r) * stride + d + c * kChunk);
          LONGSTREAM_UNROLL
          for (int h = 0; h < kHeads; ++h) {
            const float* query = q + h * kMaxHeadDim + d + c * kChunk;
            auto& sum = sums[kHeads == 2 ? h : r][c];
            sum[0] = _mm256_fmadd_ps(_mm256_load_ps(query), key.even, sum[0]);
            sum[1] = _mm256_fmadd_ps(_mm256_load_ps(query + kHalf), key.odd, sum[1]);
          }
        }
      }
    }
    LONGSTREAM_UNROLL
    for (int i = 0; i < 2; ++i) {
      const __m256 sum = (sums[i][0][0] + sums[i][0][1]) + (sums[i][1][0] + sums[i][1][1]);
      of_row[kHeads == 2 ? i : 0][kHeads == 2 ? first : first + i] = sum;
    }
  }
  LONGSTREAM_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    LONGSTREAM_UNROLL
    for (int i = 0; i < kRows; i += 4) {
      _mm_store_ps(scores + h * kKeyBlock + i, SumsOfFour(of_row[h] + i));
    }
  }
}

// sums[h * kMaxHeadDim + ...] += weights[h * kKeyBlock + j] rows[j] for kRows rows, which are read
// side by side. The sums of a chunk are read from the first-level cache and written back to it.
template <int kHeads, int kRows, Asks kAsks>
LONGSTREAM_INLINE void WeighSome(const float* weights, const Rows& rows, float* sums) {
  const auto [data, next, stride] = rows;
  __m256 weight[kHeads][kRows];
  LONGSTREAM_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    LONGSTREAM_UNROLL
    for (int j = 0; j < kRows; ++j) {
      weight[h][j] = _mm256_broadcast_ss(weights + h * kKeyBlock + j);
    }
  }
  for (int64_t d = 0; d < stride; d += kLineDims) {
    LONGSTREAM_UNROLL
    for (int j = 0; j < kRows; ++j) AskFor<kAsks>(next, kRows * d + j * kLineDims);
    LONGSTREAM_UNROLL
    for (int c = 0; c < 2; ++c) {
      float* const at = sums + d + c * kChunk;
      Chunk sum[kHeads];
      LONGSTREAM_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        sum[h] = {_mm256_load_ps(at + h * kMaxHeadDim),
                  _mm256_load_ps(at + h * kMaxHeadDim + kHalf)};
      }
      LONGSTREAM_UNROLL
      for (int j = 0; j < kRows; ++j) {
        const Chunk value = Widen(data + j * stride + d + c * kChunk);
        LONGSTREAM_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          sum[h].even = _mm256_fmadd_ps(weight[h][j], value.even, sum[h].even);
          sum[h].odd = _mm256_fmadd_ps(weight[h][j], value.odd, sum[h].odd);
        }
      }
      LONGSTREAM_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        _mm256_store_ps(at + h * kMaxHeadDim, sum[h].even);
        _mm256_store_ps(at + h * kMaxHeadDim + kHalf, sum[h].odd);
      }
    }
  }
}

template <int kHeads, Asks kAsks>
void WeighRows(const float* weights, int64_t count, Rows rows, float* sums) {
  constexpr int kRows = 8 / kHeads;
  const auto some = [&](int64_t first, auto num_rows) LONGSTREAM_INLINE_LAMBDA {
    constexpr int kSome = decltype(num_rows)::value;
    WeighSome<kHeads, kSome, kAsks>(weights + first, rows, sums);
    rows.data += kSome * rows.stride;
    if constexpr (kAsks != Asks::kNothing) rows.next += kSome * rows.stride;
  };
  int64_t j = 0;
  for (; j + kRows <= count; j += kRows) some(j, std::integral_constant<int, kRows>{});
  for (; j < count; ++j) some(j, std::integral_constant<int, 1>{});
}

}  // namespace

void WidenedDecodeKeys::LoadQueries(const float* q) {
  for (int64_t h = 0; h < shape_.heads; ++h) {
    float* to = queries_ + h * kMaxHeadDim;
    std::fill_n(to, rows_.row_dims(), 0.0f);
    for (int64_t d = 0; d < shape_.dim; ++d) {
      to[d / kChunk * kChunk + PlaceInChunk(d % kChunk)] = shape_.scale * q[h * shape_.dim + d];
    }
  }
}

void WidenedDecodeKeys::Score(int64_t block, int64_t begin, int64_t end, float* scores) {
  if (begin >= end) return;
  const int64_t stride = rows_.row_dims();
  const BF16* rows = rows_.Block(block, begin, end);
  // Scores are computed kScoresAtOnce at a time. Only those of the keys [begin, end) are copied to
  // `scores`.
  const int64_t first = (begin - block) / kScoresAtOnce * kScoresAtOnce;
  const int64_t last = (end - block + kScoresAtOnce - 1) / kScoresAtOnce * kScoresAtOnce;
  alignas(64) float computed[2 * kKeyBlock];
  for (int64_t h = 0; h < shape_.heads; h += 2) {
    const int64_t heads = std::min<int64_t>(shape_.heads - h, 2);
    const float* q = queries_ + h * kMaxHeadDim;
    const auto score = [&](auto num_heads, auto asks, const BF16* next) {
      constexpr int kHeads = decltype(num_heads)::value;
      constexpr Asks kAsks = decltype(asks)::value;
      for (int64_t i = first; i < last; i += kScoresAtOnce / kHeads) {
        const BF16* ahead = kAsks == Asks::kNothing ? nullptr : next + i * stride;
        ScoreRows<kHeads, kAsks>(q, {rows + i * stride, ahead, stride}, computed + i);
      }
    };
    const BF16* next = h == 0 ? rows_.AskBut(last) : nullptr;
    ForAsks(next, [&](auto asks) {
      if (heads == 2) {
        score(std::integral_constant<int, 2>{}, asks, next);
      } else {
        score(std::integral_constant<int, 1>{}, asks, next);
      }
    });
    for (int64_t i = 0; i < heads; ++i) {
      std::copy(computed + i * kKeyBlock + (begin - block),
                computed + i * kKeyBlock + (end - block),
                scores + (h + i) * kKeyBlock + (begin - block));
    }
  }
}

void WidenedDecodeValues::Weigh(const float* weights, int64_t block, int64_t begin, int64_t end,
                                float* sums) {
  const int64_t stride = rows_.row_dims();
  const BF16* rows = rows_.Block(block, begin, end) + (begin - block) * stride;
  const BF16* next = rows_.AskBut(end - begin);
  for (int64_t h = 0; h < shape_.heads; h += 2) {
    const float* of_heads = weights + h * kKeyBlock + (begin - block);
    float* to = sums + h * kMaxHeadDim;
    ForAsks(h == 0 ? next : nullptr, [&](auto asks) {
      constexpr Asks kAsks = decltype(asks)::value;
      if (shape_.heads - h >= 2) {
        WeighRows<2, kAsks>(of_heads, end - begin, {rows, next, stride}, to);
      } else {
        WeighRows<1, kAsks>(of_heads, end - begin, {rows, next, stride}, to);
      }
    });
  }
}

void WidenedDecodeValues::InOrder(const float* sums, float* to) const {
  for (int64_t d = 0; d < shape_.dim; ++d) {
    to[d] = sums[d / kChunk * kChunk + PlaceInChunk(d % kChunk)];
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif
