// Products of few rows with a weight, for decode rows: every weight is read once for up to 64 rows
// (bf16, int8, int4) or 8 (f32, f16), and each output is summed in an order that depends on n and k
// alone. Rows of int8, for int8 and int4 weights, come here in any number, prefill rows as well.
//
// bf16: mma with 16 weight rows as A and 8 tokens as B. Both are [*, k] row-major, so that lane
// 4 g + t reads 16 bytes, elements k + 8 t ... k + 8 t + 7, of weight rows g and g + 8 and of token
// g, and these are the fragments of two products of 16 inputs each: which input stands where is the
// same on both sides, and between memory and the tensor core lies no shuffle and, but for the few
// rows that a block prepares itself (fused_product.cuh), no shared memory.
//
//   At 1 to 8 rows a warp spends 2 mma of 2048 products on 1 KiB of weights. An H200 streams
//   4.3 TB/s / 132 SMs / 1.75 GHz = 19 bytes per SM and cycle, 1 KiB in 55 cycles, in which an SM
//   could do 27 mma: 7% of them are used at 8 rows (and at 1), 60% at 64.
//   The bytes in flight that hide 1 us of latency are 4.3 MB, 32 KiB per SM; 16 warps of 16 loads
//   of 512 bytes are 128 KiB.
//   Before it waits for its rows a warp asks L2 for what those loads will be: 64 KiB a block, at
//   most 17 MB in all, a third of an H200's L2, which memory gives in 4 us. Meanwhile the kernels
//   before it end and the rows are prepared.
//
// int8 and int4: the same with groups of 32 inputs, group_sums.cuh.
//
// f32 and f16: FMA with the f32 row, a warp an output.
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
inline constexpr int kStepInputs = 32;    // what 4 lanes of 16 bytes of bf16 cover
inline constexpr int kMaxTokenTiles = 8;  // of a block
// From a token's sums to the next, in shared memory: 16 outputs and what spreads 4 pairs of tokens
// over all banks.
inline constexpr int kSumPitch = 20;

// How many warps share the inputs of 16 outputs: until there is a block for each of 132 SMs, while
// each warp still has a batch of loads to itself. What is split is then less than two blocks an SM,
// which run all at once: few blocks left over for later would each take as long as latency lets 8
// warps read, 8 us for 64 outputs of 5120 inputs in bf16, where all together take 41. Of n and the
// stride alone, so that the order of the sums is the same at every number of rows.
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

// A warp's sums over its inputs [begin, end): sums[w][tile] is D of weight w and 8 of the num_rows
// tokens from first_row on.
template <int kWeights, int kTiles>
__device__ __forceinline__ void SumTiles(const ProductOperands<kWeights>& in, int64_t first_output,
                                         int64_t first_row, int num_rows, int begin, int end,
                                         float (&sums)[kWeights][kTiles][4]) {
  // Steps whose weights are loaded before the first is used; bounded by registers.
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

// Of the blocks that there is room for at once, two an SM of an H200: those after them find earlier
// kernels ended, and would only ask twice.
inline constexpr unsigned kPrefetchBlocks = 2 * 132;
// Of each row, or half as much of two weights' rows.
inline constexpr int kPrefetchBytes = 512;

// Prefetches the first of inputs [begin, end) of the warp's 16 outputs, and their first scales.
template <DType kType, int kWeights>
__device__ __forceinline__ void PrefetchRows(const ProductOperands<kWeights>& in,
                                             int64_t first_output, int begin, int end) {
  constexpr int kLines = kPrefetchBytes / kWeights / kPrefetchLine;  // of a row
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

// Of a warp, in shared memory.
template <int kWeights, int kTiles>
using PartialSums = float[kWeights][kTiles * kTokenTile][kSumPitch];

// Rows that a kernel before this one prepares.
struct RowsInMemory {
  static constexpr bool kInShared = false;

  template <int kWeights>
  __device__ __forceinline__ void Await(ProductOperands<kWeights>&, void*, void*) const {
    AwaitEarlierKernels();
  }
};

// Block (x, y): the x-th kTiles tiles of tokens, and 8 / splits tiles of 16 outputs; a warp a tile
// of outputs and a split of the inputs. The sums of the splits meet in shared memory and are added
// in the splits' order. Blocks that read the same weights are neighbours.
//
// rows.Await(in, scratch, room) waits for the kernels before and sees that `in` has rows; in
// shared memory, if kInShared: in `room`, which the launch adds to that of the sums. The room of
// the sums is scratch until then.
template <DType kType, int kWeights, int kTiles, typename Rows, typename Epilogue>
__global__ void __launch_bounds__(kGemvThreads, 2)
    GemvMmaKernel(ProductOperands<kWeights> in, Rows rows, int splits, Epilogue epilogue) {
  LetNextKernelStart();
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

// Block: 8 outputs, a warp each, of a tile of 8 tokens; the tiles of the same outputs are
// neighbours, so that the second finds the weights in L2. A lane sums every 32nd vector of inputs.
template <typename T, int kWeights, typename Epilogue>
__global__ void __launch_bounds__(kGemvThreads, 4)
    GemvFmaKernel(ProductOperands<kWeights> in, Epilogue epilogue) {
  BeginKernel();
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

// Blocks beside each other in the outputs.
inline unsigned GemvBlocks(int64_t n, int64_t stride) {
  return CeilDiv(n, kGemvWarps / GemvSplits(n, stride) * kOutputTile);
}

template <int kWeights, int kTiles>
constexpr size_t kSumBytes = kGemvWarps * sizeof(PartialSums<kWeights, kTiles>);

// `row_bytes`: of shared memory, for the rows.
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

// Groups skip the tiles of a block that have no tokens, so that two kernels do for all numbers. The
// sums of two weights are of 32 tokens, as 64 would spill more than twice as much; L2 has the
// weights for the next block.
template <DType kType, int kWeights, typename Epilogue>
void LaunchGroups(Stream& stream, const ProductOperands<kWeights>& in, const Epilogue& epilogue) {
  if (in.num_rows <= kTokenTile) return LaunchGemvMma<kType, 1>(stream, in, epilogue);
  LaunchGemvMma<kType, kMaxTokenTiles / kWeights>(stream, in, epilogue);
}

// Any number of rows, `type`: of the weights.
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
