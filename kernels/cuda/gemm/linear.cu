// The linear op: a product with operations before and after it (kernels/ops/gemm/linear.h).
//
// Decode rows run as GEMV, prefill rows by cuBLASLt or as prefill_without_library.cuh says. With
// int8 and int4 weights all rows run as GEMV. The kind of row and the weight alone decide this. An
// activation without a second weight is a kernel of its own. A call that prepares rows for a reader
// leaves f32 rows; the next product prepares them for itself.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/gemm/activation.cuh"
#include "kernels/cuda/gemm/fused_product.cuh"
#include "kernels/cuda/gemm/gated_product.h"
#include "kernels/cuda/gemm/prefill_product.h"
#include "kernels/cuda/gemm/prefill_without_library.cuh"
#include "kernels/cuda/gemm/prepared_rows.h"
#include "kernels/cuda/gemm/product.cuh"
#include "kernels/cuda/gemm/weight.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/ops/gemm/linear.h"

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

__global__ void __launch_bounds__(kThreads) ActivateKernel(Matrix out, Activation activation) {
  BeginKernel();
  const int64_t column = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (column >= out.cols) return;
  float* value = static_cast<float*>(out.data) + blockIdx.x * out.stride + column;
  *value = Activated(activation, *value);
}

// Returns false if cuBLASLt does not serve the product.
bool PrefillBF16(Stream& stream, const LinearArgs& args, const PreparedRows& rows) {
  const PackedWeight& weight = args.in.weight();
  const Matrix& out = args.out.rows();
  const PrefillProductArgs product = {.rows = rows,
                                      .first_row = args.num_decode_rows,
                                      .weight = weight,
                                      .alpha = args.scale,
                                      .beta = args.accumulate ? 1.0f : 0.0f,
                                      .out = out};
  if (!PrefillProduct(stream, product)) return false;
  if (args.bias == nullptr) return true;
  const auto num_rows = static_cast<unsigned>(rows.num_rows - args.num_decode_rows);
  Launch(stream, {{num_rows, CeilDiv(weight.n, kThreads)}, kThreads}, AddBiasKernel, out, args.bias,
         args.scale, args.num_decode_rows);
  return true;
}

// out[r, :] = scale * (h[r] W^T + bias), or this is added to `out`.
void Product(Stream& stream, const LinearArgs& args) {
  const PackedWeight& weight = args.in.weight();
  const Matrix& out = args.out.rows();
  const LinearEpilogue epilogue = {static_cast<float*>(out.data), out.stride, args.bias, args.scale,
                                   args.accumulate};
  const int64_t num_gemv = IsQuantised(weight.type) ? out.rows : args.num_decode_rows;
  ProductOperands<1> operands = {.num_rows = num_gemv,
                                 .weights = {weight.data},
                                 .n = weight.n,
                                 .stride = WeightStride(weight.type, weight.k)};
  const RowSource source = {args.in.rows(), out.rows};
  const PreparedRows rows = MultiplyRows(stream, source, weight, operands, epilogue);

  if (num_gemv == out.rows) return;
  if (weight.type == DType::kBF16 && PrefillBF16(stream, args, rows)) return;
  operands.first_row = args.num_decode_rows;
  operands.num_rows = out.rows - args.num_decode_rows;
  PrefillWithoutLibrary(stream, weight.type, operands, epilogue);
}

}  // namespace

void Linear(Stream& stream, const LinearArgs& args) {
  const Matrix& out = args.out.rows();
  if (!args.IsServed() ||
      stream.workspace_bytes < LinearWorkspace(out.rows, args.in.weight().k, args.up.n)) {
    return stream.Fail(OpStatus::kUnsupported);
  }
  if (args.up.n > 0) return GatedProduct(stream, args);
  Product(stream, args);
  if (args.activation == Activation::kNone) return;
  Launch(stream, {{static_cast<unsigned>(out.rows), CeilDiv(out.cols, kThreads)}, kThreads},
         ActivateKernel, out, args.activation);
}

}  // namespace longstream::cuda
