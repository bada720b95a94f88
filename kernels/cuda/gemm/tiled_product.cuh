// Products of many rows with an f32 or f16 weight, for prefill rows. Rows stay f32, so tensor cores
// cannot multiply them. A block computes 64 x 64 outputs from tiles in shared memory, a thread 4 x
// 4; each output is one chain of FMA over k. (bf16 weights: prefill_product.h.)
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_TILED_PRODUCT_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_TILED_PRODUCT_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/stream.h"
#include "kernels/cuda/gemm/product.cuh"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/shared.cuh"

namespace longstream::cuda {

inline constexpr int kTiledThreads = 256;
inline constexpr int kTiledRows = 64;    // rows of a tile; also its outputs
inline constexpr int kTiledInputs = 16;  // inputs of a tile; 4 threads load them for a row
inline constexpr int kOfThread = 4;      // rows of a thread; also its outputs
// Floats from one k to the next. This keeps 16-byte alignment and spreads the stores over the
// banks.
inline constexpr int kTiledPitch = 64 + 4;

// The inputs of 64 rows: [k][row].
using InputTile = float[kTiledInputs][kTiledPitch];

// Loads inputs [k, k + 16) of rows [first, first + 64) of `from`; zeros beyond num_rows and stride.
template <typename T>
__device__ __forceinline__ void LoadTile(const T* from, int64_t first, int64_t num_rows,
                                         int64_t stride, int64_t k, InputTile& tile) {
  const int row = static_cast<int>(threadIdx.x) / kOfThread;
  const int input = static_cast<int>(threadIdx.x) % kOfThread * 4;
  const bool inside = first + row < num_rows && k + input < stride;
  const T* source = from + (first + row) * stride + k + input;
#pragma unroll
  for (int i = 0; i < 4; ++i) tile[input + i][row] = inside ? Widen(source[i]) : 0.0f;
}

// A thread computes rows 4 (thread / 16) ... of a tile, for outputs thread % 16 + 16 j.
template <typename T, int kWeights, typename Epilogue>
__global__ void __launch_bounds__(kTiledThreads)
    TiledFmaKernel(ProductOperands<kWeights> in, Epilogue epilogue) {
  AwaitEarlierKernels();
  InputTile* tiles = SharedMemory<InputTile>();  // a tile of the rows, and one of each weight
  const int64_t first_column = int64_t{blockIdx.x} * kTiledRows;
  const int64_t first_row = int64_t{blockIdx.y} * kTiledRows;
  const float* rows = static_cast<const float*>(in.rows) + in.first_row * in.stride;
  const int row = static_cast<int>(threadIdx.x) / 16 * kOfThread;
  const int column = static_cast<int>(threadIdx.x) % 16;
  const bool has_rows = first_row + row < in.num_rows;

  float sums[kWeights][kOfThread][kOfThread] = {};
  for (int64_t k = 0; k < in.stride; k += kTiledInputs) {
    __syncthreads();
    LoadTile(rows, first_row, in.num_rows, in.stride, k, tiles[0]);
#pragma unroll
    for (int w = 0; w < kWeights; ++w) {
      LoadTile(static_cast<const T*>(in.weights[w]), first_column, in.n, in.stride, k,
               tiles[1 + w]);
    }
    __syncthreads();
    if (!has_rows) continue;
#pragma unroll
    for (int i = 0; i < kTiledInputs; ++i) {
#pragma unroll
      for (int w = 0; w < kWeights; ++w) {
#pragma unroll
        for (int r = 0; r < kOfThread; ++r) {
#pragma unroll
          for (int c = 0; c < kOfThread; ++c) {
            sums[w][r][c] =
                __fmaf_rn(tiles[0][i][row + r], tiles[1 + w][i][column + 16 * c], sums[w][r][c]);
          }
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kOfThread; ++r) {
#pragma unroll
    for (int c = 0; c < kOfThread; ++c) {
      const int64_t to_row = first_row + row + r;
      const int64_t to_column = first_column + column + 16 * c;
      if (to_row >= in.num_rows || to_column >= in.n) continue;
      float total[kWeights];
#pragma unroll
      for (int w = 0; w < kWeights; ++w) total[w] = sums[w][r][c];
      epilogue(in.first_row + to_row, to_column, total);
    }
  }
}

// Serves any number of rows. `type` is the type of the weights. REQUIRES: type is f32 or f16
template <int kWeights, typename Epilogue>
void TiledProduct(Stream& stream, DType type, const ProductOperands<kWeights>& in,
                  const Epilogue& epilogue) {
  const LaunchShape shape = {{CeilDiv(in.n, kTiledRows), CeilDiv(in.num_rows, kTiledRows)},
                             kTiledThreads,
                             (1 + kWeights) * sizeof(InputTile)};
  if (type == DType::kF32) {
    Launch(stream, shape, TiledFmaKernel<float, kWeights, Epilogue>, in, epilogue);
  } else {
    Launch(stream, shape, TiledFmaKernel<F16, kWeights, Epilogue>, in, epilogue);
  }
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_TILED_PRODUCT_CUH_
