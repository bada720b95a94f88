// The gated half of an MLP. See kernels/ops/gemm/gated_mlp.h.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/gemm/fused_product.cuh"
#include "kernels/cuda/gemm/linear_projection.h"
#include "kernels/cuda/gemm/prefill_product.h"
#include "kernels/cuda/gemm/prepared_rows.h"
#include "kernels/cuda/gemm/product.cuh"
#include "kernels/cuda/gemm/tiled_product.cuh"
#include "kernels/cuda/gemm/weight.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/ops/gemm/gated_mlp.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float Activated(Activation activation, float x) {
  if (activation == Activation::kGelu) return 0.5f * x * (1.0f + erff(kSqrtHalf * x));
  const float exponent =
      activation == Activation::kSilu ? x : kGeluSlope * x * (1.0f + kGeluCubic * x * x);
  return x / (1.0f + expf(-exponent));
}

// What becomes of a column's sums.
struct Gating {
  const float* gate_bias;  // [ff]; nullptr: none
  const float* up_bias;
  Activation activation;

  __device__ __forceinline__ float operator()(int64_t column, float gate, float up) const {
    if (gate_bias != nullptr) {
      gate += gate_bias[column];
      up += up_bias[column];
    }
    return Activated(activation, gate) * up;
  }
};

struct GatedEpilogue {
  float* out;
  int64_t stride;
  Gating gating;

  __device__ void operator()(int64_t row, int64_t column, const float (&sums)[2]) const {
    out[row * stride + column] = gating(column, sums[0], sums[1]);
  }
};

// out holds the gate's sums and gets the result.
__global__ void __launch_bounds__(kThreads)
    GateKernel(Matrix out, Matrix up, Gating gating, int64_t first_row) {
  BeginKernel();
  const int64_t column = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (column >= out.cols) return;
  const int64_t row = first_row + blockIdx.x;
  float* gate = static_cast<float*>(out.data) + row * out.stride + column;
  *gate = gating(column, *gate, static_cast<const float*>(up.data)[row * up.stride + column]);
}

__global__ void __launch_bounds__(kThreads) ActivateKernel(Matrix out, Activation activation) {
  BeginKernel();
  const int64_t column = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (column >= out.cols) return;
  float* value = static_cast<float*>(out.data) + blockIdx.x * out.stride + column;
  *value = Activated(activation, *value);
}

// One product, as any other, and the activation behind it.
void Ungated(Stream& stream, const GatedMlpArgs& args, const RowSource& source) {
  LinearProjection(stream, {.source = source,
                            .num_decode_rows = args.num_decode_rows,
                            .weight = args.gate,
                            .bias = args.gate_bias,
                            .scale = 1.0f,
                            .accumulate = false,
                            .y = args.out});
  Launch(stream,
         {{static_cast<unsigned>(args.out.rows), CeilDiv(args.out.cols, kThreads)}, kThreads},
         ActivateKernel, args.out, args.activation);
}

// The gate's product goes to `out`, up's to the workspace behind the rows.
void PrefillBF16(Stream& stream, const GatedMlpArgs& args, const PreparedRows& rows) {
  const int64_t ff = args.gate.n;
  const size_t begin = NormProjectWorkspace(rows.num_rows, args.gate.k);
  const Matrix up = {stream.workspace + begin, DType::kF32, rows.num_rows, ff,
                     WeightStride(DType::kF32, ff)};
  PrefillProductArgs product = {
      .rows = rows, .first_row = args.num_decode_rows, .weight = args.gate, .out = args.out};
  PrefillProduct(stream, product);
  product.weight = args.up;
  product.out = up;
  PrefillProduct(stream, product);
  const auto num_rows = static_cast<unsigned>(rows.num_rows - args.num_decode_rows);
  Launch(stream, {{num_rows, CeilDiv(ff, kThreads)}, kThreads}, GateKernel, args.out, up,
         Gating{args.gate_bias, args.up_bias, args.activation}, args.num_decode_rows);
}

}  // namespace

void GatedMlp(Stream& stream, const GatedMlpArgs& args) {
  const int64_t num_rows = args.out.rows;
  const DType type = args.gate.type;
  if ((args.gated() && type != args.up.type) ||
      stream.workspace_bytes < GatedMlpWorkspace(num_rows, args.gate.k, args.gate.n)) {
    return stream.Fail(OpStatus::kUnsupported);
  }
  const RowSource source = {.x = args.x,
                            .num_rows = num_rows,
                            .norm = args.norm,
                            .addend = {},
                            .addend_rows = nullptr,
                            .gate = {}};
  if (!args.gated()) return Ungated(stream, args, source);
  const GatedEpilogue epilogue = {static_cast<float*>(args.out.data),
                                  args.out.stride,
                                  {args.gate_bias, args.up_bias, args.activation}};
  const int64_t num_gemv = IsQuantised(type) ? num_rows : args.num_decode_rows;
  ProductOperands<2> operands = {.num_rows = num_gemv,
                                 .weights = {args.gate.data, args.up.data},
                                 .n = args.gate.n,
                                 .stride = WeightStride(type, args.gate.k)};
  const PreparedRows rows = MultiplyRows(stream, source, args.gate, operands, epilogue);

  if (num_gemv == num_rows) return;
  if (type == DType::kBF16) return PrefillBF16(stream, args, rows);
  operands.first_row = args.num_decode_rows;
  operands.num_rows = num_rows - args.num_decode_rows;
  TiledProduct(stream, type, operands, epilogue);
}

}  // namespace longstream::cuda
