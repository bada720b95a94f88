// Products of few rows with a weight of int8, int4, f32 or f16, for decode rows; gemv_ring.cuh has
// those with bf16 weights. Every weight is read once for up to 64 rows (int8, int4) or 8 rows (f32,
// f16). The order of each output's sum depends on n and k alone. Products with int8 and int4
// weights run here for any number of rows, prefill rows included.
//
// int8 and int4 weights are multiplied by mma with 16 weight rows as A and 8 tokens as B, in groups
// of 32 inputs (group_sums.cuh). Shared memory is needed only for the few rows that a block
// prepares itself (fused_product.cuh).
//
//   To hide 1 us of latency at 4.3 TB/s, an H200 must have 4.3 MB in flight, 32 KiB per SM. 16
//   warps with 8 KiB of loads each have 128 KiB in flight. Between two such batches a warp has
//   nothing in flight.
//
//   Before a warp waits for its rows, it prefetches the bytes of its first loads into L2: 64 KiB a
//   block, at most 17 MB in all. That is a third of an H200's L2, and takes 4 us from memory.
//   Meanwhile the earlier kernels end and the rows are prepared.
//
// f32 and f16 weights are multiplied with the f32 row by FMA; a warp computes an output.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_GEMV_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_GEMV_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/stream.h"
#include "kernels/cuda/gemm/group_sums.cuh"
#include "kernels/cuda/gemm/product.cuh"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/mma.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/shared.cuh"
#include "kernels/cuda/primitives/warp.cuh"

namespace longstream::cuda {

inline constexpr int kGemvWarps = 8;
inline constexpr int kGemvThreads = kGemvWarps * kWarp;
inline constexpr int kStepInputs = 32;    // inputs that 4 lanes read as 16 bytes of bf16 each
inline constexpr int kMaxTokenTiles = 8;  // tiles of tokens in a block
// The distance in shared memory from a token's sums to the next token's: 16 outputs and 4 unused
// places. With the unused places, 4 pairs of tokens are spread over all banks.
inline constexpr int kSumPitch = 20;

// The number of warps that share the inputs of 16 outputs. It grows until each of 132 SMs has a
// block, as long as each warp still has a batch of loads to itself. A product that is split then
// has fewer than two blocks an SM, which all run at once. Otherwise a few blocks would run after
// all others, and each would wait for the reads of its 8 warps. The number depends on n and the
// stride alone, so the order of the sums is the same at every number of rows.
inline int GemvSplits(int64_t n, int64_t stride) {
  constexpr int64_t kEnoughWarps = kGemvWarps * 132;
  constexpr int64_t kLeastInputs = 256;
  int splits = 1;
  while (splits < kGemvWarps && CeilDiv(n, kOutputTile) * splits < kEnoughWarps &&
         stride / (2 * splits) >= kLeastInputs) {
    splits *= 2;
  }
  return splits;
}

// The blocks that prefetch: as many as run at once, two an SM of an H200. When later blocks start,
// the earlier kernels have ended, so a prefetch would only read the same bytes twice.
inline constexpr unsigned kPrefetchBlocks = 2 * 132;
// Bytes that are prefetched of each weight row; half as many if there are two weights.
inline constexpr int kPrefetchBytes = 512;

// Prefetches the first bytes of the inputs [begin, end) of the warp's 16 outputs, and their first
// scales.
template <DType kType, int kWeights>
__device__ __forceinline__ void PrefetchRows(const ProductOperands<kWeights>& in,
                                             int64_t first_output, int begin, int end) {
  constexpr int kLines = kPrefetchBytes / kWeights / kPrefetchLine;  // lines of a row
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t row_bytes = RowBytes(kType, in.stride);
  const int64_t output = first_output + lane / kLines;
  const int64_t byte = RowBytes(kType, begin) + lane % kLines * kPrefetchLine;
  const int64_t scale_output = first_output + lane % kOutputTile;
#pragma unroll
  for (int w = 0; w < kWeights; ++w) {
    const auto* bytes = static_cast<const std::byte*>(in.weights[w]) + output * row_bytes + byte;
#pragma unroll
    for (int row = 0; row < kOutputTile; row += kWarp / kLines) {
      if (byte < RowBytes(kType, end) && output + row < in.n) Prefetch(bytes + row * row_bytes);
    }
    if (lane < kOutputTile && begin < end && scale_output < in.n) {
      Prefetch(ScalesOf(in.weights[w], kType, in.n, in.stride) +
               (scale_output * in.stride + begin) / kGroupInputs);
    }
  }
}

// The sums of a warp in shared memory.
template <int kWeights, int kTiles>
using PartialSums = float[kWeights][kTiles * kTokenTile][kSumPitch];

// Rows that an earlier kernel prepares in memory.
struct RowsInMemory {
  static constexpr bool kInShared = false;

