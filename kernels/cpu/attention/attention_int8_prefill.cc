// Tiles of prefill rows over int8 pages, computed by the dot product of bytes.
#include "kernels/cpu/attention/attention_int8_prefill.h"

#if defined(__AVX512VNNI__)

#include <type_traits>

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

constexpr int64_t kVectorDims = 64;  // numbers of a register

// The sum of n numbers.
LONGSTREAM_INLINE int32_t SumOf(const int8_t* numbers, int64_t n) {
  __m512i sums = _mm512_setzero_si512();
  for (int64_t d = 0; d < n; d += kVectorDims) {
    const int64_t left = n - d;
    const __mmask64 mask = left >= kVectorDims ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    sums =
        _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(1), _mm512_maskz_loadu_epi8(mask, numbers + d));
  }
  return _mm512_reduce_add_epi32(sums);
}

// Transposes 128-bit parts: register r of the result is part r of each of the four registers, in
// their order.
LONGSTREAM_INLINE void TransposeQuarters(__m512i (&rows)[4]) {
  const __m512i low_ab = _mm512_shuffle_i32x4(rows[0], rows[1], 0x44);
  const __m512i high_ab = _mm512_shuffle_i32x4(rows[0], rows[1], 0xee);
  const __m512i low_cd = _mm512_shuffle_i32x4(rows[2], rows[3], 0x44);
  const __m512i high_cd = _mm512_shuffle_i32x4(rows[2], rows[3], 0xee);
  rows[0] = _mm512_shuffle_i32x4(low_ab, low_cd, 0x88);
  rows[1] = _mm512_shuffle_i32x4(low_ab, low_cd, 0xdd);
  rows[2] = _mm512_shuffle_i32x4(high_ab, high_cd, 0x88);
  rows[3] = _mm512_shuffle_i32x4(high_ab, high_cd, 0xdd);
}

// Calls body with min(size, kMost) as a constant.
template <int kMost, typename Body>
LONGSTREAM_INLINE void ForSize(int64_t size, const Body& body) {
  if constexpr (kMost > 1) {
    if (size < kMost) return ForSize<kMost - 1>(size, body);
  }
  body(std::integral_constant<int, kMost>{});
}

struct ScoreTileArgs {
  const uint8_t* high;  // high bytes of queries [quads, stride], four numbers each
  const uint8_t* low;
  const float* step;   // steps of queries
  const int8_t* keys;  // rows, each of a multiple of four numbers
  int64_t key_stride;
  const BF16* scales;  // scales of keys
  int64_t quads;
  int64_t stride;
  float* scores;       // [keys, stride]
  const int8_t* next;  // the same number of keys to prefetch, without gaps; nullptr: none
};

// Computes the scores of kKeys keys with 16 * kVectors queries. sums[k]: the sum of key k's numbers
template <int kKeys, int kVectors, bool kAsk>
void ScoreTile(const ScoreTileArgs& args, const int32_t* sums) {
  const auto [q_high, q_low, step, keys, key_stride, scales, quads, stride, scores, next] = args;
  __m512i high[kKeys][kVectors], low[kKeys][kVectors];
  for (int k = 0; k < kKeys; ++k) {
    for (int v = 0; v < kVectors; ++v) high[k][v] = low[k][v] = _mm512_setzero_si512();
  }
  for (int64_t quad = 0; quad < quads; ++quad) {
    const int64_t at = quad * stride * 4;
    if constexpr (kAsk) PrefetchL2(next + quad * kKeys * 4);  // prefetches at most a line a step
    __m512i key[kKeys];
    for (int k = 0; k < kKeys; ++k) key[k] = BroadcastQuad(keys + k * key_stride + quad * 4);
    for (int v = 0; v < kVectors; ++v) {
      const __m512i high_of_q = _mm512_loadu_si512(q_high + at + v * kVectorDims);
      const __m512i low_of_q = _mm512_loadu_si512(q_low + at + v * kVectorDims);
      for (int k = 0; k < kKeys; ++k) {
        high[k][v] = _mm512_dpbusd_epi32(high[k][v], high_of_q, key[k]);
        low[k][v] = _mm512_dpbusd_epi32(low[k][v], low_of_q, key[k]);
      }
    }
  }
  LONGSTREAM_UNROLL
  for (int k = 0; k < kKeys; ++k) {
    const __m512i surplus =
        _mm512_set1_epi32(static_cast<int32_t>(32768u * static_cast<uint32_t>(sums[k])));
    const __m512 scale = _mm512_set1_ps(longstream::ToF32(scales[k]));
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const __m512i both = _mm512_add_epi32(_mm512_slli_epi32(high[k][v], 8), low[k][v]);
      const __m512 total = _mm512_cvtepi32_ps(_mm512_sub_epi32(both, surplus));
      _mm512_storeu_ps(scores + k * stride + v * kLanes,
                       total * _mm512_loadu_ps(step + v * kLanes) * scale);
    }
  }
}

// Computes the scores of `count` keys, each of `dim` numbers. A score needs registers for a sum of
// high bytes and a sum of low bytes. The function computes as many scores at once as fit.
template <int kVectors>
void ScoreKeys(ScoreTileArgs args, int64_t count, int64_t dim) {
  constexpr int kAtOnce = 8 / kVectors;
  for (int64_t left = count; left > 0; left -= kAtOnce) {
    ForSize<kAtOnce>(left, [&](auto keys) {
      constexpr int kKeys = decltype(keys)::value;
      int32_t sums[kKeys];
      for (int k = 0; k < kKeys; ++k) sums[k] = SumOf(args.keys + k * args.key_stride, dim);
      if (args.next != nullptr) {
        ScoreTile<kKeys, kVectors, true>(args, sums);
        args.next += kKeys * dim;
      } else {
        ScoreTile<kKeys, kVectors, false>(args, sums);
      }
    });
    args.keys += kAtOnce * args.key_stride;
    args.scales += kAtOnce;
    args.scores += kAtOnce * args.stride;
  }
}

