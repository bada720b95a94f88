// The rows that a projection multiplies with its weight, normalised and gated once for all outputs.
#ifndef LONGSTREAM_KERNELS_CPU_PREPARED_ROWS_H_
#define LONGSTREAM_KERNELS_CPU_PREPARED_ROWS_H_

#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/quantise.h"
#include "kernels/core/stream.h"
#include "kernels/cpu/simd.h"
#include "kernels/ops/norm.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// The type in which rows meet a bf16 weight: its bits where there is a bf16 dot product, else f32
// that holds a number rounded to bf16. Rows for f32 and f16 weights are f32.
#if defined(__AVX512BF16__)
using BF16Activation = BF16;
#else
using BF16Activation = float;
#endif

// 32 inputs of a row for an int8 or int4 weight: h[i] ~ scale * values[i] (core/matrix.h).
struct RowGroup {
  int8_t values[kGroupInputs];
  float scale;
  int32_t sum;  // of the values
};

// What h is made of: h[r] = (Norm(x[rows[r]]) + addend[addend_rows[r]]) * sigmoid(gate[r]),
// or the same with silu(x) = x sigmoid(x).
struct RowSource {
  Matrix x;
  int64_t num_rows = 0;
  const int32_t* rows = nullptr;  // nullptr: r
  Norm norm;
  Matrix addend;
  const int32_t* addend_rows = nullptr;
  Matrix gate;
  bool silu_gate = false;
};

// For a bf16 weight an odd k is followed by a zero. An element is a RowGroup for an int8 or int4
// weight.
struct PreparedRows {
  const void* data = nullptr;
  int64_t stride = 0;  // in elements

  template <typename T>
  LONGSTREAM_INLINE const T* row(int64_t r) const {
    return static_cast<const T*>(data) + r * stride;
  }
};

// Prepares the rows for a weight of this type and k inputs, in the stream's workspace
// (NormProjectWorkspace), or returns x itself where nothing is to be done. Fails the stream where
// the workspace is too small.
PreparedRows PrepareRows(Stream& stream, const RowSource& source, DType weight_type, int64_t k);

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_PREPARED_ROWS_H_
