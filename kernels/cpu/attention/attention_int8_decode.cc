// Decode rows over int8 pages, computed by the dot product of bytes.
#include "kernels/cpu/attention/attention_int8_decode.h"

#if defined(__AVX512VNNI__)

#include <type_traits>

#include "kernels/cpu/attention/attention_int8.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// The number of scores whose lanes are summed together, by a tree of additions of registers.
constexpr int kScoresAtOnce = 16;
// The number of scores whose sums are in registers at the same time. A score has a sum of high
// bytes and a sum of low bytes.
constexpr int kSumsAtOnce = kScoresAtOnce / 2;
constexpr int64_t kVectorDims = Int8Rows::kVectorDims;
static_assert(kMaxHeadDim == 4 * kVectorDims);  // so ForVectors<4> serves every row

LONGSTREAM_INLINE __m512i LoadBytes(const void* from) { return _mm512_loadu_si512(from); }

// Adds neighbouring lanes of a, and neighbouring lanes of b. In every 128 bits of the result, sums
// of a and of b alternate.
LONGSTREAM_INLINE __m512i AddNeighbours(const __m512i& a, const __m512i& b) {
  return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}
// Adds the lanes within each 128 bits. Each 128 bits of the result hold four sums: of a, b, c and
// d.
LONGSTREAM_INLINE __m512i AddFour(const __m512i& a, const __m512i& b, const __m512i& c,
                                  const __m512i& d) {
  const __m512i ab = AddNeighbours(a, b), cd = AddNeighbours(c, d);
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}
// Lane 4 i + j of the result is the sum of lane j over all 128-bit parts of fours[i].
LONGSTREAM_INLINE __m512i AddQuarters(const __m512i (&fours)[4]) {
  const auto halves = [](const __m512i& a, const __m512i& b) LONGSTREAM_INLINE_LAMBDA {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
  };
  return halves(halves(fours[0], fours[1]), halves(fours[2], fours[3]));
}

// Multiplies 8 / kHeads rows with the queries of kHeads heads. 128 is added to the numbers of the
// rows. That makes them unsigned, as the instruction requires of one factor. fours[step * i] gets
// the sums of four rows (AddFour); the results of the first head come first. Prefetches the same
// number of rows at `next`.
template <int kVectors, int kHeads, bool kAsk>
LONGSTREAM_INLINE void MultiplyRows(const Int8DecodeKeys::Query* q, const int8_t* rows,
                                    const int8_t* next, int step, __m512i* fours) {
  constexpr int kRows = kSumsAtOnce / kHeads;
  const __m512i offset = _mm512_set1_epi8(-128);
  __m512i high[kHeads][kRows], low[kHeads][kRows];
  for (int h = 0; h < kHeads; ++h) {
    for (int i = 0; i < kRows; ++i) high[h][i] = low[h][i] = _mm512_setzero_si512();
  }
  for (int v = 0; v < kVectors; ++v) {
    __m512i q_high[kHeads], q_low[kHeads];
    for (int h = 0; h < kHeads; ++h) {
      q_high[h] = LoadBytes(q[h].high + v * kVectorDims);
      q_low[h] = LoadBytes(q[h].low + v * kVectorDims);
    }
    for (int i = 0; i < kRows; ++i) {
      const int64_t at = (i * kVectors + v) * kVectorDims;
      const __m512i row = _mm512_xor_si512(LoadBytes(rows + at), offset);
      if constexpr (kAsk) PrefetchL2(next + at);
      for (int h = 0; h < kHeads; ++h) {
        high[h][i] = _mm512_dpbusd_epi32(high[h][i], row, q_high[h]);
        low[h][i] = _mm512_dpbusd_epi32(low[h][i], row, q_low[h]);
      }
    }
  }
  const auto sum = [&](int h, int i) LONGSTREAM_INLINE_LAMBDA {
    return _mm512_add_epi32(_mm512_slli_epi32(high[h][i], 8), low[h][i]);
  };
  for (int h = 0; h < kHeads; ++h) {
    for (int i = 0; i < kRows; i += 4, fours += step) {
      *fours = AddFour(sum(h, i), sum(h, i + 1), sum(h, i + 2), sum(h, i + 3));
    }
  }
}