struct WeighTileArgs {
  const int32_t* high;  // high bytes of weights [quads, stride]
  const int32_t* low;
  const float* step;      // steps of weights
  const int32_t* values;  // [quads, kMaxHeadDim]
  int64_t quads;
  int64_t stride;
  float* sums;
  int64_t sums_stride;
};

// Adds weighted values to the sums of kRows rows, for 16 * kVectors dimensions.
template <int kRows, int kVectors>
void WeighTile(const WeighTileArgs& args) {
  const auto [w_high, w_low, step, values, quads, stride, sums, sums_stride] = args;
  __m512i high[kRows][kVectors], low[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) high[r][v] = low[r][v] = _mm512_setzero_si512();
  }
  for (int64_t quad = 0; quad < quads; ++quad) {
    __m512i value[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      value[v] = _mm512_loadu_si512(values + quad * kMaxHeadDim + v * kLanes);
    }
    for (int r = 0; r < kRows; ++r) {
      const __m512i weight_high = _mm512_set1_epi32(w_high[quad * stride + r]);
      const __m512i weight_low = _mm512_set1_epi32(w_low[quad * stride + r]);
      for (int v = 0; v < kVectors; ++v) {
        high[r][v] = _mm512_dpbusd_epi32(high[r][v], weight_high, value[v]);
        low[r][v] = _mm512_dpbusd_epi32(low[r][v], weight_low, value[v]);
      }
    }
  }
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const __m512 scale = _mm512_set1_ps(step[r]);
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      float* to = sums + r * sums_stride + v * kLanes;
      const __m512i both = _mm512_add_epi32(_mm512_slli_epi32(high[r][v], 8), low[r][v]);
      _mm512_storeu_ps(to, _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(both), _mm512_loadu_ps(to)));
    }
  }
}

}  // namespace

void Int8Blocks::ScoreRun(const Queries& queries, const RowRun& run, const int8_t* next,
                          float* scores) {
  ScoreTileArgs args = {queries.high, queries.low, queries.step,  nullptr, shape_.dim,
                        run.scales,   quads_,      shape_.stride, scores,  next};
  args.keys = reinterpret_cast<const int8_t*>(run.data);
  if (shape_.dim % 4 != 0) {  // zeros follow a row of odd width
    for (int64_t i = 0; i < run.count; ++i) {
      int8_t* row = gathered_ + i * quads_ * 4;
      __builtin_memset(row + quads_ * 4 - 4, 0, 4);
      __builtin_memcpy(row, run.data + i * run.stride, static_cast<size_t>(shape_.dim));
    }
    args.keys = gathered_;
    args.key_stride = quads_ * 4;
  }
  ForSize<kTileRows / kLanes>(shape_.stride / kLanes, [&](auto vectors) {
    ScoreKeys<decltype(vectors)::value>(args, run.count, shape_.dim);
  });
}

void Int8Blocks::WeighRows(int64_t first, int64_t rows, int64_t quads, float* sums) const {
  WeighTileArgs args = {weights_high_ + first,
                        weights_low_ + first,
                        steps_ + first,
                        interleaved_,
                        quads,
                        shape_.stride,
                        sums,
                        shape_.padded_dim()};
  ForSize<kRowsAtOnce>(rows, [&](auto num_rows) {
    for (int64_t left = shape_.padded_dim(); left > 0; left -= kVectorDims) {
      ForSize<4>(left / kLanes, [&](auto vectors) {
        WeighTile<decltype(num_rows)::value, decltype(vectors)::value>(args);
      });
      args.values += kVectorDims;
      args.sums += kVectorDims;
    }
  });
}

void Int8Blocks::Interleave(const HeadRows& values, int64_t begin, int64_t end) {
  const int64_t row = (shape_.dim + kVectorDims - 1) / kVectorDims * kVectorDims;
  const bool in_place = shape_.dim == row;
  static constexpr int8_t kZeros[kMaxHeadDim] = {};
  const int8_t* rows[kKeyBlock];
  for (int64_t i = (end - begin) / 4 * 4; i < (end - begin + 3) / 4 * 4; ++i) rows[i] = kZeros;
  ForEachRun(values, begin, end, [&](int64_t position, const RowRun& run) {
    for (int64_t i = 0; i < run.count; ++i) {
      const int64_t at = position - begin + i;
      rows[at] = reinterpret_cast<const int8_t*>(run.data + i * run.stride);
      if (in_place) continue;
      int8_t* to = gathered_ + at * row;
      __builtin_memset(to + row - kVectorDims, 0, kVectorDims);
      __builtin_memcpy(to, rows[at], static_cast<size_t>(shape_.dim));
      rows[at] = to;
    }
  });
  for (int64_t i = 0; i < end - begin; i += 4) {
    for (int64_t d = 0; d < row; d += kVectorDims) {
      __m512i four[4];
      InterleaveFour(rows[i] + d, rows[i + 1] + d, rows[i + 2] + d, rows[i + 3] + d, four);
      TransposeQuarters(four);
      int32_t* to = interleaved_ + i / 4 * kMaxHeadDim + d;
      for (int r = 0; r < 4; ++r) _mm512_store_si512(to + r * kLanes, four[r]);
    }
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif
