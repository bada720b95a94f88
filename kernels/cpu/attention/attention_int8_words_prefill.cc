// Tiles of prefill rows over int8 pages, computed by the dot product of words. It multiplies pairs
// of 16-bit numbers and adds the products to sums of 32 bits.
#include <cstdint>

#include "kernels/cpu/attention/attention_int8_prefill.h"

#if defined(__AVX2__) && !defined(__AVX512VNNI__)

#include "kernels/cpu/simd/equal_parts.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

constexpr int64_t kHalf = 8;        // sums of a register
constexpr int kRowsAtOnce = 6;      // rows of a tile, with two registers of sums each
constexpr int64_t kChunk = kLanes;  // numbers that are widened at once

// total[r, c] = sum_k A[r, k] . B[k, c], where each element of A and of B is a pair of words
struct PairProduct {
  const int32_t* a;  // A[r, k] at a[r * a_row + k * a_k]
  int64_t a_row;
  int64_t a_k;
  const int32_t* b;  // B[k, c] at b[k * b_stride + c]
  int64_t b_stride;
  int64_t rows;
  int64_t cols;  // a multiple of 16
  int64_t depth;
};

LONGSTREAM_INLINE __m256i LoadPairs(const int32_t* from) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
}

// Multiplies 16 columns of kRows rows. Calls end(r, h, total) for columns [8 h, 8 h + 8) of each
// row.
template <int kRows, typename End>
LONGSTREAM_INLINE void Tile(const PairProduct& product, const End& end) {
  // The operands are copied, so that the compiler knows that stores do not change them.
  const auto [a, a_row, a_k, b, b_stride, rows, cols, depth] = product;
  __m256i total[kRows][2];
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) total[r][0] = total[r][1] = _mm256_setzero_si256();
  for (int64_t k = 0; k < depth; ++k) {
    const __m256i lower = LoadPairs(b + k * b_stride);
    const __m256i upper = LoadPairs(b + k * b_stride + kHalf);
    LONGSTREAM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m256i factor = _mm256_set1_epi32(a[r * a_row + k * a_k]);
      total[r][0] = AddPairs(total[r][0], factor, lower);
      total[r][1] = AddPairs(total[r][1], factor, upper);
    }
  }
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LONGSTREAM_UNROLL
    for (int h = 0; h < 2; ++h) end(r, h * kHalf, total[r][h]);
  }
}

template <int kRows, typename End>
LONGSTREAM_INLINE void TileOf(int64_t rows, const PairProduct& product, const End& end) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return TileOf<kRows - 1>(rows, product, end);
  }
  Tile<kRows>(product, end);
}

// Multiplies the matrices. Calls end(r, c, total) for each row r and 8 columns from c on.
template <typename End>
LONGSTREAM_INLINE void Multiply(const PairProduct& product, const End& end) {
  const EqualParts tiles(product.rows, kRowsAtOnce);
  for (int64_t c = 0; c < product.cols; c += 2 * kHalf) {
    PairProduct tile = product;
    tile.b += c;
    int64_t first = 0;
    for (int64_t t = 0; t < tiles.count; ++t) {
      TileOf<kRowsAtOnce>(tiles.size(t), tile,
                          [&](int64_t r, int64_t h, const __m256i& total) LONGSTREAM_INLINE_LAMBDA {
                            end(first + r, c + h, _mm256_cvtepi32_ps(total));
                          });
      tile.a += tiles.size(t) * product.a_row;
      first += tiles.size(t);
    }
  }
}

// The first `left` of 16 numbers of a row, followed by zeros.
LONGSTREAM_INLINE __m128i LoadNumbers(const std::byte* from, int64_t left) {
  if (left >= kChunk) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  alignas(16) std::byte some[kChunk] = {};
  __builtin_memcpy(some, from, static_cast<size_t>(left));
  return _mm_load_si128(reinterpret_cast<const __m128i*>(some));
}
// Stores 16 numbers as 8 pairs of words.
LONGSTREAM_INLINE void StoreWords(const __m128i& numbers, int32_t* to) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm256_cvtepi8_epi16(numbers));
}

}  // namespace

void WordsBlocks::Widen(const HeadRows& keys, int64_t begin, int64_t end) {
  LoadInt8Scales(keys, begin, end, key_scales_);
  ForEachRun(keys, begin, end, [&](int64_t position, const RowRun& run) {
    const int64_t row_pairs = shape_.padded_dim() / 2;
    int32_t* to = key_pairs_ + (position - begin) * row_pairs;
    for (int64_t i = 0; i < run.count; ++i, to += row_pairs) {
      const std::byte* row = run.data + i * run.stride;
      for (int64_t d = 0; d < shape_.dim; d += kChunk) {
        StoreWords(LoadNumbers(row + d, shape_.dim - d), to + d / 2);
      }
    }
  });
}

void WordsBlocks::ScoreRows(const Queries& queries, int64_t num_keys, float* scores) const {
  const PairProduct product = {.a = key_pairs_,
                               .a_row = shape_.padded_dim() / 2,
                               .a_k = 1,
                               .b = queries.pairs,
                               .b_stride = shape_.stride,
                               .rows = num_keys,
                               .cols = shape_.stride,
                               .depth = pairs_};
  Multiply(product, [&](int64_t j, int64_t r, const __m256& total) LONGSTREAM_INLINE_LAMBDA {
    const __m256 unscaled = total * _mm256_load_ps(queries.step + r);
    _mm256_store_ps(scores + j * shape_.stride + r, unscaled * _mm256_set1_ps(key_scales_[j]));
  });
}

void WordsBlocks::Interleave(const HeadRows& values, int64_t begin, int64_t end) {
  static constexpr std::byte kZeros[kMaxHeadDim] = {};
  const std::byte* rows[kKeyBlock];
  rows[(end - begin + 1) / 2 * 2 - 1] = kZeros;
  ForEachRun(values, begin, end, [&](int64_t position, const RowRun& run) {
    for (int64_t i = 0; i < run.count; ++i) rows[position - begin + i] = run.data + i * run.stride;
  });
  int32_t* to = interleaved_;
  for (int64_t j = 0; j < end - begin; j += 2, to += shape_.padded_dim()) {
    for (int64_t d = 0; d < shape_.dim; d += kChunk) {
      const __m128i even = LoadNumbers(rows[j] + d, shape_.dim - d);
      const __m128i odd = LoadNumbers(rows[j + 1] + d, shape_.dim - d);
      StoreWords(_mm_unpacklo_epi8(even, odd), to + d);
      StoreWords(_mm_unpackhi_epi8(even, odd), to + d + kHalf);
    }
  }
}

void WordsBlocks::WeighRows(int64_t num_pairs, float* sums) const {
  const PairProduct product = {.a = weights_,
                               .a_row = 1,
                               .a_k = shape_.stride,
                               .b = interleaved_,
                               .b_stride = shape_.padded_dim(),
                               .rows = shape_.rows,
                               .cols = shape_.padded_dim(),
                               .depth = num_pairs};
  Multiply(product, [&](int64_t r, int64_t d, const __m256& total) LONGSTREAM_INLINE_LAMBDA {
    float* to = sums + r * shape_.padded_dim() + d;
    _mm256_store_ps(to, _mm256_fmadd_ps(_mm256_set1_ps(steps_[r]), total, _mm256_load_ps(to)));
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif
