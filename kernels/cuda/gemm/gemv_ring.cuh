// Products of few rows with a bf16 weight, for decode rows; block_product.cuh has those of more
// rows. Every weight is read once for up to 32 rows. The order of each output's sum depends on k
// alone.
//
// Weights are multiplied by mma with 16 weight rows as A and 8 tokens as B. Both are [*, k]
// row-major. Lane 4 g + t takes 16 bytes, elements k + 8 t ... k + 8 t + 7, of token g and of
// weight rows g and g + 8. These are the fragments of two products of 16 inputs each: the inputs
// are in another order than mma's, but in the same order on both sides. So no shuffle is needed
// between memory and the tensor core.
//
// A thread block computes one tile of 16 weight rows after the other. Its 8 warps share the inputs
// of a tile: warp w takes pieces w, w + 8, w + 16 ... of 128 inputs. The sums of the warps are then
// added through shared memory, in the order of the warps. With two weights the 16 rows are 8 rows
// of each, so that one lane has both sums of an output.
//
// If the tiles of the last round occupy at most half of the blocks, they are cut into halves of 8
// weight rows, so that twice as many blocks read (RingTiles). A matrix of 5120 outputs has 320
// tiles: 132 blocks take 2.5 rounds instead of 3. In a half, mma multiplies 8 unused rows too; what
// is in these rows changes no other row. (On an H100, in a graph, such products are 1 to 3 % faster
// than with whole tiles.)
//
// Each warp copies its pieces into a ring in shared memory, which it alone uses. One instruction
// copies 256 contiguous bytes of two rows. While a warp multiplies a piece, the copies of its next
// pieces are under way, also across tiles and during the barriers at the end of a tile:
//
//   To hide 1 us of latency at 4.3 TB/s, an H200 must have 4.3 MB in flight, 32 KiB per SM. The
//   ring has 96 KiB per SM (three pieces of 4 KiB for each warp), and 64 KiB are in flight while
//   pieces are used. So half of the SMs still fill the memory when the others have no tile left.
//
// The memory of the ring also keeps a second block off the SM. So all blocks have an SM of their
// own, and a block of the next kernel gets its place when this kernel's block on the SM ends. A
// block begins to fill its ring before it waits for the earlier kernels, because no step writes
// weights. This takes 12 MB from memory while the kernel before ends and while rows are prepared.
// For this the next kernel may start as soon as each block has started its last copies. (On an H200
// a dense step of the 14B shape with 4K tokens takes 8.01 ms; 8.10 ms if blocks wait before they
// fill their rings, and 8.14 ms if they let the next kernel start only when they end.)
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_GEMV_RING_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_GEMV_RING_CUH_

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/stream.h"
#include "kernels/cuda/gemm/gemv.cuh"
#include "kernels/cuda/gemm/product.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/mma.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/shared.cuh"
#include "kernels/cuda/primitives/warp.cuh"

namespace longstream::cuda {

inline constexpr int kPieceInputs = 128;
inline constexpr int kPieceBytes = kPieceInputs * static_cast<int>(sizeof(BF16));
// From one row of a piece to the next in shared memory. With the unused 64 bytes, the 16-byte reads
// of 8 lanes, from two rows, are in different banks.
inline constexpr int kPiecePitch = kPieceBytes + 64;
using Piece = std::byte[kOutputTile][kPiecePitch];

// The pieces of each warp's ring. More would leave too little memory for rows.
inline constexpr int kRingPieces = 3;
// The most blocks along the outputs: one for each SM of an H100 or H200. (On GPUs with fewer SMs
// the last blocks begin when others have ended.)
inline constexpr int64_t kMaxRingBlocks = 132;

template <int kWeights>
inline constexpr int kTileOutputs = kOutputTile / kWeights;

// The tiles of `n` outputs: first whole tiles, then halves. The numbering goes on from whole tiles
// to halves. Block b computes tiles b, b + blocks, b + 2 * blocks ...
struct RingTiles {
  int whole = 0;
  int tiles = 0;  // whole tiles and halves

