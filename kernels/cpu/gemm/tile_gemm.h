// Products of blocks that stay in cache, summed in f32. Attention and linear recurrence use them.
//
// A sum has a fixed order: over k = 0, 1, ... in one lane (Multiply), or as 16 interleaved sums
// that a fixed tree adds (MultiplyTransposed). The bits of an element do not depend on the tile
// that it is in, nor on how rows and columns are divided among calls.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_TILE_GEMM_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_TILE_GEMM_H_

#include <cstdint>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/lanes/simd_native.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Two neighbours of a sum over k, which a bf16 dot product instruction takes together.
struct BF16Pair {
  BF16 even;
  BF16 odd;
};

// C[r, j] = sum_k A[r, k] B[k, j], or this sum is added to C, for r < rows, j < cols, k < depth
//
// B has elements of type T. A is f32. If T is BF16Pair, A has pairs too, and the product of two
// pairs is the sum of the products of their members.
template <typename T>
struct TileGemm {
  using Factor = std::conditional_t<std::is_same_v<T, BF16Pair>, BF16Pair, float>;

  const Factor* a = nullptr;  // A[r, k] at a[r * a_row + k * a_k]
  int64_t a_row = 0;
  int64_t a_k = 0;
  const T* b = nullptr;  // B[k, j] at b[k * b_stride + j]
  int64_t b_stride = 0;
  float* c = nullptr;  // C[r, j] at c[r * c_stride + j]
  int64_t c_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t depth = 0;
  bool add = true;  // false: C is overwritten
};
void Multiply(const TileGemm<float>& product);
void Multiply(const TileGemm<F16>& product);
void Multiply(const TileGemm<BF16>& product);
#if defined(__AVX512BF16__)
void Multiply(const TileGemm<BF16Pair>& product);

// C[r, j] = sum_k A[r, k] High[k, j] + sum_k A[r, k] Low[k, j]
//
// Each of the two sums runs by itself for 64 steps of k. Then both results are added to C.
struct SplitTileGemm {
  const BF16Pair* a = nullptr;  // A[r, k] at a[r * a_row + k]
  int64_t a_row = 0;
  const BF16Pair* high = nullptr;  // High[k, j] at high[k * b_stride + j]; Low likewise
  const BF16Pair* low = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;  // C[r, j] at c[r * c_stride + j]
  int64_t c_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;  // a multiple of 16
  int64_t depth = 0;
  // Rows to prefetch: as many as A has, one after the other; nullptr: none.
  const BF16Pair* next = nullptr;
};
void Multiply(const SplitTileGemm& product);
#endif

// C[r, j] = sum_k A[r, k] B[j, k], or this sum is added to C. Rows of A and B are contiguous in k.
template <typename T>
struct TransposedTileGemm {
  const float* a = nullptr;
  int64_t a_stride = 0;
  const T* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t depth = 0;
  bool add = true;  // false: C is overwritten
};
void MultiplyTransposed(const TransposedTileGemm<float>& product);
void MultiplyTransposed(const TransposedTileGemm<F16>& product);
void MultiplyTransposed(const TransposedTileGemm<BF16>& product);

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_TILE_GEMM_H_
