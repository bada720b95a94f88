// Products with two weights (gated_product.h). Decode rows run as a GEMV with both weights in one
// kernel. Prefill rows run as tiled products of both weights, or as one cuBLASLt product for each
// weight and a kernel that gates.
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

namespace longstream::cuda {
namespace {

constexpr int kThreads = 256;

// Computes one output from the two sums of a column.
struct Gating {
  const float* gate_bias;  // [n]; nullptr: none
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

// `out` holds the gate's sums and receives the result.
__global__ void __launch_bounds__(kThreads)
    GateKernel(Matrix out, Matrix up, Gating gating, int64_t first_row) {
  BeginKernel();
  const int64_t column = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (column >= out.cols) return;
  const int64_t row = first_row + blockIdx.x;
  float* gate = static_cast<float*>(out.data) + row * out.stride + column;
  *gate = gating(column, *gate, static_cast<const float*>(up.data)[row * up.stride + column]);
}

// The gate's product goes to `out`. The other product goes to the workspace, behind the prepared
// rows. Returns false if cuBLASLt does not serve both products.
bool PrefillBF16(Stream& stream, const LinearArgs& args, const PreparedRows& rows,
                 const Gating& gating) {
  const PackedWeight& gate = args.in.weight();
  const Matrix& out = args.out.rows();
  const size_t begin = PreparedBytes(rows.num_rows, gate.k);
  const Matrix up = {stream.workspace + begin, DType::kF32, rows.num_rows, gate.n,
                     WeightStride(DType::kF32, gate.n)};
  PrefillProductArgs product = {
      .rows = rows, .first_row = args.num_decode_rows, .weight = gate, .out = out};
  if (!PrefillProduct(stream, product)) return false;
  product.weight = args.up;
  product.out = up;
  if (!PrefillProduct(stream, product)) return false;
  const auto num_rows = static_cast<unsigned>(rows.num_rows - args.num_decode_rows);
  Launch(stream, {{num_rows, CeilDiv(gate.n, kThreads)}, kThreads}, GateKernel, out, up, gating,
         args.num_decode_rows);
  return true;
}

}  // namespace

void GatedProduct(Stream& stream, const LinearArgs& args) {
  const PackedWeight& gate = args.in.weight();
  const Matrix& out = args.out.rows();
  const Gating gating = {args.bias, args.up_bias, args.activation};
  const GatedEpilogue epilogue = {static_cast<float*>(out.data), out.stride, gating};
  const int64_t num_gemv = IsQuantised(gate.type) ? out.rows : args.num_decode_rows;
  ProductOperands<2> operands = {.num_rows = num_gemv,
                                 .weights = {gate.data, args.up.data},
                                 .n = gate.n,
                                 .stride = WeightStride(gate.type, gate.k)};
  const RowSource source = {args.in.rows(), out.rows};
  const PreparedRows rows = MultiplyRows(stream, source, gate, operands, epilogue);

  if (num_gemv == out.rows) return;
  if (gate.type == DType::kBF16 && PrefillBF16(stream, args, rows, gating)) return;
  operands.first_row = args.num_decode_rows;
  operands.num_rows = out.rows - args.num_decode_rows;
  PrefillWithoutLibrary(stream, gate.type, operands, epilogue);
}

}  // namespace longstream::cuda
