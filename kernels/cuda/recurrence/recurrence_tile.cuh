// Shared parts of the linear recurrence of prefill rows: the tiles of 64 rows in shared memory that
// are multiplied, and the decays between the rows of a block.
#ifndef LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_TILE_CUH_
#define LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_TILE_CUH_

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "kernels/cuda/primitives/warp.cuh"
#include "kernels/cuda/recurrence/recurrence_rows.cuh"

namespace longstream::cuda {

inline constexpr int kTileRows = kMaxRecurrenceGrid;
inline constexpr int kPanel = 64;  // key elements of a tile
inline constexpr int kTileThreads = 256;
inline constexpr int kTileWarps = kTileThreads / kWarp;
inline constexpr int kSubRows = 16;  // rows of a sub-block, within which decays are summed
inline constexpr int kSubBlocks = kTileRows / kSubRows;
// Floats from one row of a tile to the next. kRowStride is for fragments that are read along rows
// (split_product.cuh), kColumnStride for those that are read down columns. With them, lanes 4 g + t
// read rows t and columns g from 32 different banks.
inline constexpr int kRowStride = kPanel + 4;
inline constexpr int kColumnStride = kPanel + 8;

// A thread decays one column of a panel in one sub-block of rows.
static_assert(kTileThreads == kPanel * kSubBlocks);
__device__ __forceinline__ int PanelColumn() { return static_cast<int>(threadIdx.x) % kPanel; }
__device__ __forceinline__ int PanelSubBlock() { return static_cast<int>(threadIdx.x) / kPanel; }

// Starts copies of elements [first, first + kColumns) of the 64 rows row_of(r) to `to` [64,
// stride]. Elements from `width` on and rows that are nullptr become zero. All threads of the block
// must call it.
template <int kColumns, typename RowOf>
__device__ __forceinline__ void CopyTile(const RowOf& row_of, int64_t first, int64_t width,
                                         float* to, int stride) {
  constexpr int kElements = 4;  // elements of a copy
  constexpr int kChunks = kColumns / kElements;
  constexpr int kRowsAtOnce = kTileThreads / kChunks;
  constexpr int kCopies = kTileRows / kRowsAtOnce;
  static_assert(kTileThreads % kChunks == 0 && kTileRows % kRowsAtOnce == 0);
  const int column = static_cast<int>(threadIdx.x) % kChunks * kElements;
  const int first_row = ComputedAnew(static_cast<int>(threadIdx.x) / kChunks);
  to += first_row * stride + column;
  first += column;
  const float* from[kCopies];
  bool whole = first + kElements <= width;
#pragma unroll
  for (int i = 0; i < kCopies; ++i) {
    from[i] = row_of(first_row + i * kRowsAtOnce);
    whole = whole && from[i] != nullptr &&
            reinterpret_cast<uint64_t>(from[i] + first) % (kElements * sizeof(float)) == 0;
  }
  if (whole) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      __pipeline_memcpy_async(to + i * kRowsAtOnce * stride, from[i] + first,
                              kElements * sizeof(float));
    }
    return;
  }
#pragma unroll 1
  for (int i = 0; i < kCopies; ++i) {
    const float* row = row_of(first_row + i * kRowsAtOnce);
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      to[i * kRowsAtOnce * stride + e] =
          row != nullptr && first + e < width ? row[first + e] : 0.0f;
    }
  }
}

// The log-gates of one sub-block and key element; 0 for rows that the block does not have yet.
struct SubBlockGates {
  float log[kSubRows];
  float total;

  __device__ __forceinline__ SubBlockGates(const RecurrenceRows& rows, const GridBlock& block,
                                           int64_t key) {
    const int first = ComputedAnew(PanelSubBlock() * kSubRows);
    const bool exists = key < rows.key_dim();
    total = 0.0f;
#pragma unroll
    for (int r = 0; r < kSubRows; ++r) {
      const int64_t position = block.line + first + r;
      log[r] = exists && position < block.end ? rows.LogGate(position, key) : 0.0f;
    }
#pragma unroll
    for (int r = 0; r < kSubRows; ++r) total += log[r];
  }
};

// ln F of each sub-block, [sub-block][key element of the panel].
using SubBlockTotals = float[kSubBlocks][kPanel];

// ln F over the sub-blocks [first, last).
__device__ __forceinline__ float SumTotals(const SubBlockTotals& totals, int column, int first,
                                           int last) {
  float sum = 0.0f;
#pragma unroll
  for (int b = 0; b < kSubBlocks; ++b) {
    if (b >= first && b < last) sum += totals[b][column];
  }
  return sum;
}

// k F(j + 1, next line - 1), from ln F to the end of its sub-block and ln F over later ones. Both
// kernels that decay keys call this function, so a state does not depend on which kernel did it.
__device__ __forceinline__ float DecayedKey(float key, float to_end, float after) {
  return __fmul_rn(key, expf(__fadd_rn(to_end, after)));
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_TILE_CUH_
