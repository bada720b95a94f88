// Prepares rows for a projection: the threads of a block norm, add, gate and round them. For many
// rows this is a kernel of its own (prepared_rows.cu); a few rows are prepared by the blocks of the
// product (fused_product.cuh). A row has the same bits either way: a block has kRowThreads threads,
// the order of a row's sums depends on k alone, and intrinsics fix which products and sums become
// one operation.
//
// Of every 1024 elements a thread has 4 that are neighbours. It loads all of its elements of a row
// of 5120 before it uses the first: 5 loads of 16 bytes, or 20 loads if the beginning or the length
// of a row is no multiple of 16 bytes.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_ROW_INPUTS_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_ROW_INPUTS_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/gemm/prepared_rows.h"
#include "kernels/cuda/gemm/weight.cuh"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/warp.cuh"

namespace longstream::cuda {

inline constexpr int kRowThreads = 256;
inline constexpr int kRowWarps = kRowThreads / kWarp;
inline constexpr int kVectorElements = 4;
// Vectors that a thread loads at once.
inline constexpr int kRowVectors = 5;
inline constexpr int kVectorStep = kRowThreads * kVectorElements;
inline constexpr int kBatchStep = kRowVectors * kVectorStep;
inline constexpr int kRowGroup = static_cast<int>(kGroupInputs);
static_assert(kWarp * kVectorElements % kRowGroup == 0 && kStepOfGroups == kWarp * kVectorElements);

using RowVectors = float[kRowVectors][kVectorElements];

// Loads elements first + v * kVectorStep ... of a row of k. Beyond the row it loads some elements
// of the row instead. So no branch stands between the loads, and no load waits for the one before.
__device__ __forceinline__ void LoadVectors(const float* from, int first, int k, RowVectors& to) {
  if (k % kVectorElements == 0 && reinterpret_cast<uintptr_t>(from) % sizeof(float4) == 0) {
#pragma unroll
    for (int v = 0; v < kRowVectors; ++v) {
      const int i = min(first + v * kVectorStep, k - kVectorElements);
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      memcpy(to[v], &four, sizeof(four));
    }
    return;
  }
#pragma unroll
  for (int v = 0; v < kRowVectors; ++v) {
#pragma unroll
    for (int j = 0; j < kVectorElements; ++j) {
      to[v][j] = from[min(first + v * kVectorStep + j, k - 1)];
    }
  }
}

// Sets the elements beyond the row to `value`.
__device__ __forceinline__ void FillBehind(int first, int k, float value, RowVectors& vectors) {
  if (first + kBatchStep - kVectorStep + kVectorElements <= k) return;
#pragma unroll
  for (int v = 0; v < kRowVectors; ++v) {
#pragma unroll
    for (int j = 0; j < kVectorElements; ++j) {
      if (first + v * kVectorStep + j >= k) vectors[v][j] = value;
    }
  }
}

// Calls use(element) for each element of a thread.
template <typename Use>
__device__ __forceinline__ void ForVectors(RowVectors& vectors, const Use& use) {
#pragma unroll
  for (auto& vector : vectors) {
#pragma unroll
    for (float& element : vector) use(element);
  }
}
template <typename Use>
__device__ __forceinline__ void ForVectors(RowVectors& vectors, const RowVectors& others,
                                           const Use& use) {
#pragma unroll
  for (int v = 0; v < kRowVectors; ++v) {
#pragma unroll
    for (int j = 0; j < kVectorElements; ++j) use(vectors[v][j], others[v][j]);
  }
}

__device__ __forceinline__ const float* RowOf(const Matrix& matrix, int64_t row) {
  return static_cast<const float*>(matrix.data) + row * matrix.stride;
}

// The sums of a row in shared memory, one for each warp of the block.
using WarpSums = float[kRowWarps];

// Sums x or, with kSquares, (x - mean)^2.
template <bool kSquares>
__device__ __forceinline__ void SumRow(const float* x, int k, float mean, WarpSums& sums) {
  float sum = 0.0f;
  for (int first = static_cast<int>(threadIdx.x) * kVectorElements; first < k;
       first += kBatchStep) {
    RowVectors loaded;
    LoadVectors(x, first, k, loaded);
    FillBehind(first, k, mean, loaded);
    ForVectors(loaded, [&](float element) {
      const float deviation = element - mean;
      sum = kSquares ? __fmaf_rn(deviation, deviation, sum) : __fadd_rn(sum, element);
    });
  }
  sum = WarpSum(sum);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = sum;
}

__device__ __forceinline__ float MeanOf(const WarpSums& sums, int k) {
  float sum = sums[0];
#pragma unroll
  for (int warp = 1; warp < kRowWarps; ++warp) sum += sums[warp];
  return sum / static_cast<float>(k);
}

// The inputs of one row. Inputs that a call does not have are nullptr.
struct RowInputs {
  const float* x;
  const float* norm_weight = nullptr;
  const float* norm_bias = nullptr;
  const float* addend = nullptr;
  const float* gate = nullptr;
  bool silu_gate;
  float mean = 0.0f;  // 0 for RMSNorm
  float inverse_deviation = 1.0f;
  int k;

  // Computes h for the thread's elements from `first` on; 0 beyond k.
  __device__ __forceinline__ void Load(int first, RowVectors& h) const {
    LoadVectors(x, first, k, h);
    RowVectors loaded;
    if (norm_weight != nullptr) {
      LoadVectors(norm_weight, first, k, loaded);
      ForVectors(h, loaded, [&](float& element, float weight) {
        element = __fmul_rn(__fsub_rn(element, mean), __fmul_rn(inverse_deviation, weight));
      });
      if (norm_bias != nullptr) Add(norm_bias, first, h);
    }
    if (addend != nullptr) Add(addend, first, h);
    if (gate != nullptr) {
      LoadVectors(gate, first, k, loaded);
      ForVectors(h, loaded, [&](float& element, float logit) {
        const float factor = __fdiv_rn(silu_gate ? logit : 1.0f, __fadd_rn(1.0f, expf(-logit)));
        element = __fmul_rn(element, factor);
      });
    }
    FillBehind(first, k, 0.0f, h);
  }

 private:
  __device__ __forceinline__ void Add(const float* from, int first, RowVectors& h) const {
    RowVectors loaded;
    LoadVectors(from, first, k, loaded);
    ForVectors(h, loaded, [](float& element, float other) { element = __fadd_rn(element, other); });
  }
};

// Stores elements i ... i + 3 of a prepared row. `scales` is used for int8 rows only.
template <typename T>
__device__ __forceinline__ void StoreVector(const float (&vector)[kVectorElements], int i, T* row,
                                            float*) {
  if constexpr (std::is_same_v<T, BF16>) {
    *reinterpret_cast<uint2*>(row + i) = {PackBF16(vector[0], vector[1]),
                                          PackBF16(vector[2], vector[3])};
  } else {
    *reinterpret_cast<float4*>(row + i) = {vector[0], vector[1], vector[2], vector[3]};
  }
}
// Stores elements i ... i + 3 of an int8 row, and the scales of their groups. All lanes of a warp
// must call it; 8 lanes share a group. The operations are those of core/matrix.h.
__device__ __forceinline__ void StoreVector(const float (&vector)[kVectorElements], int i,
                                            int8_t* row, float* scales) {
  // The bit patterns of magnitudes have the order of the magnitudes; infinity, and then NaN, are
  // above all numbers.
  unsigned bits = 0;
#pragma unroll
  for (const float element : vector) bits = max(bits, __float_as_uint(element) & 0x7fffffffu);
#pragma unroll
  for (int lanes = kRowGroup / kVectorElements / 2; lanes > 0; lanes /= 2) {
    bits = max(bits, __shfl_xor_sync(kAllLanes, bits, lanes));
  }
  const float largest = __uint_as_float(bits);
  const bool is_number = bits < 0x7f800000u;
  const bool has_scale = is_number && largest >= 0x1p-100f;
  const float inverse = has_scale ? __fdiv_rn(127.0f, largest) : 0.0f;
  unsigned word = 0;
#pragma unroll
  for (int j = 0; j < kVectorElements; ++j) {
    // Adding 0x1.8p23 leaves the nearest integer in the low bits; 0 if there is no scale.
    const float shifted = __fadd_rn(has_scale ? __fmul_rn(vector[j], inverse) : 0.0f, 0x1.8p23f);
    word |= (__float_as_uint(shifted) & 0xffu) << (8 * j);
  }
  *reinterpret_cast<uint32_t*>(row + QuantisedByte(DType::kI8, i)) = word;
  if (i % kRowGroup == 0) {
    const float scale = has_scale ? __fdiv_rn(largest, 127.0f) : 0.0f;
    scales[i / kRowGroup] = is_number ? scale : __uint_as_float(0x7fc00000u);
  }
}

// Floats of shared memory that PrepareInBlock needs in addition to the rows.
__host__ __device__ constexpr int RowScratch(int num_rows) { return 2 * num_rows * kRowWarps; }

// Prepares rows [first_row, first_row + num_rows) of a source with k inputs. In `values` they are
// `stride` apart, in `scales` `stride / 32` (prepared_rows.h). All threads of the block must call
// it. Other threads may read the rows only after a barrier.
template <typename T>
__device__ __forceinline__ void PrepareInBlock(const RowSource& source, int64_t first_row,
                                               int num_rows, int k, int stride, T* values,
                                               float* scales, float* scratch) {
  auto* means = reinterpret_cast<WarpSums*>(scratch);
  auto* squares = means + num_rows;
  const Norm& norm = source.norm;
  if (norm.weight != nullptr && norm.centred) {
    for (int r = 0; r < num_rows; ++r) {
      SumRow<false>(RowOf(source.x, first_row + r), k, 0.0f, means[r]);
    }
    __syncthreads();
  }
  const auto mean_of = [&](int r) { return norm.centred ? MeanOf(means[r], k) : 0.0f; };
  if (norm.weight != nullptr) {
    for (int r = 0; r < num_rows; ++r) {
      SumRow<true>(RowOf(source.x, first_row + r), k, mean_of(r), squares[r]);
    }
    __syncthreads();
  }
  for (int r = 0; r < num_rows; ++r) {
    const int64_t row = first_row + r;
    RowInputs in = {.x = RowOf(source.x, row), .silu_gate = source.silu_gate, .k = k};
    if (norm.weight != nullptr) {
      in.norm_weight = norm.weight;
      in.norm_bias = norm.bias;
      in.mean = mean_of(r);
      in.inverse_deviation = 1.0f / sqrtf(MeanOf(squares[r], k) + norm.eps);
    }
    if (source.addend.data != nullptr) in.addend = RowOf(source.addend, source.addend_rows[row]);
    if (source.gate.data != nullptr) in.gate = RowOf(source.gate, row);
    float* row_scales = nullptr;
    if constexpr (std::is_same_v<T, int8_t>) row_scales = scales + r * (stride / kRowGroup);
    for (int first = static_cast<int>(threadIdx.x) * kVectorElements; first < stride;
         first += kBatchStep) {
      RowVectors h;
      in.Load(first, h);
#pragma unroll
      for (int v = 0; v < kRowVectors; ++v) {
        // For int8, either all lanes of a warp store or none does, because the stride is a multiple
        // of the number of elements that a warp stores.
        const int i = first + v * kVectorStep;
        if (i < stride) StoreVector(h[v], i, values + r * stride, row_scales);
      }
    }
  }
}

// Prefetches the norm's weights, which a step's other weights have evicted from the cache. A block
// calls it before it waits for the earlier kernels.
__device__ __forceinline__ void PrefetchNorm(const RowSource& source, int k) {
  if (source.norm.weight == nullptr) return;
  constexpr int kLine = kPrefetchLine / static_cast<int>(sizeof(float));
  for (int i = static_cast<int>(threadIdx.x) * kLine; i < k; i += kRowThreads * kLine) {
    Prefetch(source.norm.weight + i);
  }
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_ROW_INPUTS_CUH_
