// Products of more than 32 rows with a bf16 weight, for decode rows. All warps of a block multiply
// the same inputs: the block copies a slice of inputs of its weight rows and of its tokens to
// shared memory, where each warp reads the rows and the tokens of its part of the tile. (In
// gemv_ring.cuh every warp reads all tokens for 16 weight rows, which is less work for few tokens.)
//
// An output has the bits that GemvRingKernel gives it. Its inputs are divided into eight shares:
// share w has pieces w, w + 8, w + 16 ... of 128 inputs. A block adds up the products of one share
// after the other, with the mma and in the order of a ring's warp w, and adds the sums of the
// shares in their order.
//
//   L2 delivers the weights once for each tile of tokens, and the tokens once for each tile of
//   weight rows: n T k 2 (1 / height + 1 / tokens) bytes in all for n weight rows and T tokens.
//   With 64 tokens and tiles of 64 x 64 that is twice the weights. Tiles must not be so high that
//   SMs have none, so the height depends on n (decode_product.cuh).
//
//   Shared memory delivers 128 bytes in a cycle. A warp that multiplies 32 weight rows and 32
//   tokens reads 4 KiB for each 32 inputs, and tensor cores need about 26 cycles for its products,
//   so eight warps read 256 cycles long and multiply 206. So that both happen at the same time, a
//   warp reads the operands of a step before it multiplies those of the step before.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_BLOCK_PRODUCT_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_BLOCK_PRODUCT_CUH_

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/stream.h"
#include "kernels/cuda/gemm/gemv.cuh"
#include "kernels/cuda/gemm/gemv_ring.cuh"
#include "kernels/cuda/gemm/product.cuh"
#include "kernels/cuda/primitives/device_limits.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/mma.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/shared.cuh"
#include "kernels/cuda/primitives/warp.cuh"

namespace longstream::cuda {

// The tile of a block: weight rows and tokens, and those of a warp; the inputs of a slice; and the
// slices that shared memory holds.
template <int kRows_, int kTokens_, int kWarpRows_, int kWarpTokens_, int kInputs_, int kSlices_>
struct BlockTile {
  static constexpr int kRows = kRows_;
  static constexpr int kTokens = kTokens_;
  static constexpr int kWarpRows = kWarpRows_;
  static constexpr int kWarpTokens = kWarpTokens_;
  static constexpr int kInputs = kInputs_;
  static constexpr int kSlices = kSlices_;

  static constexpr int kParts = kPieceInputs / kInputs;  // slices of a piece
  static constexpr int kSteps = kInputs / kStepInputs;   // steps of a slice
  static constexpr int kVectors = kInputs / 8;           // 16-byte vectors of a row of a slice
  static constexpr int kRowTiles = kWarpRows / kOutputTile;
  static constexpr int kTokenTiles = kWarpTokens / kTokenTile;
  static constexpr int kWarpsAcross = kTokens / kWarpTokens;
  static constexpr int kThreads = kRows / kWarpRows * kWarpsAcross * kWarp;
  static constexpr size_t kSliceBytes = size_t{kRows + kTokens} * kInputs * sizeof(BF16);
  static constexpr size_t kBytes = kSlices * kSliceBytes;

  // The rows that all threads copy together. A thread copies the same vector of each of its rows.
  static constexpr int kRowsAtOnce = kThreads / kVectors;

  static_assert(kRowsAtOnce % kOutputTile == 0);
  static_assert(kSteps % 2 == 0 && kBytes <= kMaxSharedBytes);
};

// The place of a 16-byte vector of a row. The vectors of two neighbouring rows that eight lanes
// read together are in different banks.
__device__ __forceinline__ int SwizzledVector(int row, int vector) {
  return vector ^ (row & 1) * 4;
}

// The place of a slice in the order of the inputs: share after share, the pieces of a share in
// order, and the parts of a piece in order.
template <int kParts>
struct SlicePlace {
  int piece = 0;
  int part = 0;

  // Returns whether this slice was the last of its share.
  __device__ __forceinline__ bool Advance(int pieces) {
    if (++part < kParts) return false;
    part = 0;
    piece += kGemvWarps;
    if (piece < pieces) return false;
    piece = piece % kGemvWarps + 1;
    return true;
  }
};

// Copies slices of kCount rows of a matrix [*, stride] to shared memory.
template <typename Tile, int kCount>
class SliceCopies {
 public:
  // `first`: the thread's first row. The next one is `step` elements further in the matrix, and
  // counts as row_step rows. Rows from number num_rows on become zeros; the first is row `row`.
  __device__ SliceCopies(const BF16* first, int step, int row, int row_step, int num_rows)
      : first_(first), step_(step), rows_((num_rows - row + row_step - 1) / row_step) {}

