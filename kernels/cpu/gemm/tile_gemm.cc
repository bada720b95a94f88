// Register-blocked products of small blocks.
#include "kernels/cpu/gemm/tile_gemm.h"

#include <algorithm>

#include "kernels/cpu/simd/equal_parts.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// The shapes of tiles: rows times vectors of 16 sums, which stay in registers. For few rows the
// tiles are wider, and for few columns they are taller, with at most kMostSums vectors of sums. So
// there are always enough sums in flight to hide the latency of the multiply-add.
#if defined(__AVX512F__) && defined(__SANITIZE_ADDRESS__)  // GCC takes 12 minutes for larger tiles
constexpr int kTileRows = 3;
constexpr int kTileVectors = 2;
constexpr int kFewRows = 2;
constexpr int kFewRowsVectors = 3;
constexpr int kMostSums = 6;
constexpr int kDotRows = 2;
#elif defined(__AVX512F__)  // 32 registers; a vector takes 1
constexpr int kTileRows = 6;
constexpr int kTileVectors = 4;
constexpr int kFewRows = 2;
constexpr int kFewRowsVectors = 8;
constexpr int kMostSums = 24;
constexpr int kDotRows = 4;
#elif defined(__AVX2__)     // 16 registers; a vector takes 2
constexpr int kTileRows = 6;
constexpr int kTileVectors = 1;
constexpr int kFewRows = 1;
constexpr int kFewRowsVectors = 4;
constexpr int kMostSums = 6;
constexpr int kDotRows = 1;
#else                       // 16 registers; a vector takes 4
constexpr int kTileRows = 2;
constexpr int kTileVectors = 1;
constexpr int kFewRows = 1;
constexpr int kFewRowsVectors = 2;
constexpr int kMostSums = 2;
constexpr int kDotRows = 1;
#endif
// The columns of a tile of MultiplyTransposed. SumsOfFour adds the lanes of so many sums at a time.
constexpr int kDotCols = 4;

// The steps of k between two visits of the same sums. Many rows reuse a block of B: 64 steps of 4
// vectors of f32, a third of a first-level cache. Few rows stream B in long runs of columns.
constexpr int64_t kDepthOfManyRows = 64;
constexpr int64_t kDepthOfFewRows = 16;

// Few rows stream B from memory, and prefetch it this many rows of B ahead. The pages of a cache
// are short runs, and the processor's own prefetcher starts anew at the beginning of each. (On rows
// of 256 bytes, the prefetch took a fifth less time than none; 4 and 16 rows ahead gained less.)
constexpr int64_t kPrefetchRows = 8;

// How 16 elements of B are read, and multiplied with one element of A.
template <typename T>
struct Format {
  using Vector = F32x16;

  template <typename Access>
  LONGSTREAM_INLINE static Vector Read(const T* from, const Access& access) {
    return access.Read(from);
  }
  LONGSTREAM_INLINE static F32x16 MultiplyAdd(const float* a, const Vector& b, F32x16 sum) {
    return Fma(Broadcast(*a), b, sum);
  }
};

#if defined(__AVX512BF16__)
template <>
struct Format<BF16Pair> {
  using Vector = I32x16;

  LONGSTREAM_INLINE static Vector Read(const BF16Pair* from, const Whole&) {
    return Load(reinterpret_cast<const int32_t*>(from));
  }
  LONGSTREAM_INLINE static Vector Read(const BF16Pair* from, const Part& part) {
    int32_t pairs[kLanes] = {};
    __builtin_memcpy(pairs, from, static_cast<size_t>(part.count) * sizeof(BF16Pair));
    return Load(pairs);
  }
  LONGSTREAM_INLINE static F32x16 MultiplyAdd(const BF16Pair* a, const Vector& b, F32x16 sum) {
    int32_t pair;
    __builtin_memcpy(&pair, a, sizeof(pair));
    sum.part[0] = _mm512_dpbf16_ps(sum.part[0], reinterpret_cast<__m512bh>(NativeBroadcast(pair)),
                                   reinterpret_cast<__m512bh>(b.part[0]));
    return sum;
  }
};
#endif

// The shape of the tiles of a product, and whether the product streams B.
template <int kRowsOfTile, int kVectorsOfTile, bool kStreamsB>
struct Tiling {
  static constexpr int kRows = kRowsOfTile;
  static constexpr int kVectors = kVectorsOfTile;
  static constexpr bool kStreams = kStreamsB;
};

// Multiplies kRows rows with kVectors vectors. The last vector is read and written through
// `access`.
template <int kRows, int kVectors, bool kStreams, typename T, typename Access>
LONGSTREAM_INLINE void Tile(const TileGemm<T>& product, const Access& access) {
  // The operands are copied, so that the compiler knows that stores do not change them.
  const auto* a = product.a;
  const T* b = product.b;
  float* c = product.c;
  const int64_t a_row = product.a_row;
  const int64_t a_k = product.a_k;
  const int64_t b_stride = product.b_stride;
  const int64_t c_stride = product.c_stride;
  // All loops over the sums must be unrolled. Otherwise the sums go through the stack before and
  // after the loop over k.
  F32x16 sum[kRows][kVectors];
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Zero();
  }
  if (product.add) {
    LONGSTREAM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      LONGSTREAM_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = access.Read(c + r * c_stride + v * kLanes);
    }
  }
  for (int64_t k = 0; k < product.depth; ++k) {
    typename Format<T>::Vector vectors[kVectors];
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      vectors[v] = Format<T>::Read(b + k * b_stride + v * kLanes, access);
      if constexpr (kStreams) __builtin_prefetch(b + (k + kPrefetchRows) * b_stride + v * kLanes);
    }
    LONGSTREAM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      LONGSTREAM_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = Format<T>::MultiplyAdd(a + r * a_row + k * a_k, vectors[v], sum[r][v]);
      }
    }
  }
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) access.Write(sum[r][v], c + r * c_stride + v * kLanes);
  }
}

// Tiles are inlined, because a function that has used vectors ends with vzeroupper, which waits for
// these vectors.
template <int kRows, int kVectors, bool kStreams, typename T, typename Access>
LONGSTREAM_INLINE void TileOf(int64_t rows, const TileGemm<T>& product, const Access& access) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return TileOf<kRows - 1, kVectors, kStreams>(rows, product, access);
  }
  Tile<kRows, kVectors, kStreams>(product, access);
}

// Multiplies all rows with a strip of kVectors vectors.
template <typename Tiling, int kVectors, typename T, typename Access>
void Strip(TileGemm<T> product, const Access& access) {
  const EqualParts tiles(product.rows, Tiling::kRows);
  for (int64_t t = 0; t < tiles.count; ++t) {
    const int64_t rows = tiles.size(t);
    TileOf<Tiling::kRows, kVectors, Tiling::kStreams>(rows, product, access);
    product.a += rows * product.a_row;
    product.c += rows * product.c_stride;
  }
}

// Multiplies all rows with a strip of `vectors` whole vectors; vectors <= kVectors.
template <int kVectors, typename T>
void NarrowStrip(int64_t vectors, const TileGemm<T>& product) {
  if constexpr (kVectors > 1) {
    if (vectors < kVectors) return NarrowStrip<kVectors - 1>(vectors, product);
  }
  constexpr int kTall = kMostSums / kVectors < 16 ? kMostSums / kVectors : 16;
  Strip<Tiling<kTall, kVectors, false>, kVectors>(product, Whole{});
}

// Computes all columns, `block` steps of k at a time.
template <typename Tiling, typename T>
void Blocks(TileGemm<T> product, int64_t block) {
  constexpr int64_t kWide = Tiling::kVectors * kLanes;
  const auto strip_at = [&](int64_t column) {
    TileGemm<T> strip = product;
    strip.b += column;
    strip.c += column;
    return strip;
  };
  for (int64_t left = product.depth; left > 0; left -= product.depth) {
    product.depth = left < block ? left : block;
    int64_t c = 0;
    for (; c + kWide <= product.cols; c += kWide) {
      Strip<Tiling, Tiling::kVectors>(strip_at(c), Whole{});
    }
    if constexpr (!Tiling::kStreams && Tiling::kVectors > 1) {
      const int64_t vectors = (product.cols - c) / kLanes;
      if (vectors > 0) NarrowStrip<Tiling::kVectors - 1>(vectors, strip_at(c));
      c += vectors * kLanes;
    }
    for (; c + kLanes <= product.cols; c += kLanes) Strip<Tiling, 1>(strip_at(c), Whole{});
    if (c < product.cols) Strip<Tiling, 1>(strip_at(c), Part{product.cols - c});
    product.a += product.depth * product.a_k;
    product.b += product.depth * product.b_stride;
    product.add = true;
  }
}

template <typename T>
void MultiplyBlocks(const TileGemm<T>& product) {
  if (product.rows <= kFewRows) {
    Blocks<Tiling<kFewRows, kFewRowsVectors, true>>(product, kDepthOfFewRows);
  } else if (product.rows <= kTileRows) {
    Blocks<Tiling<kTileRows, kTileVectors, true>>(product, kDepthOfFewRows);
  } else {
    Blocks<Tiling<kTileRows, kTileVectors, false>>(product, kDepthOfManyRows);
  }
}

#if defined(__AVX512BF16__)

// The vectors of a tile of a split product. A tile has 24 vectors of sums in registers. With more
// vectors of High and of Low beside the sums there would be too few registers.
constexpr int kSplitVectors = 2;

// Multiplies kRows rows with kVectors vectors of High and of Low. Both kinds of sums stay in
// registers.
template <int kRows, int kVectors, bool kAsk>
LONGSTREAM_INLINE void SplitTile(const SplitTileGemm& product, bool add) {
  using F = Format<BF16Pair>;
  // The operands are copied, so that the compiler knows that stores do not change them.
  const auto [a, a_row, high, low, b_stride, c, c_stride, rows, cols, depth, next] = product;
  F32x16 high_sum[kRows][kVectors], low_sum[kRows][kVectors];
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) high_sum[r][v] = low_sum[r][v] = Zero();
  }
  for (int64_t k = 0; k < depth; ++k) {
    // kRows is at most 12, so this prefetches at most a line in each step.
    if constexpr (kAsk) PrefetchL2(next + k * kRows);
    I32x16 high_vectors[kVectors], low_vectors[kVectors];
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      high_vectors[v] = F::Read(high + k * b_stride + v * kLanes, Whole{});
      low_vectors[v] = F::Read(low + k * b_stride + v * kLanes, Whole{});
    }
    LONGSTREAM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const BF16Pair* factor = a + r * a_row + k;
      LONGSTREAM_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        high_sum[r][v] = F::MultiplyAdd(factor, high_vectors[v], high_sum[r][v]);
        low_sum[r][v] = F::MultiplyAdd(factor, low_vectors[v], low_sum[r][v]);
      }
    }
  }
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + r * c_stride + v * kLanes;
      const F32x16 sum = high_sum[r][v] + low_sum[r][v];
      Store(add ? Load(to) + sum : sum, to);
    }
  }
}

template <int kRows, int kVectors>
LONGSTREAM_INLINE void SplitTileOf(int64_t rows, const SplitTileGemm& product, bool add) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return SplitTileOf<kRows - 1, kVectors>(rows, product, add);
  }
  if (product.next == nullptr) return SplitTile<kRows, kVectors, false>(product, add);
  SplitTile<kRows, kVectors, true>(product, add);
}

// Multiplies all rows with at most kVectors vectors of columns.
template <int kVectors>
void SplitStrip(SplitTileGemm product, bool add) {
  if constexpr (kVectors > 1) {
    if (product.cols < kVectors * kLanes) return SplitStrip<kVectors - 1>(product, add);
  }
  constexpr int kTall = kMostSums / 2 / kVectors;
  const EqualParts tiles(product.rows, kTall);
  for (int64_t t = 0; t < tiles.count; ++t) {
    const int64_t rows = tiles.size(t);
    SplitTileOf<kTall, kVectors>(rows, product, add);
    product.a += rows * product.a_row;
    product.c += rows * product.c_stride;
    if (product.next != nullptr) product.next += rows * product.depth;
  }
}

#endif

// Adds the lanes of each of four vectors in the same order as Sum.
LONGSTREAM_INLINE __m128 SumsOfFour(const F32x16& a, const F32x16& b, const F32x16& c,
                                    const F32x16& d) {
  const __m128 a4 = NativeSumToFour(a.part), b4 = NativeSumToFour(b.part);
  const __m128 c4 = NativeSumToFour(c.part), d4 = NativeSumToFour(d.part);
  const __m128 ab = _mm_unpacklo_ps(a4, b4) + _mm_unpackhi_ps(a4, b4);  // a0+a2 b0+b2 a1+a3 b1+b3
  const __m128 cd = _mm_unpacklo_ps(c4, d4) + _mm_unpackhi_ps(c4, d4);
  return _mm_movelh_ps(ab, cd) + _mm_movehl_ps(cd, ab);
}

