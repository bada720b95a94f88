// Normalise rows and project them: the entry of every mixer, and the language-model head.
//
//   h[r, :] = (Norm(x[r, :]) + addend[addend_rows[r], :]) * sigmoid(gate[r, :])
//   out[r, :] = scale * (h[r, :] W^T + bias)
//
// Each output is one sum over k in a fixed order, the same for every number of rows and threads. A
// library may sum decode rows, those of generated tokens, in another order than prefill rows.
#ifndef LONGSTREAM_KERNELS_OPS_GEMM_NORM_PROJECT_H_
#define LONGSTREAM_KERNELS_OPS_GEMM_NORM_PROJECT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/ops/gemm/norm.h"

namespace longstream {

struct NormProjectArgs {
  Matrix x;  // [R, k]; not modified
  // x is what gated_mlp has left for `weight`, its reader. REQUIRES: no norm, addend or gate
  bool prepared = false;
  Norm norm{};                           // size k; disabled: h = x
  Matrix addend{};                       // [*, k] f32, e.g. chunk embeddings; data nullptr: none
  const int32_t* addend_rows = nullptr;  // [R] device
  Matrix gate{};                         // [R, k] logits; data nullptr: no gate
  PackedWeight weight;                   // [n, k]
  const float* bias = nullptr;           // [n] f32 or nullptr
  float scale = 1.0f;
  int64_t num_decode_rows = 0;  // rows [0, num_decode_rows) of the R are decode rows
  Matrix out;                   // [R, n]; out.rows is R; does not alias x
};
using NormProjectFunction = void (*)(Stream& stream, const NormProjectArgs& args);

// Workspace in bytes that an implementation may use for R rows of k inputs: as f32, a row padded to
// 128 inputs.
constexpr size_t NormProjectWorkspace(int64_t rows, int64_t k) {
  return static_cast<size_t>(rows) * ((static_cast<size_t>(k) + 127) / 128 * 128 * 4);
}

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_GEMM_NORM_PROJECT_H_
