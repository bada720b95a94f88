// Normalising, adding, gating and rounding of rows: a block a row. Of a row of bf16 it reads 4
// bytes per element, twice where there is a norm (the second time from L1), and writes 2.
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/prepared_rows.h"
#include "kernels/cuda/row_reduce.cuh"
#include "kernels/cuda/shared.cuh"
#include "kernels/cuda/weight.cuh"
#include "kernels/ops/norm_project.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 256;

__device__ const float* RowOf(const Matrix& matrix, int64_t row) {
  return static_cast<const float*>(matrix.data) + row * matrix.stride;
}

// 1 / sqrt(mean(x^2) + eps)
__device__ float InverseRms(const float* x, int64_t k, float eps) {
  float squares = 0.0f;
  for (int64_t i = threadIdx.x; i < k; i += kThreads) squares = __fmaf_rn(x[i], x[i], squares);
  const float sum = RowSum<kThreads>(squares, SharedMemory<float>());
  return 1.0f / sqrtf(sum / static_cast<float>(k) + eps);
}

// T: what the weight's type multiplies.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    PrepareRowsKernel(RowSource source, T* out, int64_t k, int64_t stride) {
  const int64_t r = blockIdx.x;
  const float* x = RowOf(source.x, source.rows != nullptr ? source.rows[r] : r);
  const float* norm_weight = source.norm.weight;
  const float inverse_rms = norm_weight == nullptr ? 1.0f : InverseRms(x, k, source.norm.eps);
  const float* addend =
      source.addend.data == nullptr ? nullptr : RowOf(source.addend, source.addend_rows[r]);
  const float* gate = source.gate.data == nullptr ? nullptr : RowOf(source.gate, r);
  T* h = out + r * stride;
  for (int64_t i = threadIdx.x; i < stride; i += kThreads) {
    float value = 0.0f;
    if (i < k) {
      value = x[i];
      if (norm_weight != nullptr) value *= inverse_rms * norm_weight[i];
      if (addend != nullptr) value += addend[i];
      if (gate != nullptr) value *= 1.0f / (1.0f + expf(-gate[i]));
    }
    h[i] = RoundTo<T>(value);
  }
}

}  // namespace

PreparedRows PrepareRows(Stream& stream, const RowSource& source, const PackedWeight& weight) {
  if (!stream.ok()) return {};
  const int64_t k = weight.k;
  if (stream.workspace_bytes < NormProjectWorkspace(source.num_rows, k)) {
    stream.Fail(OpStatus::kUnsupported);
    return {};
  }
  const int64_t stride = WeightStride(weight.type, k);
  const LaunchShape shape = {static_cast<unsigned>(source.num_rows), kThreads,
                             kThreads / kWarp * sizeof(float)};
  const auto prepare = [&](auto element) {
    using T = decltype(element);
    Launch(stream, shape, PrepareRowsKernel<T>, source, reinterpret_cast<T*>(stream.workspace), k,
           stride);
    return static_cast<size_t>(source.num_rows * stride) * sizeof(T);
  };
  const size_t bytes = weight.type == DType::kBF16 ? prepare(BF16{}) : prepare(float{});
  return {stream.workspace, source.num_rows, stride, bytes};
}

}  // namespace longstream::cuda
