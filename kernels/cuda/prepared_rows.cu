// Normalising, adding, gating and rounding of rows: a block a row. Of a row of bf16 it reads 4
// bytes per element, twice where there is a norm (the second time from L1), and writes 2; of a row
// of int8 it writes 1.125.
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/overlap.cuh"
#include "kernels/cuda/prepared_rows.h"
#include "kernels/cuda/row_reduce.cuh"
#include "kernels/cuda/shared.cuh"
#include "kernels/cuda/weight.cuh"
#include "kernels/ops/norm_project.h"

namespace longstream::cuda {
namespace {

__device__ const float* RowOf(const Matrix& matrix, int64_t row) {
  return static_cast<const float*>(matrix.data) + row * matrix.stride;
}

// The inputs of one row; absent ones are nullptr.
struct RowInputs {
  const float* x;
  const float* norm_weight;
  const float* norm_bias;
  float mean;  // 0 of RMSNorm
  float inverse_rms;
  const float* addend;
  const float* gate;
  bool silu_gate;
  int k;

  // All threads of the block together.
  __device__ RowInputs(const RowSource& source, int64_t r, int64_t size)
      : x(RowOf(source.x, source.rows != nullptr ? source.rows[r] : r)),
        norm_weight(source.norm.weight),
        norm_bias(source.norm.bias),
        mean(norm_weight != nullptr && source.norm.centred ? RowMean(x, size, SharedMemory<float>())
                                                           : 0.0f),
        inverse_rms(norm_weight == nullptr ? 1.0f
                                           : RowInverseDeviation(x, size, mean, source.norm.eps,
                                                                 SharedMemory<float>())),
        addend(source.addend.data == nullptr ? nullptr
                                             : RowOf(source.addend, source.addend_rows[r])),
        gate(source.gate.data == nullptr ? nullptr : RowOf(source.gate, r)),
        silu_gate(source.silu_gate),
        k(static_cast<int>(size)) {}

  // h of kLoadsAtOnce elements from `first` on (BatchElement); 0 behind k.
  __device__ void Load(int first, float (&h)[kLoadsAtOnce]) const {
    LoadBatch(x, first, h);
    float loaded[kLoadsAtOnce];
    if (norm_weight != nullptr) {
      LoadBatch(norm_weight, first, loaded);
#pragma unroll
      for (int b = 0; b < kLoadsAtOnce; ++b) h[b] = (h[b] - mean) * (inverse_rms * loaded[b]);
      if (norm_bias != nullptr) {
        LoadBatch(norm_bias, first, loaded);
#pragma unroll
        for (int b = 0; b < kLoadsAtOnce; ++b) h[b] += loaded[b];
      }
    }
    if (addend != nullptr) {
      LoadBatch(addend, first, loaded);
#pragma unroll
      for (int b = 0; b < kLoadsAtOnce; ++b) h[b] += loaded[b];
    }
    if (gate != nullptr) {
      LoadBatch(gate, first, loaded);
#pragma unroll
      for (int b = 0; b < kLoadsAtOnce; ++b) {
        h[b] *= (silu_gate ? loaded[b] : 1.0f) / (1.0f + expf(-loaded[b]));
      }
    }
#pragma unroll
    for (int b = 0; b < kLoadsAtOnce; ++b) {
      if (BatchElement(first, b) >= k) h[b] = 0.0f;
    }
  }

