// Decode rows by skinny products, prefill rows by tiled ones or cuBLASLt, all rows of int8 and int4
// weights by skinny products. Which of them a row gets depends on the row and the weight alone.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear_projection.h"
#include "kernels/cuda/overlap.cuh"
#include "kernels/cuda/prefill_product.h"
#include "kernels/cuda/product.cuh"
#include "kernels/cuda/skinny_product.cuh"
#include "kernels/cuda/tiled_product.cuh"

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

void PrefillBF16(Stream& stream, const LinearProjectionArgs& args, int64_t num_rows) {
  PrefillProduct(stream, {.rows = args.rows,
                          .first_row = args.num_decode_rows,
                          .weight = args.weight,
                          .alpha = args.scale,
                          .beta = args.accumulate ? 1.0f : 0.0f,
                          .out = args.y});
  if (args.bias == nullptr) return;
  Launch(stream, {{static_cast<unsigned>(num_rows), CeilDiv(args.weight.n, kThreads)}, kThreads},
         AddBiasKernel, args.y, args.bias, args.scale, args.num_decode_rows);
}

}  // namespace

void LinearProjection(Stream& stream, const LinearProjectionArgs& args) {
  const LinearEpilogue epilogue = {static_cast<float*>(args.y.data), args.y.stride, args.bias,
                                   args.scale, args.accumulate};
  const bool all_skinny = IsQuantised(args.weight.type);
  ProductOperands<1> operands = {.rows = args.rows.data,
                                 .scales = args.rows.scales,
                                 .first_row = 0,
                                 .num_rows = all_skinny ? args.rows.num_rows : args.num_decode_rows,
                                 .weights = {args.weight.data},
                                 .n = args.weight.n,
                                 .stride = args.rows.stride};
  SkinnyProduct(stream, args.weight.type, operands, epilogue);

  const int64_t num_prefill_rows = args.rows.num_rows - args.num_decode_rows;
  if (num_prefill_rows == 0 || all_skinny) return;
  if (args.weight.type == DType::kBF16) return PrefillBF16(stream, args, num_prefill_rows);
  operands.first_row = args.num_decode_rows;
  operands.num_rows = num_prefill_rows;
  TiledProduct(stream, args.weight.type, operands, epilogue);
}

}  // namespace longstream::cuda
