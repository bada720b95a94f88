// Views of a row-major matrix of activations and of a packed weight. They own nothing.
#ifndef LONGSTREAM_KERNELS_CORE_MATRIX_H_
#define LONGSTREAM_KERNELS_CORE_MATRIX_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/dtype.h"

namespace longstream {

// Element (r, c) is at data + (r * stride + c) * SizeOf(type). CPU ops take f32 activations, CUDA
// ops bf16 or f32. Rows of keys and values may have the cache's type.
struct Matrix {
  void* data = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // in elements

  float* f32_row(int64_t row) const { return static_cast<float*>(data) + row * stride; }

  // Columns [begin, begin + count) of every row.
  Matrix Columns(int64_t begin, int64_t count) const {
    return {static_cast<std::byte*>(data) + static_cast<size_t>(begin) * SizeOf(type), type, rows,
            count, stride};
  }
  // Rows [begin, begin + count).
  Matrix Rows(int64_t begin, int64_t count) const {
    return {static_cast<std::byte*>(data) + static_cast<size_t>(begin * stride) * SizeOf(type),
            type, count, cols, stride};
  }
};

// A weight W [n, k] (n outputs, k inputs) in the layout that its kernel library reads. Only that
// library knows the layout (ops/gemm/pack.h makes it). The caller that packed the weight owns the
// bytes.
//
// In every library, a projection with a bf16 weight first rounds its input row to bf16 (nearest,
// ties to even); with an f32 or f16 weight it uses the f32 row. It sums products in f32.
//
// An int8 or int4 weight is W[c, 32 g + i] = s[c, g] * w[c, g, i] with f16 scales s (quantise.h).
// In place of a number x[32 g + i] of its input row, the projection uses t[g] * q[g, i]. Every
// library computes t and q by the same f32 operations, each rounded to nearest even. For a group g
// of x:
//
//   m = max |x| of the group;  t = m / 127;  q = round(x * (127 / m))
//   if m < 2^-100: t = 0 and q = 0;  if m is infinite or a number is NaN: t = NaN and q = 0
//   y[c] = sum_g (sum_i q[g, i] * w[c, g, i]) * t[g] * s[c, g]
//
// The inner sum is exact (int32). The outer sum is f32, in an order that depends only on n and k.
struct PackedWeight {
  const void* data = nullptr;
  DType type = DType::kF32;
  int64_t n = 0;
  int64_t k = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_MATRIX_H_
