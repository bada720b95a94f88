// Decode rows by GEMV, prefill rows by tiled ones or cuBLASLt, all rows of int8 and int4
// weights by GEMV. Which of them a row gets depends on the row and the weight alone.
#include "kernels/cuda/gemm/fused_product.cuh"
#include "kernels/cuda/gemm/linear_projection.h"
#include "kernels/cuda/gemm/prefill_product.h"
#include "kernels/cuda/gemm/prepared_rows.h"
#include "kernels/cuda/gemm/product.cuh"
#include "kernels/cuda/gemm/tiled_product.cuh"
#include "kernels/cuda/gemm/weight.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/ops/gemm/norm_project.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 256;

struct LinearEpilogue {
  float* y;
  int64_t stride;
  const float* bias;
  float scale;
  bool accumulate;

  __device__ void operator()(int64_t row, int64_t column, const float (&sums)[1]) const {
    float* out = y + row * stride + column;
    const float sum = bias == nullptr ? sums[0] : sums[0] + bias[column];
    *out = accumulate ? __fmaf_rn(scale, sum, *out) : scale * sum;
  }
};

// y[r, :] += scale * bias
__global__ void __launch_bounds__(kThreads)
    AddBiasKernel(Matrix y, const float* bias, float scale, int64_t first_row) {
  BeginKernel();
  const int64_t column = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (column >= y.cols) return;
  const int64_t row = first_row + blockIdx.x;
  float* out = static_cast<float*>(y.data) + row * y.stride + column;
  *out = __fmaf_rn(scale, bias[column], *out);
}

void PrefillBF16(Stream& stream, const LinearProjectionArgs& args, const PreparedRows& rows) {
  PrefillProduct(stream, {.rows = rows,
                          .first_row = args.num_decode_rows,
                          .weight = args.weight,
                          .alpha = args.scale,
                          .beta = args.accumulate ? 1.0f : 0.0f,
                          .out = args.y});
  if (args.bias == nullptr) return;
  const auto num_rows = static_cast<unsigned>(rows.num_rows - args.num_decode_rows);
  Launch(stream, {{num_rows, CeilDiv(args.weight.n, kThreads)}, kThreads}, AddBiasKernel, args.y,
         args.bias, args.scale, args.num_decode_rows);
}

}  // namespace

void LinearProjection(Stream& stream, const LinearProjectionArgs& args) {
  const PackedWeight& weight = args.weight;
  const int64_t num_rows = args.source.num_rows;
  if (stream.workspace_bytes < NormProjectWorkspace(num_rows, weight.k)) {
    return stream.Fail(OpStatus::kUnsupported);
  }
  const LinearEpilogue epilogue = {static_cast<float*>(args.y.data), args.y.stride, args.bias,
                                   args.scale, args.accumulate};
  const int64_t num_gemv = IsQuantised(weight.type) ? num_rows : args.num_decode_rows;
  ProductOperands<1> operands = {.num_rows = num_gemv,
                                 .weights = {weight.data},
                                 .n = weight.n,
                                 .stride = WeightStride(weight.type, weight.k)};
  const PreparedRows rows = MultiplyRows(stream, args.source, weight, operands, epilogue);

  if (num_gemv == num_rows) return;
  if (weight.type == DType::kBF16) return PrefillBF16(stream, args, rows);
  operands.first_row = args.num_decode_rows;
  operands.num_rows = num_rows - args.num_decode_rows;
  TiledProduct(stream, weight.type, operands, epilogue);
}

}  // namespace longstream::cuda
