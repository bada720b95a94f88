// Products of few rows with a weight, for decode rows. Every weight is read once for up to 64 rows
// (bf16, int8, int4) or 8 rows (f32, f16). The order of each output's sum depends on n and k alone.
// Products with int8 and int4 weights run here for any number of rows, prefill rows included.
//
// bf16 weights are multiplied by mma with 16 weight rows as A and 8 tokens as B. Both are [*, k]
// row-major. Lane 4 g + t reads 16 bytes, elements k + 8 t ... k + 8 t + 7, of token g and of
// weight rows g and g + 8. These are the fragments of two products of 16 inputs each: the inputs
// are in another order than mma's, but in the same order on both sides. So no shuffle is needed
// between memory and the tensor core. Shared memory is needed only for the few rows that a block
// prepares itself (fused_product.cuh).
//
//   At 1 to 8 rows a warp spends 2 mma of 2048 products on 1 KiB of weights. An H200 streams
//   4.3 TB/s / 132 SMs / 1.75 GHz = 19 bytes per SM and cycle, which is 1 KiB in 55 cycles. An SM
//   could do 27 mma in that time. It uses 7% of them at 8 rows (and at 1), 60% at 64.
//   To hide 1 us of latency, 4.3 MB must be in flight, 32 KiB per SM. 16 warps with 16 loads of 512
//   bytes each have 128 KiB in flight. Between two such batches a warp has nothing in flight, so
//   products with one block an SM reach 0.80 of the speed of a copy on an H200. (A ring in shared
//   memory, which a warp refilled by 64 bytes of each of 16 rows at a time, reached 0.59. Memory
//   prefers the 512 contiguous bytes of a row that a batch reads.)
//
//   Before a warp waits for its rows, it prefetches the bytes of those loads into L2: 64 KiB a
//   block, at most 17 MB in all. That is a third of an H200's L2, and takes 4 us from memory.
//   Meanwhile the earlier kernels end and the rows are prepared.
//
// int8 and int4 weights are multiplied in the same way, in groups of 32 inputs (group_sums.cuh).
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
// all others. Such a block waits for the reads of its 8 warps: it takes 8 us for 64 outputs of 5120
// inputs in bf16, while all blocks together take 41 us. The number depends on n and the stride
// alone, so the order of the sums is the same at every number of rows.
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

// Computes a warp's sums over the inputs [begin, end), for 16 outputs and num_rows tokens. The
// outputs begin at first_output, the tokens at first_row. sums[w][tile] is what mma calls D: the
// sums with weight w of the tile's 8 tokens.
template <int kWeights, int kTiles>
__device__ __forceinline__ void SumTiles(const ProductOperands<kWeights>& in, int64_t first_output,
                                         int64_t first_row, int num_rows, int begin, int end,
                                         float (&sums)[kWeights][kTiles][4]) {
  // Steps whose weights are loaded before the first one is used. Registers limit their number.
  constexpr int kSteps = (kTiles == 1 ? 8 : kTiles == 8 ? 2 : 4) / kWeights;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int g = lane / 4, t = lane % 4;
  const bool has_upper = first_output + g < in.n;
  const bool has_lower = first_output + g + 8 < in.n;
  const uint4 zero = {0, 0, 0, 0};
  const int stride = static_cast<int>(in.stride);
  const int64_t offset = (first_output + g) * in.stride + 8 * t;
  const BF16* x = static_cast<const BF16*>(in.rows) + (first_row + g) * in.stride + 8 * t;
  for (int k = begin; k < end; k += kSteps * kStepInputs) {
    uint4 upper[kSteps][kWeights], lower[kSteps][kWeights];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int i = k + s * kStepInputs;
      const bool inside = i + 8 * t < end;
#pragma unroll
      for (int w = 0; w < kWeights; ++w) {
        const BF16* weight = static_cast<const BF16*>(in.weights[w]) + offset + i;
        upper[s][w] = inside && has_upper ? LoadOnce(weight) : zero;
        lower[s][w] = inside && has_lower ? LoadOnce(weight + 8 * stride) : zero;
      }
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int i = k + s * kStepInputs;
      const bool inside = i + 8 * t < end;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const bool has_token = kTokenTile * tile + g < num_rows;
        const uint4 token =
            inside && has_token
                ? *reinterpret_cast<const uint4*>(x + kTokenTile * tile * stride + i)
                : zero;
#pragma unroll
        for (int w = 0; w < kWeights; ++w) {
          const uint4 &a = upper[s][w], &b = lower[s][w];
          MultiplyAdd(sums[w][tile], {a.x, b.x, a.y, b.y}, {token.x, token.y});
          MultiplyAdd(sums[w][tile], {a.z, b.z, a.w, b.w}, {token.z, token.w});
        }
      }
    }
  }
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
    if (IsQuantised(kType) && lane < kOutputTile && begin < end && scale_output < in.n) {
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
  constexpr int kStep = kType == DType::kBF16 ? kStepInputs : kStepOfGroups;
  const int steps = (stride + kStep - 1) / kStep;
  const int share = (steps + splits - 1) / splits * kStep;
  const int begin = warp % splits * share;
  const int end = min(begin + share, stride);
  if (blockIdx.x == 0 && blockIdx.y < kPrefetchBlocks) {
    PrefetchRows<kType>(in, first_output, begin, end);
  }
  rows.Await(in, partial, partial + kGemvWarps);

  float sums[kWeights][kTiles][4] = {};
  if (first_output < in.n) {
    const int64_t row = in.first_row + first_row;
    if constexpr (kType == DType::kBF16) {
      SumTiles<kWeights, kTiles>(in, first_output, row, num_rows, begin, end, sums);
    } else {
      SumGroups<kType, Rows::kInShared>(in, first_output, row, num_rows, begin, end, sums);
    }
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

// Serves any number of rows. `type` is the type of the weights.
template <int kWeights, typename Epilogue>
void Gemv(Stream& stream, DType type, const ProductOperands<kWeights>& in,
          const Epilogue& epilogue) {
  if (in.num_rows == 0) return;
  switch (type) {
    case DType::kF32:
      return LaunchGemvFma<float>(stream, in, epilogue);
    case DType::kF16:
      return LaunchGemvFma<F16>(stream, in, epilogue);
    case DType::kI8:
      return LaunchGroups<DType::kI8>(stream, in, epilogue);
    case DType::kI4:
      return LaunchGroups<DType::kI4>(stream, in, epilogue);
    case DType::kBF16:
      break;
  }
  if (in.num_rows <= kTokenTile) {
    LaunchGemvMma<DType::kBF16, 1>(stream, in, epilogue);
  } else if (in.num_rows <= 2 * kTokenTile) {
    LaunchGemvMma<DType::kBF16, 2>(stream, in, epilogue);
  } else if (in.num_rows <= 4 * kTokenTile) {
    LaunchGemvMma<DType::kBF16, 4>(stream, in, epilogue);
  } else {
    LaunchGemvMma<DType::kBF16, kMaxTokenTiles>(stream, in, epilogue);
  }
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_GEMV_CUH_