  template <int kWeights>
  __device__ __forceinline__ void Await(ProductOperands<kWeights>&, void*, void*) const {
    AwaitEarlierKernels();
  }
};

// Block (x, y) computes outputs of at most kTiles tiles of tokens. x says which tiles of tokens, y
// says which outputs: 8 / splits tiles of 16. A warp computes one tile of outputs over one split of
// the inputs. The sums of the splits are added through shared memory, in the splits' order. Blocks
// that read the same weights are neighbours.
// rows.Await(in, scratch, room) waits for the earlier kernels and then sets the rows of `in`. With
// kInShared the rows are in shared memory at `room`, which the launch adds to the memory of the
// sums. Until the sums are written, their memory is scratch for Await.
template <DType kType, int kWeights, int kTiles, typename Rows, typename Epilogue>
__global__ void __launch_bounds__(kGemvThreads, 2)
    GemvMmaKernel(ProductOperands<kWeights> in, Rows rows, int splits, Epilogue epilogue) {
  constexpr int kTokens = kTiles * kTokenTile;
  auto* partial = SharedMemory<PartialSums<kWeights, kTiles>>();  // [kGemvWarps]
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int g = static_cast<int>(threadIdx.x) % kWarp / 4, t = static_cast<int>(threadIdx.x) % 4;
  const int tiles = kGemvWarps / splits;
  const int64_t first_tile = int64_t{blockIdx.y} * tiles;
  const int64_t first_output = (first_tile + warp / splits) * kOutputTile;
  const int64_t first_row = int64_t{blockIdx.x} * kTokens;
  const int num_rows = static_cast<int>(min(in.num_rows - first_row, int64_t{kTokens}));
  const int stride = static_cast<int>(in.stride);
  const int steps = (stride + kStepOfGroups - 1) / kStepOfGroups;
  const int share = (steps + splits - 1) / splits * kStepOfGroups;
  const int begin = warp % splits * share;
  const int end = min(begin + share, stride);
  if (blockIdx.x == 0 && blockIdx.y < kPrefetchBlocks) {
    PrefetchRows<kType>(in, first_output, begin, end);
  }
  rows.Await(in, partial, partial + kGemvWarps);

  float sums[kWeights][kTiles][4] = {};
  if (first_output < in.n) {
    const int64_t row = in.first_row + first_row;
    SumGroups<kType, Rows::kInShared>(in, first_output, row, num_rows, begin, end, sums);
  }
  LetNextKernelStart();
#pragma unroll
  for (int w = 0; w < kWeights; ++w) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int token = kTokenTile * tile + 2 * t;
      partial[warp][w][token][g] = sums[w][tile][0];
      partial[warp][w][token + 1][g] = sums[w][tile][1];
      partial[warp][w][token][g + 8] = sums[w][tile][2];
      partial[warp][w][token + 1][g + 8] = sums[w][tile][3];
    }
  }
  __syncthreads();

  for (int i = static_cast<int>(threadIdx.x); i < tiles * num_rows * kOutputTile;
       i += kGemvThreads) {
    const int output = i % kOutputTile;
    const int row = i / kOutputTile % num_rows;
    const int tile = i / kOutputTile / num_rows;
    const int64_t column = (first_tile + tile) * kOutputTile + output;
    if (column >= in.n) continue;
    float total[kWeights] = {};
#pragma unroll
    for (int w = 0; w < kWeights; ++w) {
      for (int s = 0; s < splits; ++s) total[w] += partial[tile * splits + s][w][row][output];
    }
    epilogue(in.first_row + first_row + row, column, total);
  }
}

// A block computes 8 outputs for a tile of 8 tokens; a warp computes an output. Blocks of the same
// outputs are neighbours, so all but the first find the weights in L2. A lane sums every 32nd
// vector of inputs.
template <typename T, int kWeights, typename Epilogue>
__global__ void __launch_bounds__(kGemvThreads, 4)
    GemvFmaKernel(ProductOperands<kWeights> in, Epilogue epilogue) {
  AwaitEarlierKernels();
  constexpr int kVector = 16 / sizeof(T);
  const unsigned tiles = CeilDiv(in.num_rows, kTokenTile);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t column = int64_t{blockIdx.x / tiles} * kGemvWarps + threadIdx.x / kWarp;
  if (column >= in.n) return;
  const int64_t first_token = int64_t{blockIdx.x % tiles} * kTokenTile;
  const int tokens = static_cast<int>(min(in.num_rows - first_token, int64_t{kTokenTile}));
  const float* x = static_cast<const float*>(in.rows) + (in.first_row + first_token) * in.stride;

  float sums[kWeights][kTokenTile] = {};
#pragma unroll 2
  for (int64_t k = lane * kVector; k < in.stride; k += kWarp * kVector) {
    T weights[kWeights][kVector];
#pragma unroll
    for (int w = 0; w < kWeights; ++w) {
      const uint4 words = LoadOnce(static_cast<const T*>(in.weights[w]) + column * in.stride + k);
      memcpy(weights[w], &words, sizeof(words));
    }
#pragma unroll
    for (int token = 0; token < kTokenTile; ++token) {
      if (token >= tokens) break;
      float inputs[kVector];
#pragma unroll
      for (int i = 0; i < kVector; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(x + token * in.stride + k + i);
        memcpy(inputs + i, &four, sizeof(four));
      }
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
#pragma unroll
        for (int w = 0; w < kWeights; ++w) {
          sums[w][token] = __fmaf_rn(Widen(weights[w][i]), inputs[i], sums[w][token]);
        }
      }
    }
  }
#pragma unroll
  for (int token = 0; token < kTokenTile; ++token) {
    if (token >= tokens) break;
    float total[kWeights];
#pragma unroll
    for (int w = 0; w < kWeights; ++w) total[w] = WarpSum(sums[w][token]);
    if (lane == token) epilogue(in.first_row + first_token + token, column, total);
  }
}

// The number of blocks along the outputs.
inline unsigned GemvBlocks(int64_t n, int64_t stride) {
  return CeilDiv(n, kGemvWarps / GemvSplits(n, stride) * kOutputTile);
}

template <int kWeights, int kTiles>
constexpr size_t kSumBytes = kGemvWarps * sizeof(PartialSums<kWeights, kTiles>);

// `row_bytes`: bytes of shared memory for the rows.
template <DType kType, int kTiles, int kWeights, typename Epilogue, typename Rows = RowsInMemory>
void LaunchGemvMma(Stream& stream, const ProductOperands<kWeights>& in, const Epilogue& epilogue,
                   const Rows& rows = {}, size_t row_bytes = 0) {
  const LaunchShape shape = {
      {CeilDiv(in.num_rows, kTiles * kTokenTile), GemvBlocks(in.n, in.stride)},
      kGemvThreads,
      kSumBytes<kWeights, kTiles> + row_bytes};
  Launch(stream, shape, GemvMmaKernel<kType, kWeights, kTiles, Rows, Epilogue>, in, rows,
         GemvSplits(in.n, in.stride), epilogue);
}

template <typename T, int kWeights, typename Epilogue>
void LaunchGemvFma(Stream& stream, const ProductOperands<kWeights>& in, const Epilogue& epilogue) {
  Launch(stream, {CeilDiv(in.n, kGemvWarps) * CeilDiv(in.num_rows, kTokenTile), kGemvThreads},
         GemvFmaKernel<T, kWeights, Epilogue>, in, epilogue);
}

// Two kernels serve all numbers of rows, because SumGroups skips a block's tiles that have no
// tokens. With two weights a block takes 32 tokens: 64 would spill more than twice as many
// registers. The block of the next 32 tokens finds the weights in L2.
template <DType kType, int kWeights, typename Epilogue>
void LaunchGroups(Stream& stream, const ProductOperands<kWeights>& in, const Epilogue& epilogue) {
  if (in.num_rows <= kTokenTile) return LaunchGemvMma<kType, 1>(stream, in, epilogue);
  LaunchGemvMma<kType, kMaxTokenTiles / kWeights>(stream, in, epilogue);
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_GEMV_CUH_