  // The first output of a tile whose whole form has kOutputs outputs.
  template <int kOutputs>
  __device__ __forceinline__ int64_t FirstOutput(int tile) const {
    return int64_t{min(tile, whole)} * kOutputs + int64_t{max(tile - whole, 0)} * (kOutputs / 2);
  }
  __device__ __forceinline__ bool IsHalf(int tile) const { return tile >= whole; }
};

// Cuts the tiles of the last round into halves if there are blocks for all halves. The result
// depends on n alone, and it does not change the order of any output's sum.
template <int kWeights>
inline RingTiles RingTilesOf(int64_t n) {
  const int64_t tiles = CeilDiv(n, kTileOutputs<kWeights>);
  const int64_t last_round = tiles % kMaxRingBlocks;
  const int64_t whole = tiles - (2 * last_round <= kMaxRingBlocks ? last_round : 0);
  const int64_t in_halves = std::max<int64_t>(n - whole * kTileOutputs<kWeights>, 0);
  const int64_t halves = CeilDiv(in_halves, kTileOutputs<kWeights> / 2);
  return {static_cast<int>(whole), static_cast<int>(whole + halves)};
}

// The number of thread blocks along the outputs.
template <int kWeights>
inline int64_t RingBlocks(int64_t n) {
  return std::min<int64_t>(RingTilesOf<kWeights>(n).tiles, kMaxRingBlocks);
}

// The sums of a warp in shared memory, for each row of the tile.
template <int kTiles>
using RingSums = float[kTiles * kTokenTile][kSumPitch];

template <int kTiles>
inline constexpr size_t kRingBytes =
    kGemvWarps* kRingPieces * sizeof(Piece) + kGemvWarps * sizeof(RingSums<kTiles>);

// The place of a piece among those of a warp: the tile, and the number of the piece in the tile.
struct PiecePlace {
  int tile;
  int piece;

  __device__ __forceinline__ void Advance(int pieces) {
    piece += kGemvWarps;
    if (piece < pieces) return;
    piece = static_cast<int>(threadIdx.x) / kWarp;
    tile += static_cast<int>(gridDim.y);
  }
};

// Starts the copies of a piece. Rows that do not exist, and inputs beyond the stride, become zeros.
// Of a half, the second half of each weight's rows is not copied.
template <int kWeights>
__device__ __forceinline__ void CopyPiece(const ProductOperands<kWeights>& in,
                                          const RingTiles& tiles, const PiecePlace& place,
                                          Piece& to) {
  constexpr int kRowLanes = kPieceBytes / 16;          // lanes that copy a row
  constexpr int kRowsAtOnce = kWarp / kRowLanes;       // rows of one instruction
  constexpr int kWeightRows = kOutputTile / kWeights;  // rows of each weight
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int input = place.piece * kPieceInputs + lane % kRowLanes * 8;
  const bool has_input = input < in.stride;
  const int64_t first = tiles.FirstOutput<kWeightRows>(place.tile) + lane / kRowLanes;
  const bool is_half = tiles.IsHalf(place.tile);
  const int64_t offset = first * in.stride + (has_input ? input : 0);
#pragma unroll
  for (int w = 0; w < kWeights; ++w) {
    const BF16* const weight = static_cast<const BF16*>(in.weights[w]);
#pragma unroll
    for (int row = 0; row < kWeightRows; row += kRowsAtOnce) {
      if (row >= kWeightRows / 2 && is_half) break;
      const bool exists = has_input && first + row < in.n;
      __pipeline_memcpy_async(&to[w * kWeightRows + row + lane / kRowLanes][lane % kRowLanes * 16],
                              exists ? weight + offset + row * static_cast<int>(in.stride) : weight,
                              16, exists ? 0 : 16);
    }
  }
}

// Adds the products of a piece. sums[tile] is what mma calls D: the sums of the tile's 8 tokens.
// x: the rows' elements from the lane's token and inputs on.
template <int kTiles>
__device__ __forceinline__ void AddPiece(const Piece& piece, const BF16* x, int first_input,
                                         int stride, int num_rows, float (&sums)[kTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int s = 0; s < kPieceInputs / kStepInputs; ++s) {
    const int i = first_input + s * kStepInputs;
    const int byte = 2 * (s * kStepInputs + 8 * t);
    const uint4 a = *reinterpret_cast<const uint4*>(&piece[g][byte]);
    const uint4 b = *reinterpret_cast<const uint4*>(&piece[g + 8][byte]);
    const bool inside = i + 8 * t < stride;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const bool has_token = kTokenTile * tile + g < num_rows;
      uint4 token = {0, 0, 0, 0};
      if (inside && has_token) {
        token = *reinterpret_cast<const uint4*>(x + kTokenTile * tile * stride + i);
      }
      MultiplyAdd(sums[tile], {a.x, b.x, a.y, b.y}, {token.x, token.y});
      MultiplyAdd(sums[tile], {a.z, b.z, a.w, b.w}, {token.z, token.w});
    }
  }
}