// Computes the scores of kHeads heads with the block's rows [first, last); both are multiples of
// 16. scales [kKeyBlock]: the scales of the block's rows
template <int kVectors, int kHeads, bool kAsk>
void ScoreHeads(const Int8DecodeKeys::Query* q, const int8_t* rows, const float* scales,
                const int8_t* next, int64_t first, int64_t last, float* scores) {
  constexpr int kRows = kScoresAtOnce / kHeads;
  constexpr int64_t kRow = kVectors * kVectorDims;
  // Lane h * kRows + i belongs to head h.
  constexpr __mmask16 kSecondHead = kHeads == 1 ? 0 : 0xff00;
  const Int8DecodeKeys::Query& other = q[kHeads - 1];
  const __m512i surplus = _mm512_mask_mov_epi32(_mm512_set1_epi32(128 * q->sum), kSecondHead,
                                                _mm512_set1_epi32(128 * other.sum));
  const __m512 step =
      _mm512_mask_mov_ps(_mm512_set1_ps(q->step), kSecondHead, _mm512_set1_ps(other.step));
  for (int64_t i = first; i < last; i += kRows) {
    // With one head, fours[0] and fours[1] hold sums of the first 8 rows. With two heads, fours[0]
    // and fours[2] hold sums of the first 4 rows, one for each head.
    __m512i fours[4];
    for (int part = 0; part < 2; ++part) {
      const int64_t at = (i + part * kRows / 2) * kRow;
      MultiplyRows<kVectors, kHeads, kAsk>(q, rows + at, kAsk ? next + at : nullptr, kHeads,
                                           fours + part * (kHeads == 1 ? 2 : 1));
    }
    const __m512i total = _mm512_sub_epi32(AddQuarters(fours), surplus);
    const __m512 unscaled = _mm512_cvtepi32_ps(total) * step;
    if constexpr (kHeads == 1) {
      _mm512_storeu_ps(scores + i, unscaled * _mm512_loadu_ps(scales + i));
    } else {
      const __m512 group = unscaled * _mm512_broadcast_f32x8(_mm256_loadu_ps(scales + i));
      _mm256_storeu_ps(scores + i, _mm512_castps512_ps256(group));
      _mm256_storeu_ps(scores + kKeyBlock + i, _mm512_extractf32x8_ps(group, 1));
    }
  }
}

// Adds the weighted values of the first 4 * `quads` rows of a block to the sums of kHeads heads,
// for the 64 dimensions of one register. Prefetches the same part of the rows at `next`.
template <int kVectors, int kHeads, bool kAsk>
void WeighTile(const Int8DecodeValues::Weights* weights, const int8_t* rows, const int8_t* next,
               int64_t quads, float* sums) {
  constexpr int64_t kRow = kVectors * kVectorDims;
  __m512i high[kHeads][4], low[kHeads][4];
  for (int h = 0; h < kHeads; ++h) {
    for (int r = 0; r < 4; ++r) high[h][r] = low[h][r] = _mm512_setzero_si512();
  }
  for (int64_t quad = 0; quad < quads; ++quad) {
    __m512i values[4];
    const int8_t* four = rows + 4 * quad * kRow;
    InterleaveFour(four, four + kRow, four + 2 * kRow, four + 3 * kRow, values);
    if constexpr (kAsk) {
      for (int i = 0; i < 4; ++i) PrefetchL2(next + (4 * quad + i) * kRow);
    }
    for (int h = 0; h < kHeads; ++h) {
      const __m512i weight_high = BroadcastQuad(weights[h].high + 4 * quad);
      const __m512i weight_low = BroadcastQuad(weights[h].low + 4 * quad);
      for (int r = 0; r < 4; ++r) {
        high[h][r] = _mm512_dpbusd_epi32(high[h][r], weight_high, values[r]);
        low[h][r] = _mm512_dpbusd_epi32(low[h][r], weight_low, values[r]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    const __m512 step = _mm512_set1_ps(weights[h].step);
    for (int r = 0; r < 4; ++r) {
      float* to = sums + h * kMaxHeadDim + r * kLanes;
      const __m512i total = _mm512_add_epi32(_mm512_slli_epi32(high[h][r], 8), low[h][r]);
      _mm512_storeu_ps(to, _mm512_fmadd_ps(step, _mm512_cvtepi32_ps(total), _mm512_loadu_ps(to)));
    }
  }
}

template <int kVectors, int kHeads>
void WeighHeads(const Int8DecodeValues::Weights* weights, const int8_t* rows, const int8_t* next,
                int64_t quads, float* sums) {
  for (int64_t d = 0; d < kVectors * kVectorDims; d += kVectorDims) {
    if (next == nullptr) {
      WeighTile<kVectors, kHeads, false>(weights, rows + d, nullptr, quads, sums + d);
    } else {
      WeighTile<kVectors, kHeads, true>(weights, rows + d, next + d, quads, sums + d);
    }
  }
}

}  // namespace

void Int8DecodeKeys::LoadQueries(const float* q) {
  for (int64_t h = 0; h < shape_.heads; ++h) {
    Query& query = queries_[h];
    alignas(64) int32_t numbers[kMaxHeadDim] = {};
    query.step = QueryNumbers(q + h * shape_.dim, shape_.dim, shape_.scale, numbers);
    query.sum = 0;
    for (int64_t d = 0; d < kMaxHeadDim; ++d) {
      query.low[d] = static_cast<int8_t>(numbers[d]);
      query.high[d] = static_cast<int8_t>((numbers[d] - query.low[d]) / 256);
      query.sum += numbers[d];
    }
  }
}

void Int8DecodeKeys::Score(int64_t block, int64_t begin, int64_t end, float* scores) {
  if (begin >= end) return;
  const Int8Rows::Block rows = rows_.Of(block, begin, end);
  alignas(64) float scales[kKeyBlock];
  for (int64_t i = 0; i < kKeyBlock; i += kLanes) Store(Load(rows.scales + i), scales + i);
  // Scores are computed kScoresAtOnce at a time. Only those of the keys [begin, end) are copied to
  // `scores`.
  const int64_t first = (begin - block) / kScoresAtOnce * kScoresAtOnce;
  const int64_t last = (end - block + kScoresAtOnce - 1) / kScoresAtOnce * kScoresAtOnce;
  alignas(64) float computed[2 * kKeyBlock];
  for (int64_t h = 0; h < shape_.heads; h += 2) {
    const int64_t heads = shape_.heads - h < 2 ? 1 : 2;
    const Int8Rows::Block next = h == 0 ? rows_.next() : Int8Rows::Block{};
    if (next.scales != nullptr) PrefetchL2(next.scales);
    ForVectors<4>(rows_.num_vectors(), [&](auto vectors) {
      constexpr int kVectors = decltype(vectors)::value;
      const auto score = [&](auto num_heads, auto ask) LONGSTREAM_INLINE_LAMBDA {
        ScoreHeads<kVectors, decltype(num_heads)::value, decltype(ask)::value>(
            queries_ + h, rows.rows, scales, next.rows, first, last, computed);
      };
      const bool ask = next.rows != nullptr;
      if (heads == 2) {
        ask ? score(std::integral_constant<int, 2>{}, std::true_type{})
            : score(std::integral_constant<int, 2>{}, std::false_type{});
      } else {
        ask ? score(std::integral_constant<int, 1>{}, std::true_type{})
            : score(std::integral_constant<int, 1>{}, std::false_type{});
      }
    });
    for (int64_t i = 0; i < heads; ++i) {
      __builtin_memcpy(scores + (h + i) * kKeyBlock + (begin - block),
                       computed + i * kKeyBlock + (begin - block),
                       static_cast<size_t>(end - begin) * sizeof(float));
    }
  }
}

void Int8DecodeValues::Weigh(const float* weights, int64_t block, int64_t begin, int64_t end,
                             float* sums) {
  const Int8Rows::Block rows = rows_.Of(block, begin, end);
  // Rows outside the block's keys may have any scale, even NaN, so their scales become zeros.
  alignas(64) float scales[kKeyBlock] = {};
  for (int64_t i = begin - block; i < end - block; ++i) {
    scales[i] = longstream::ToF32(rows.scales[i]);
  }
  for (int64_t h = 0; h < shape_.heads; ++h) {
    Weights& to = weights_[h];
    alignas(64) float scaled[kKeyBlock];
    for (int64_t i = 0; i < kKeyBlock; i += kLanes) {
      Store(Load(weights + h * kKeyBlock + i) * Load(scales + i), scaled + i);
    }
    const WeightSteps steps = WeightStepsOf(Broadcast(LargestMagnitude(scaled, kKeyBlock)));
    to.step = steps.step.part[0][0];
    for (int64_t i = 0; i < kKeyBlock; i += kLanes) {
      const I32x16 number = WeightNumbers(Load(scaled + i), steps.inverse);
      StoreLowBytes(number >> 8, to.high + i);
      StoreLowBytes(number, to.low + i);
    }
  }
  const int64_t quads = (end - block + 3) / 4;
  for (int64_t h = 0; h < shape_.heads; h += 2) {
    const Int8Rows::Block next = h == 0 ? rows_.next() : Int8Rows::Block{};
    if (next.scales != nullptr) PrefetchL2(next.scales);
    ForVectors<4>(rows_.num_vectors(), [&](auto vectors) {
      constexpr int kVectors = decltype(vectors)::value;
      float* to = sums + h * kMaxHeadDim;
      if (shape_.heads - h >= 2) {
        WeighHeads<kVectors, 2>(weights_ + h, rows.rows, next.rows, quads, to);
      } else {
        WeighHeads<kVectors, 1>(weights_ + h, rows.rows, next.rows, quads, to);
      }
    });
  }
}

void Int8DecodeValues::InOrder(const float* sums, float* to) const {
  for (int64_t d = 0; d < shape_.dim; ++d) to[d] = sums[InterleavedPlace(d)];
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif
