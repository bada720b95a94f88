// Preparation of rows and their projection by one weight: norm_project, project_residual and an MLP
// without a gate.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_LINEAR_PROJECTION_H_
#define LONGSTREAM_KERNELS_CUDA_GEMM_LINEAR_PROJECTION_H_

#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/cuda/gemm/prepared_rows.h"

namespace longstream::cuda {

// y[r, :] = scale * (h[r] W^T + bias), or added to y.
struct LinearProjectionArgs {
  RowSource source;             // of h
  int64_t num_decode_rows = 0;  // rows [0, num_decode_rows) are decode rows
  PackedWeight weight;          // [n, k]
  const float* bias = nullptr;  // [n] f32 or nullptr
  float scale = 1.0f;
  bool accumulate = false;  // add to y
  Matrix y;                 // [source.num_rows, n] f32
};
// Fails the stream where the workspace has less than NormProjectWorkspace(num_rows, k).
void LinearProjection(Stream& stream, const LinearProjectionArgs& args);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_LINEAR_PROJECTION_H_
