// Products of decode rows, together with the preparation of the rows. If there are few rows, each
// block of a GEMV prepares them for itself in shared memory. It does so only if that costs less
// than an earlier kernel that prepares them for all blocks. The two costs are:
//
//   The earlier kernel is one more launch between two others: 1 us, of which overlapping hides
//   half. It makes three trips to L2 of 0.3 us each: for the sums of a norm, for the row's elements
//   and for the norm's weights. The blocks of a product make the same trips, but on all SMs at
//   once. 132 SMs read 5120 inputs and as many weights of a norm, 5.4 MB. An L2 of 5 TB/s takes 1.1
//   us for that; in the same time memory delivers the weights that the blocks have prefetched. Two
//   blocks on an SM read the same, and the second finds it in L1. Their instructions, 250 a warp
//   for such a row, take an SM 0.6 us.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_FUSED_PRODUCT_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_FUSED_PRODUCT_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/stream.h"
#include "kernels/cuda/gemm/decode_product.cuh"
#include "kernels/cuda/gemm/gemv_ring.cuh"
#include "kernels/cuda/gemm/prepared_rows.h"
#include "kernels/cuda/gemm/product.cuh"
#include "kernels/cuda/gemm/row_inputs.cuh"
#include "kernels/cuda/gemm/weight.cuh"
#include "kernels/cuda/primitives/device_limits.h"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/overlap.cuh"

namespace longstream::cuda {

// The most rows that a block prepares. It prepares them one after the other. With more rows that
// would take longer than a kernel with a block for each row.
inline constexpr int64_t kMaxFusedRows = 4;
// The most bytes that the SMs may read. L2 delivers them in 2 us, which is what a kernel that
// prepares the rows in memory would take with its launch.
inline constexpr int64_t kMaxFusedReads = int64_t{10} << 20;
// The most shared memory of a block without a ring. Two blocks then also fit on an SM of compute
// capability 8.0, which has 164 KiB and reserves 1 KiB for each block.
inline constexpr size_t kMaxFusedBytes = size_t{80} << 10;

// The bytes of rows in shared memory; the scales of int8 rows follow the rows.
inline size_t FusedRowBytes(DType type, int64_t num_rows, int64_t stride) {
  const int64_t row = IsQuantised(type)
                          ? stride + stride / kRowGroup * static_cast<int64_t>(sizeof(float))
                          : stride * static_cast<int64_t>(sizeof(BF16));
  return static_cast<size_t>(num_rows * row);
}

// Whether the blocks prepare the rows. The answer depends only on what the host knows, so that a
// graph stays valid.
template <int kWeights>
bool FusesRows(DType type, const RowSource& source, const ProductOperands<kWeights>& in) {
  if (type == DType::kF32 || type == DType::kF16 || source.num_rows > kMaxFusedRows) return false;
  const bool has_ring = type == DType::kBF16;  // the product is GemvRingKernel
  const size_t row_bytes = FusedRowBytes(type, source.num_rows, in.stride);
  if (has_ring ? kRingBytes<1> + row_bytes > kMaxSharedBytes
               : kSumBytes<kWeights, 1> + row_bytes > kMaxFusedBytes) {
    return false;
  }
  constexpr int64_t kSMs = 132;
  const int64_t blocks =
      has_ring ? RingBlocks<kWeights>(in.n) : int64_t{GemvBlocks(in.n, in.stride)};
  const int64_t readers = std::max(std::min(blocks, kSMs), blocks / 2);
  const int64_t of_norm = (source.norm.weight != nullptr) + (source.norm.bias != nullptr);
  const int64_t of_row = 1 + (source.addend.data != nullptr) + (source.gate.data != nullptr);
  const int64_t elements = (source.num_rows * of_row + of_norm) * in.stride;
  return readers * elements * static_cast<int64_t>(sizeof(float)) <= kMaxFusedReads;
}

// Rows that a block prepares itself. T: the type of the rows, which follows from the weight's type.
template <typename T>
struct RowsToPrepare {
  static constexpr bool kInShared = true;
  RowSource source;
  int k;

  template <int kWeights>
  __device__ __forceinline__ void Await(ProductOperands<kWeights>& in, void* scratch,
                                        void* room) const {
    static_assert(kRowThreads == kGemvThreads);
    static_assert(RowScratch(kMaxFusedRows) * sizeof(float) <= kGemvWarps * sizeof(RingSums<1>));
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
      return LaunchGemvRing<1>(stream, in, epilogue,
                               RowsToPrepare<BF16>{source, static_cast<int>(k)}, bytes);
    case DType::kI8:
      return launch.template operator()<DType::kI8, int8_t>();
    case DType::kI4:
      return launch.template operator()<DType::kI4, int8_t>();
  }
}

// Multiplies the first in.num_rows rows of `source` with the weights in `in`; `weight` is one of
// them. `in` has no rows yet. If the rows were prepared in memory, returns them and stores them in
// `in`.
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