  static __device__ __forceinline__ int FirstRow() {
    return static_cast<int>(threadIdx.x) / Tile::kVectors;
  }
  static __device__ __forceinline__ int Vector() {
    return static_cast<int>(threadIdx.x) % Tile::kVectors;
  }

  __device__ __forceinline__ void Start(const SlicePlace<Tile::kParts>& place, int stride,
                                        BF16* to) const {
    const int input = place.piece * kPieceInputs + place.part * Tile::kInputs + 8 * Vector();
    const bool has_input = input < stride;
    const BF16* const from = first_ + (has_input ? input : 0);
    to += FirstRow() * Tile::kInputs + 8 * SwizzledVector(FirstRow(), Vector());
#pragma unroll
    for (int i = 0; i < (kCount + Tile::kRowsAtOnce - 1) / Tile::kRowsAtOnce; ++i) {
      if (kCount % Tile::kRowsAtOnce != 0 && FirstRow() + i * Tile::kRowsAtOnce >= kCount) break;
      const bool exists = has_input && i < rows_;
      __pipeline_memcpy_async(to + i * Tile::kRowsAtOnce * Tile::kInputs,
                              exists ? from + int64_t{i} * step_ : first_, 16, exists ? 0 : 16);
    }
  }

 private:
  const BF16* const first_;
  const int step_;
  const int rows_;  // how many of the thread's rows exist
};

// A lane's operands of a step, which is 32 inputs.
template <typename Tile>
struct StepOperands {
  uint4 a[Tile::kRowTiles][2];
  uint4 b[Tile::kTokenTiles];
};

__device__ __forceinline__ uint4 ReadVector(const BF16* from) {
  return *reinterpret_cast<const uint4*>(from);
}

// The place of the lane's vector of a step among 8 rows of a slice.
template <typename Tile>
__device__ __forceinline__ int VectorPlace(int step) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int g = lane / 4, t = lane % 4;
  return g * Tile::kInputs + 8 * SwizzledVector(g, 4 * step + t);
}

// `weights` and `tokens` are the warp's first rows in the slice.
template <typename Tile>
__device__ __forceinline__ void ReadStep(const BF16* weights, const BF16* tokens, int step,
                                         StepOperands<Tile>& operands) {
  const int place = VectorPlace<Tile>(step);
#pragma unroll
  for (int i = 0; i < Tile::kRowTiles; ++i) {
    operands.a[i][0] = ReadVector(weights + i * kOutputTile * Tile::kInputs + place);
    operands.a[i][1] = ReadVector(weights + (i * kOutputTile + 8) * Tile::kInputs + place);
  }
#pragma unroll
  for (int j = 0; j < Tile::kTokenTiles; ++j) {
    operands.b[j] = ReadVector(tokens + j * kTokenTile * Tile::kInputs + place);
  }
}

// sums += the products of 16 weight rows and the warp's tokens. Products of the same sums follow
// each other at a distance, because each waits for the one before.
template <int kTokenTiles>
__device__ __forceinline__ void MultiplyRowTile(const uint4 (&a)[2], const uint4 (&b)[kTokenTiles],
                                                float (&sums)[kTokenTiles][4]) {
#pragma unroll
  for (int j = 0; j < kTokenTiles; ++j) {
    MultiplyAdd(sums[j], {a[0].x, a[1].x, a[0].y, a[1].y}, {b[j].x, b[j].y});
  }
#pragma unroll
  for (int j = 0; j < kTokenTiles; ++j) {
    MultiplyAdd(sums[j], {a[0].z, a[1].z, a[0].w, a[1].w}, {b[j].z, b[j].w});
  }
}

template <typename Tile>
__device__ __forceinline__ void MultiplyStep(const StepOperands<Tile>& operands,
                                             float (&sums)[Tile::kRowTiles][Tile::kTokenTiles][4]) {
#pragma unroll
  for (int i = 0; i < Tile::kRowTiles; ++i) MultiplyRowTile(operands.a[i], operands.b, sums[i]);
}

// Adds the sums to the totals and clears them.
template <int kRowTiles, int kTokenTiles>
__device__ __forceinline__ void AddShare(float (&sums)[kRowTiles][kTokenTiles][4],
                                         float (&totals)[kRowTiles][kTokenTiles][4]) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kTokenTiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        totals[i][j][e] += sums[i][j][e];
        sums[i][j][e] = 0.0f;
      }
    }
  }
}

// A block's part of the product: the first of its outputs and rows, and how many there are.
struct BlockPart {
  int64_t first_output;
  int64_t first_row;
  int num_outputs;
  int num_rows;
};

// Among 16 neighbouring rows of a tile, those from 16 / kWeights on belong to the second weight.
template <int kWeights, typename Tile>
__device__ __forceinline__ SliceCopies<Tile, Tile::kRows> WeightCopiesOf(
    const ProductOperands<kWeights>& in, const BlockPart& part) {
  constexpr int kWeightRows = kOutputTile / kWeights;
  constexpr int kOutputStep = Tile::kRowsAtOnce / kWeights;
  const int stride = static_cast<int>(in.stride);
  const int row = SliceCopies<Tile, Tile::kRows>::FirstRow();
  const int output = row / kOutputTile * kWeightRows + row % kWeightRows;
  const auto* const weight = static_cast<const BF16*>(
      row % kOutputTile < kWeightRows ? in.weights[0] : in.weights[kWeights - 1]);
  const int64_t offset = output < part.num_outputs ? (part.first_output + output) * stride : 0;
  return {weight + offset, kOutputStep * stride, output, kOutputStep, part.num_outputs};
}

template <int kWeights, typename Tile>
__device__ __forceinline__ SliceCopies<Tile, Tile::kTokens> TokenCopiesOf(
    const ProductOperands<kWeights>& in, const BlockPart& part) {
  const int stride = static_cast<int>(in.stride);
  const int row = SliceCopies<Tile, Tile::kTokens>::FirstRow();
  const int64_t first = in.first_row + part.first_row + (row < part.num_rows ? row : 0);
  return {static_cast<const BF16*>(in.rows) + first * stride, Tile::kRowsAtOnce * stride, row,
          Tile::kRowsAtOnce, part.num_rows};
}

// A warp's weight rows and tokens of a slice in shared memory.
struct SliceOfWarp {
  const BF16* weights;
  const BF16* tokens;
};

// Waits for the copies of the slice after those that are there. Behind the barrier no warp reads
// the slice before it.
template <typename Tile>
__device__ __forceinline__ void AwaitSlice() {
  __pipeline_wait_prior(Tile::kSlices - 2);
  __syncthreads();
}

// Multiplies a slice, whose first step has been read to operands[0], and reads the first step of
// the next slice to operands[0].
template <typename Tile>
__device__ __forceinline__ void MultiplySlice(
    const SliceOfWarp& slice, const SliceOfWarp& next, bool has_tokens,
    StepOperands<Tile> (&operands)[2], float (&sums)[Tile::kRowTiles][Tile::kTokenTiles][4]) {
#pragma unroll
  for (int step = 0; step < Tile::kSteps; ++step) {
    const bool is_last = step + 1 == Tile::kSteps;
    if (is_last) AwaitSlice<Tile>();
    if (!has_tokens) continue;
    const SliceOfWarp& from = is_last ? next : slice;
    ReadStep<Tile>(from.weights, from.tokens, is_last ? 0 : step + 1, operands[(step + 1) % 2]);
    MultiplyStep<Tile>(operands[step % 2], sums);
  }
}

// Calls the epilogue for the lane's outputs. `row` and `token` are the warp's first ones in the
// tile.
template <int kWeights, typename Tile, typename Epilogue>
__device__ __forceinline__ void WriteTotals(
    const float (&totals)[Tile::kRowTiles][Tile::kTokenTiles][4], const BlockPart& part,
    int64_t first_row, int row, int token, const Epilogue& epilogue) {
  const int g = static_cast<int>(threadIdx.x) % kWarp / 4, t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int j = 0; j < Tile::kTokenTiles; ++j) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int column_of_tile = token + j * kTokenTile + 2 * t + odd;
      if (column_of_tile >= part.num_rows) continue;
#pragma unroll
      for (int i = 0; i < Tile::kRowTiles; ++i) {
        const int output = (row + i * kOutputTile) / kWeights + g;
#pragma unroll
        for (int half = 0; half < 2 / kWeights; ++half) {
          if (output + 8 * half >= part.num_outputs) continue;
          float total[kWeights];
#pragma unroll
          for (int w = 0; w < kWeights; ++w) total[w] = totals[i][j][2 * (half + w) + odd];
          epilogue(first_row + column_of_tile, part.first_output + output + 8 * half, total);
        }
      }
    }
  }
}

// Block (x, y) computes tokens from kTokens x on, and outputs from kRows / kWeights y on. With two
// weights, 16 rows of a tile are 8 rows of each, so that one lane has both sums of an output.
template <int kWeights, typename Tile, typename Epilogue>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    BlockProductKernel(ProductOperands<kWeights> in, Epilogue epilogue) {
  constexpr int kTokensPlace = Tile::kRows * Tile::kInputs;  // behind the weights of a slice
  constexpr int kOutputs = Tile::kRows / kWeights;
  auto* const slices = SharedMemory<BF16>();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  BlockPart part = {int64_t{blockIdx.y} * kOutputs, int64_t{blockIdx.x} * Tile::kTokens, 0, 0};
  part.num_outputs = static_cast<int>(min(in.n - part.first_output, int64_t{kOutputs}));
  part.num_rows = static_cast<int>(min(in.num_rows - part.first_row, int64_t{Tile::kTokens}));
  const int stride = static_cast<int>(in.stride);
  const int pieces = (stride + kPieceInputs - 1) / kPieceInputs;
  const auto weights = WeightCopiesOf<kWeights, Tile>(in, part);
  const auto tokens = TokenCopiesOf<kWeights, Tile>(in, part);
  const auto slice_at = [&](int slot) {
    return slices + slot * (Tile::kSliceBytes / sizeof(BF16));
  };

  // The weights of the first slices are copied while earlier kernels still run.
  const int count = pieces * Tile::kParts;
  SlicePlace<Tile::kParts> next;
#pragma unroll
  for (int i = 0; i < Tile::kSlices - 1; ++i) {
    if (i < count) weights.Start(next, stride, slice_at(i));
    next.Advance(pieces);
  }
  AwaitEarlierKernels();
  next = {};
#pragma unroll
  for (int i = 0; i < Tile::kSlices - 1; ++i) {
    if (i < count) tokens.Start(next, stride, slice_at(i) + kTokensPlace);
    next.Advance(pieces);
    __pipeline_commit();
  }

  const int row = warp / Tile::kWarpsAcross * Tile::kWarpRows;
  const int token = warp % Tile::kWarpsAcross * Tile::kWarpTokens;
  const bool has_tokens = token < part.num_rows;
  const auto of_warp = [&](int slot) {
    return SliceOfWarp{slice_at(slot) + row * Tile::kInputs,
                       slice_at(slot) + kTokensPlace + token * Tile::kInputs};
  };
  float sums[Tile::kRowTiles][Tile::kTokenTiles][4] = {};
  float totals[Tile::kRowTiles][Tile::kTokenTiles][4] = {};
  SlicePlace<Tile::kParts> place;
  int slot = 0;
  int free_slot = Tile::kSlices - 1;
  StepOperands<Tile> operands[2];
  AwaitSlice<Tile>();
  if (has_tokens) ReadStep<Tile>(of_warp(0).weights, of_warp(0).tokens, 0, operands[0]);
  for (int i = 0; i < count; ++i) {
    if (i + Tile::kSlices - 1 < count) {
      weights.Start(next, stride, slice_at(free_slot));
      tokens.Start(next, stride, slice_at(free_slot) + kTokensPlace);
      next.Advance(pieces);
    } else {
      LetNextKernelStart();
    }
    __pipeline_commit();
    const int next_slot = slot + 1 == Tile::kSlices ? 0 : slot + 1;
    MultiplySlice<Tile>(of_warp(slot), of_warp(next_slot), has_tokens, operands, sums);
    if (place.Advance(pieces)) AddShare(sums, totals);
    slot = next_slot;
    free_slot = free_slot + 1 == Tile::kSlices ? 0 : free_slot + 1;
  }
  __pipeline_wait_prior(0);
  WriteTotals<kWeights, Tile>(totals, part, in.first_row + part.first_row, row, token, epilogue);
}

template <int kWeights, typename Tile, typename Epilogue>
void LaunchBlockProduct(Stream& stream, const ProductOperands<kWeights>& in,
                        const Epilogue& epilogue) {
  const LaunchShape shape = {
      {CeilDiv(in.num_rows, Tile::kTokens), CeilDiv(in.n, Tile::kRows / kWeights)},
      Tile::kThreads,
      Tile::kBytes};
  Launch(stream, shape, BlockProductKernel<kWeights, Tile, Epilogue>, in, epilogue);
}

using Tile64x32 = BlockTile<64, 32, 16, 16, 128, 6>;
using Tile32x64 = BlockTile<32, 64, 16, 16, 128, 6>;
using Tile64x64 = BlockTile<64, 64, 32, 16, 128, 4>;
using Tile128x64 = BlockTile<128, 64, 32, 32, 64, 6>;

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_BLOCK_PRODUCT_CUH_