// Multiplies kRows rows with kCols columns.
template <int kRows, int kCols, typename T>
void DotTile(const TransposedTileGemm<T>& product) {
  const float* a = product.a;
  const T* b = product.b;
  const int64_t a_stride = product.a_stride;
  const int64_t b_stride = product.b_stride;
  F32x16 sum[kRows][kCols];
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LONGSTREAM_UNROLL
    for (int c = 0; c < kCols; ++c) sum[r][c] = Zero();
  }
  ForEachRowVector(product.depth, [&](int64_t k, const auto& access) LONGSTREAM_INLINE_LAMBDA {
    F32x16 columns[kCols];
    LONGSTREAM_UNROLL
    for (int c = 0; c < kCols; ++c) {
      columns[c] = access.Read(b + c * b_stride + k);
      __builtin_prefetch(b + (c + kPrefetchRows) * b_stride + k);
    }
    LONGSTREAM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const F32x16 row = access.Read(a + r * a_stride + k);
      LONGSTREAM_UNROLL
      for (int c = 0; c < kCols; ++c) sum[r][c] = Fma(row, columns[c], sum[r][c]);
    }
  });
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    float* to = product.c + r * product.c_stride;
    if constexpr (kCols == kDotCols) {
      const __m128 sums = SumsOfFour(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
      _mm_storeu_ps(to, product.add ? _mm_loadu_ps(to) + sums : sums);
    } else {
      LONGSTREAM_UNROLL
      for (int c = 0; c < kCols; ++c) to[c] = product.add ? to[c] + Sum(sum[r][c]) : Sum(sum[r][c]);
    }
  }
}

template <int kRows, typename T>
void DotStrip(int64_t rows, TransposedTileGemm<T> product) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return DotStrip<kRows - 1>(rows, product);
  }
  int64_t c = 0;
  for (; c + kDotCols <= product.cols; c += kDotCols) {
    DotTile<kRows, kDotCols>(product);
    product.b += kDotCols * product.b_stride;
    product.c += kDotCols;
  }
  for (; c < product.cols; ++c) {
    DotTile<kRows, 1>(product);
    product.b += product.b_stride;
    product.c += 1;
  }
}

template <typename T>
void MultiplyTransposedBlocks(TransposedTileGemm<T> product) {
  int64_t left = product.rows;
  while (left > 0) {
    const int64_t rows = left < kDotRows ? left : kDotRows;
    DotStrip<kDotRows>(rows, product);
    product.a += rows * product.a_stride;
    product.c += rows * product.c_stride;
    left -= rows;
  }
}

}  // namespace

void Multiply(const TileGemm<float>& product) { MultiplyBlocks(product); }
void Multiply(const TileGemm<F16>& product) { MultiplyBlocks(product); }
void Multiply(const TileGemm<BF16>& product) { MultiplyBlocks(product); }
#if defined(__AVX512BF16__)
void Multiply(const TileGemm<BF16Pair>& product) { MultiplyBlocks(product); }

void Multiply(const SplitTileGemm& product) {
  SplitTileGemm part = product;
  for (int64_t k = 0; k < product.depth; k += part.depth) {
    part.depth = std::min(product.depth - k, kDepthOfManyRows);
    part.a = product.a + k;
    for (int64_t c = 0; c < product.cols; c += part.cols) {
      part.cols = std::min<int64_t>(product.cols - c, kSplitVectors * kLanes);
      part.high = product.high + k * product.b_stride + c;
      part.low = product.low + k * product.b_stride + c;
      part.c = product.c + c;
      // The rows at `next` are prefetched once, by the first columns. Each part of k prefetches a
      // part of them.
      part.next = c == 0 && product.next != nullptr ? product.next + k * product.rows : nullptr;
      SplitStrip<kSplitVectors>(part, k > 0);
    }
  }
}
#endif

void MultiplyTransposed(const TransposedTileGemm<float>& product) {
  MultiplyTransposedBlocks(product);
}
void MultiplyTransposed(const TransposedTileGemm<F16>& product) {
  MultiplyTransposedBlocks(product);
}
void MultiplyTransposed(const TransposedTileGemm<BF16>& product) {
  MultiplyTransposedBlocks(product);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