 private:
  // Behind k the last element.
  __device__ void LoadBatch(const float* from, int first, float (&to)[kLoadsAtOnce]) const {
#pragma unroll
    for (int b = 0; b < kLoadsAtOnce; ++b) to[b] = from[min(BatchElement(first, b), k - 1)];
  }
};

// The norm's weights, which a step's other weights have driven out of the cache, come while the
// kernel before ends.
__device__ __forceinline__ void BeginPreparing(const RowSource& source, int64_t k) {
  LetNextKernelStart();
  if (source.norm.weight != nullptr && blockIdx.x == 0) {
    constexpr int kStep = kPrefetchLine / static_cast<int>(sizeof(float));
    for (int64_t i = int64_t{threadIdx.x} * kStep; i < k; i += int64_t{blockDim.x} * kStep) {
      Prefetch(source.norm.weight + i);
    }
  }
  AwaitEarlierKernels();
}

// T: what the weight's type multiplies.
template <typename T>
__global__ void __launch_bounds__(kMaxRowThreads)
    PrepareRowsKernel(RowSource source, T* out, int64_t k, int64_t stride) {
  BeginPreparing(source, k);
  const int64_t r = blockIdx.x;
  const RowInputs in(source, r, k);
  for (int first = static_cast<int>(threadIdx.x); first < stride;
       first = BatchElement(first, kLoadsAtOnce)) {
    float h[kLoadsAtOnce];
    in.Load(first, h);
#pragma unroll
    for (int b = 0; b < kLoadsAtOnce; ++b) {
      const int i = BatchElement(first, b);
      if (i < stride) out[r * stride + i] = RoundTo<T>(h[b]);
    }
  }
}

// Element i of a row of int8, the scale of its group and the byte; by all lanes of a warp, whose
// elements are the group.
__device__ __forceinline__ void StoreQuantised(float value, int i, int8_t* row, float* scales) {
  // Bit patterns order magnitudes, with infinity and then NaN above all numbers.
  unsigned bits = __float_as_uint(value) & 0x7fffffffu;
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    bits = max(bits, __shfl_xor_sync(kAllLanes, bits, lanes));
  }
  const float largest = __uint_as_float(bits);
  const bool is_number = bits < 0x7f800000u;
  const bool has_scale = is_number && largest >= 0x1p-100f;
  const float inverse = has_scale ? __fdiv_rn(127.0f, largest) : 0.0f;
  // Adding it leaves the nearest integer in the low bits; 0 where there is no scale.
  const float shifted = __fadd_rn(has_scale ? __fmul_rn(value, inverse) : 0.0f, 0x1.8p23f);
  row[QuantisedByte(DType::kI8, i)] =
      static_cast<int8_t>(__float_as_int(shifted) - __float_as_int(0x1.8p23f));
  if (i % kGroupInputs == 0) {
    const float scale = has_scale ? __fdiv_rn(largest, 127.0f) : 0.0f;
    scales[i / kGroupInputs] = is_number ? scale : __uint_as_float(0x7fc00000u);
  }
}

// A warp a group, by the operations of core/matrix.h.
__global__ void __launch_bounds__(kMaxRowThreads)
    QuantiseRowsKernel(RowSource source, int8_t* out, float* scales, int64_t k, int64_t stride) {
  BeginPreparing(source, k);
  static_assert(kGroupInputs == kWarp && kStepOfGroups % kWarp == 0);
  const int64_t r = blockIdx.x;
  const RowInputs in(source, r, k);
  for (int first = static_cast<int>(threadIdx.x); first < stride;
       first = BatchElement(first, kLoadsAtOnce)) {
    float h[kLoadsAtOnce];
    in.Load(first, h);
#pragma unroll
    for (int b = 0; b < kLoadsAtOnce; ++b) {
      const int i = BatchElement(first, b);  // below the stride in all lanes or in none
      if (i < stride) {
        StoreQuantised(h[b], i, out + r * stride, scales + r * (stride / kGroupInputs));
      }
    }
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
  const unsigned threads = RowThreads(stride);
  const LaunchShape shape = {static_cast<unsigned>(source.num_rows), threads,
                             threads / kWarp * sizeof(float)};
  if (IsQuantised(weight.type)) {
    auto* values = reinterpret_cast<int8_t*>(stream.workspace);
    auto* scales = reinterpret_cast<float*>(stream.workspace + source.num_rows * stride);
    Launch(stream, shape, QuantiseRowsKernel, source, values, scales, k, stride);
    return {.data = values,
            .scales = scales,
            .num_rows = source.num_rows,
            .stride = stride,
            .bytes = static_cast<size_t>(source.num_rows * (stride + stride / kGroupInputs * 4))};
  }
  const auto prepare = [&](auto element) {
    using T = decltype(element);
    Launch(stream, shape, PrepareRowsKernel<T>, source, reinterpret_cast<T*>(stream.workspace), k,
           stride);
    return static_cast<size_t>(source.num_rows * stride) * sizeof(T);
  };
  const size_t bytes = weight.type == DType::kBF16 ? prepare(BF16{}) : prepare(float{});
  return {.data = stream.workspace, .num_rows = source.num_rows, .stride = stride, .bytes = bytes};
}

}  // namespace longstream::cuda