// Adds the sums of the warps for the outputs of a tile, and calls the epilogue for each.
template <int kWeights, int kTiles, typename Epilogue>
__device__ __forceinline__ void FinishTile(const ProductOperands<kWeights>& in,
                                           const RingTiles& tiles, int tile, int64_t first_row,
                                           int num_rows, const RingSums<kTiles>* partial,
                                           const Epilogue& epilogue) {
  constexpr int kOutputs = kTileOutputs<kWeights>;
  const int64_t first_output = tiles.FirstOutput<kOutputs>(tile);
  const int outputs = tiles.IsHalf(tile) ? kOutputs / 2 : kOutputs;
  for (int i = static_cast<int>(threadIdx.x); i < num_rows * kOutputs; i += kGemvThreads) {
    const int output = i % kOutputs, row = i / kOutputs;
    const int64_t column = first_output + output;
    if (output >= outputs || column >= in.n) continue;
    float total[kWeights] = {};
#pragma unroll
    for (int w = 0; w < kWeights; ++w) {
#pragma unroll
      for (int warp = 0; warp < kGemvWarps; ++warp) {
        total[w] += partial[warp][row][w * kOutputs + output];
      }
    }
    epilogue(in.first_row + first_row + row, column, total);
  }
}

// Block (x, y) computes outputs of at most kTiles tiles of tokens. x says which tiles of tokens; y
// is the first tile of outputs, and further tiles follow at a distance of gridDim.y. `rows` is as
// for GemvMmaKernel.
template <int kWeights, int kTiles, typename Rows, typename Epilogue>
__global__ void __launch_bounds__(kGemvThreads, 1)
    GemvRingKernel(ProductOperands<kWeights> in, RingTiles tiles, Rows rows, Epilogue epilogue) {
  constexpr int kTokens = kTiles * kTokenTile;
  auto* rings = SharedMemory<Piece[kRingPieces]>();                         // [kGemvWarps]
  auto* partial = reinterpret_cast<RingSums<kTiles>*>(rings + kGemvWarps);  // [kGemvWarps]
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int g = static_cast<int>(threadIdx.x) % kWarp / 4, t = static_cast<int>(threadIdx.x) % 4;
  const int64_t first_row = int64_t{blockIdx.x} * kTokens;
  const int num_rows = static_cast<int>(min(in.num_rows - first_row, int64_t{kTokens}));
  const int stride = static_cast<int>(in.stride);
  const int pieces = (stride + kPieceInputs - 1) / kPieceInputs;
  Piece* const ring = rings[warp];

  // A warp without pieces copies nothing.
  PiecePlace next = {warp < pieces ? static_cast<int>(blockIdx.y) : tiles.tiles, warp};
  const auto copy = [&](int slot) {
    if (next.tile < tiles.tiles) {
      CopyPiece<kWeights>(in, tiles, next, ring[slot]);
      next.Advance(pieces);
    }
    __pipeline_commit();
  };
#pragma unroll
  for (int slot = 0; slot < kRingPieces; ++slot) copy(slot);
  rows.Await(in, partial, partial + kGemvWarps);

  const BF16* const x =
      static_cast<const BF16*>(in.rows) + (in.first_row + first_row + g) * in.stride + 8 * t;
  int slot = 0;
  for (int tile = static_cast<int>(blockIdx.y); tile < tiles.tiles;
       tile += static_cast<int>(gridDim.y)) {
    float sums[kTiles][4] = {};
    for (int piece = warp; piece < pieces; piece += kGemvWarps) {
      __pipeline_wait_prior(kRingPieces - 1);
      __syncwarp();
      AddPiece<kTiles>(ring[slot], x, piece * kPieceInputs, stride, num_rows, sums);
      __syncwarp();
      copy(slot);
      slot = slot + 1 == kRingPieces ? 0 : slot + 1;
      if (next.tile >= tiles.tiles) LetNextKernelStart();
    }
#pragma unroll
    for (int token_tile = 0; token_tile < kTiles; ++token_tile) {
      const int token = kTokenTile * token_tile + 2 * t;
      partial[warp][token][g] = sums[token_tile][0];
      partial[warp][token + 1][g] = sums[token_tile][1];
      partial[warp][token][g + 8] = sums[token_tile][2];
      partial[warp][token + 1][g + 8] = sums[token_tile][3];
    }
    __syncthreads();
    FinishTile<kWeights, kTiles>(in, tiles, tile, first_row, num_rows, partial, epilogue);
    __syncthreads();  // the sums of the next tile take the same memory
  }
  __pipeline_wait_prior(0);
}

// `row_bytes`: bytes of shared memory for the rows.
template <int kTiles, int kWeights, typename Epilogue, typename Rows = RowsInMemory>
void LaunchGemvRing(Stream& stream, const ProductOperands<kWeights>& in, const Epilogue& epilogue,
                    const Rows& rows = {}, size_t row_bytes = 0) {
  const auto blocks = static_cast<unsigned>(RingBlocks<kWeights>(in.n));
  const LaunchShape shape = {{CeilDiv(in.num_rows, kTiles * kTokenTile), blocks},
                             kGemvThreads,
                             kRingBytes<kTiles> + row_bytes};
  Launch(stream, shape, GemvRingKernel<kWeights, kTiles, Rows, Epilogue>, in,
         RingTilesOf<kWeights>(in.n), rows, epilogue);
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_GEMV_RING_CUH_
