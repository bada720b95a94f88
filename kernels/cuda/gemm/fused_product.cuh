// Products of decode rows with their preparation. Of a few rows the blocks of a GEMV
// prepare them, each for itself in shared memory, where that costs less than a kernel before it:
//
//   The kernel is a launch between two others, 1 us, of which overlapping hides half, and takes
//   three trips to L2 of 0.3 us: for the sums of a norm, the row's elements and the norm's weights.
//   The blocks of a product make the same trips, but all SMs at once: 132 of them read 5120 inputs
//   and as many weights of a norm, 5.4 MB, which an L2 of 5 TB/s gives in 1.1 us, while memory
//   brings what they have prefetched of their own weights. Two blocks on an SM read the same, and
//   the second finds it in L1. Their instructions, 250 of a warp for such a row, take an SM 0.6 us.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_FUSED_PRODUCT_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_FUSED_PRODUCT_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/stream.h"
#include "kernels/cuda/gemm/gemv.cuh"
#include "kernels/cuda/gemm/prepared_rows.h"
#include "kernels/cuda/gemm/product.cuh"
#include "kernels/cuda/gemm/row_inputs.cuh"
#include "kernels/cuda/gemm/weight.cuh"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/overlap.cuh"

namespace longstream::cuda {

// A block's rows follow each other: more of them would take longer than a kernel with a block a
// row.
inline constexpr int64_t kMaxFusedRows = 4;
// From L2, by all SMs, in 2 us: the kernel and its launch.
inline constexpr int64_t kMaxFusedReads = int64_t{10} << 20;
// Of shared memory: two blocks on an SM of compute capability 8.0 too, which has 164 KiB and keeps
// 1 KiB of each block's.
inline constexpr size_t kMaxFusedBytes = size_t{80} << 10;

// Of rows in shared memory; of int8 their scales behind them.
inline size_t FusedRowBytes(DType type, int64_t num_rows, int64_t stride) {
  const int64_t row = IsQuantised(type)
                          ? stride + stride / kRowGroup * static_cast<int64_t>(sizeof(float))
                          : stride * static_cast<int64_t>(sizeof(BF16));
  return static_cast<size_t>(num_rows * row);
}

// Whether the blocks prepare the rows: a matter of what the host knows, for a graph must stay
// valid.
template <int kWeights>
bool FusesRows(DType type, const RowSource& source, const ProductOperands<kWeights>& in) {
  if (type == DType::kF32 || type == DType::kF16 || source.num_rows > kMaxFusedRows ||
      kSumBytes<kWeights, 1> + FusedRowBytes(type, source.num_rows, in.stride) > kMaxFusedBytes) {
    return false;
  }
  constexpr int64_t kSMs = 132;
  const int64_t blocks = GemvBlocks(in.n, in.stride);
  const int64_t readers = std::max(std::min(blocks, kSMs), blocks / 2);
  const int64_t of_norm = (source.norm.weight != nullptr) + (source.norm.bias != nullptr);
  const int64_t of_row = 1 + (source.addend.data != nullptr) + (source.gate.data != nullptr);
  const int64_t elements = (source.num_rows * of_row + of_norm) * in.stride;
  return readers * elements * static_cast<int64_t>(sizeof(float)) <= kMaxFusedReads;
}

// Rows that a block prepares. T: what the weight's type multiplies.
template <typename T>
struct RowsToPrepare {
  static constexpr bool kInShared = true;
  RowSource source;
  int k;

  template <int kWeights>
  __device__ __forceinline__ void Await(ProductOperands<kWeights>& in, void* scratch,
                                        void* room) const {
    static_assert(kRowThreads == kGemvThreads);
    static_assert(RowScratch(kMaxFusedRows) * sizeof(float) <= kSumBytes<kWeights, 1>);
    if (blockIdx.y == 0) PrefetchNorm(source, k);
    AwaitEarlierKernels();
    const int num_rows = static_cast<int>(in.num_rows);
    const int stride = static_cast<int>(in.stride);
    auto* values = static_cast<T*>(room);
    float* scales = nullptr;
    if constexpr (std::is_same_v<T, int8_t>) {
      scales = reinterpret_cast<float*>(values + num_rows * stride);
    }
    PrepareInBlock(source, 0, num_rows, k, stride, values, scales, static_cast<float*>(scratch));
    __syncthreads();
    in.rows = values;
    in.scales = scales;
  }
};

// REQUIRES: FusesRows(type, source, in)
template <int kWeights, typename Epilogue>
void FusedProduct(Stream& stream, DType type, const RowSource& source, int64_t k,
                  const ProductOperands<kWeights>& in, const Epilogue& epilogue) {
  const size_t bytes = FusedRowBytes(type, source.num_rows, in.stride);
  const auto launch = [&]<DType kType, typename T>() {
    LaunchGemvMma<kType, 1>(stream, in, epilogue, RowsToPrepare<T>{source, static_cast<int>(k)},
                            bytes);
  };
  switch (type) {
    case DType::kF32:
    case DType::kF16:
      return;
    case DType::kBF16:
      return launch.template operator()<DType::kBF16, BF16>();
    case DType::kI8:
      return launch.template operator()<DType::kI8, int8_t>();
    case DType::kI4:
      return launch.template operator()<DType::kI4, int8_t>();
  }
}

// The product of the first in.num_rows of a source's rows with weights of which `weight` is one;
// `in` has no rows yet. Returns the prepared rows, where there are others, and leaves them in `in`.
template <int kWeights, typename Epilogue>
PreparedRows MultiplyRows(Stream& stream, const RowSource& source, const PackedWeight& weight,
                          ProductOperands<kWeights>& in, const Epilogue& epilogue) {
  if (in.num_rows == source.num_rows && FusesRows(weight.type, source, in)) {
    FusedProduct(stream, weight.type, source, weight.k, in, epilogue);
    return {};
  }
  const PreparedRows rows = PrepareRows(stream, source, weight);
  in.rows = rows.data;
  in.scales = rows.scales;
  Gemv(stream, weight.type, in, epilogue);
  return rows;
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_FUSED_PRODUCT_CUH_
