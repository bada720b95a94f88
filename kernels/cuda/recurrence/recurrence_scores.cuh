// Linear recurrence of prefill rows, the part that needs no state: the scores within a block and,
// if decays depend on the data, the decayed queries and keys. A thread block computes one block of
// the grid for one head, so all blocks of a prefill are computed side by side.
//
// Let b >= a be sub-blocks of 16 rows, row r in b, row j in a, and tot_s = ln F over sub-block s:
//
//   score[r, j] = sum_i (q_ri F_i(first of b, r)) D_i (k_ji F_i(j + 1, last of a)),   a < b
//   D_i = exp(sum_(a < s < b) tot_si)
//
// This runs on tensor cores. Every factor is at most 1, and no exponent is a difference. Within a
// sub-block the decay between two rows is not a product of one factor for each row. So the 136
// scores of a sub-block are computed with FMAs: a row's query goes back from its own row to the
// first, and decays at each row. With a fixed decay all scores of a block are q . k on tensor
// cores, times a power of the decay.
#ifndef LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_SCORES_CUH_
#define LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_SCORES_CUH_

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "kernels/cuda/gemm/split_product.cuh"
#include "kernels/cuda/recurrence/recurrence_rows.cuh"
#include "kernels/cuda/recurrence/recurrence_tile.cuh"

namespace longstream::cuda {

struct ScoreShared {
  float queries[kTileRows * kRowStride];
  float keys[kTileRows * kRowStride];
};
struct GatedScoreShared : ScoreShared {
  float logs[kTileRows * kRowStride];    // ln f
  float decays[kTileRows * kRowStride];  // f
  SubBlockTotals totals;
  float between[kSubBlocks - 1][kPanel];  // D of the sub-blocks (2, 0), (3, 1) and (3, 0)
};

// The scores of 16 rows with 16 keys, in fragments of 8 keys.
struct ScoreTile {
  int row;  // the tile's first row and key, as numbers in the block
  int key;
  float sums[2][4] = {};

  // Tile n of the tiles at and below the diagonal, counted row by row.
  __device__ explicit ScoreTile(int n) {
    const int b = n >= 6 ? 3 : n >= 3 ? 2 : n >= 1 ? 1 : 0;
    row = b * kSubRows;
    key = (n - b * (b + 1) / 2) * kSubRows;
  }

  // Whether the step has any of the tile's rows.
  __device__ bool IsIn(const GridBlock& block) const {
    return block.line + row < block.end && block.line + row + kSubRows > block.begin;
  }

  // Adds the products over a panel of `width` key elements. The queries are multiplied with
  // `factors` [kPanel] if it is not nullptr.
  __device__ __forceinline__ void Add(const ScoreShared& shared, int width, const float* factors) {
    const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll 4
    for (int k = 0; k < width; k += 8) {
      SplitA a;
      if (factors == nullptr) {
        a = LoadA(shared.queries + row * kRowStride + k, kRowStride);
      } else {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        const float* q = shared.queries + (row + lane / 4) * kRowStride + k + t;
        a.Set(0, q[0] * factors[k + t]);
        a.Set(1, q[8 * kRowStride] * factors[k + t]);
        a.Set(2, q[4] * factors[k + t + 4]);
        a.Set(3, q[8 * kRowStride + 4] * factors[k + t + 4]);
      }
      SplitB b[2];
      LoadTransposedB(shared.keys + key * kRowStride + k, kRowStride, b);
      MultiplyAddSplit(sums[0], a, b[0]);
      MultiplyAddSplit(sums[1], a, b[1]);
    }
  }

  // Calls store(row, key, score) for each element of this lane.
  template <typename Store>
  __device__ __forceinline__ void ForEach(const Store& store) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        store(row + lane / 4 + i / 2 * 8, key + n * 8 + lane % 4 * 2 + i % 2, sums[n][i]);
      }
    }
  }
};

class BlockScores {
 public:
  __device__ BlockScores(const LinearRecurrenceArgs& args, const RecurrenceRows& rows,
                         const GridBlock& block, const RecurrenceWorkspace& workspace, int64_t head)
      : args_(args),
        rows_(rows),
        block_(block),
        workspace_(workspace),
        head_(static_cast<int>(head)) {}

  __device__ void RunFixed(ScoreShared& shared) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    constexpr int kTiles = kSubBlocks * (kSubBlocks + 1) / 2;
    ScoreTile first(warp), second(min(warp + kTileWarps, kTiles - 1));
    const bool has_first = first.IsIn(block_);
    const bool has_second = warp + kTileWarps < kTiles && second.IsIn(block_);
    for (int panel = 0; panel < workspace_.key_dim; panel += kPanel) {
      CopyPanel(panel, shared);
      if (has_first) first.Add(shared, Width(panel), nullptr);
      if (has_second) second.Add(shared, Width(panel), nullptr);
    }
    const float log_decay = rows_.FixedLogDecay();
    const auto store = [&](int r, int j, float score) {
      Store(r, j, j > r ? 0.0f : score * expf(static_cast<float>(r - j) * log_decay));
    };
    if (has_first) first.ForEach(store);
    if (has_second) second.ForEach(store);
  }

  __device__ void RunGated(GatedScoreShared& shared) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    // The tiles below the diagonal are 1, 3, 4, 6, 7 and 8.
    constexpr int kTiles = kSubBlocks * (kSubBlocks - 1) / 2;
    ScoreTile tile(warp < kTiles ? warp + 1 + (warp >= 1) + (warp >= 3) : 1);
    const bool has_tile = warp < kTiles && tile.IsIn(block_);
    const int apart = (tile.row - tile.key) / kSubRows;
    const float* factors = apart == 1   ? nullptr
                           : apart == 3 ? shared.between[2]
                                        : shared.between[tile.key / kSubRows];
    float diagonal[kSubRows] = {};
    for (int panel = 0; panel < workspace_.key_dim; panel += kPanel) {
      CopyPanel(panel, shared, [&] { StoreGates(panel, shared); });
      AddDiagonal(shared, diagonal);
      __syncthreads();
      Decay(panel, shared);
      __syncthreads();
      if (has_tile) tile.Add(shared, Width(panel), factors);
    }
    if (has_tile) tile.ForEach([&](int r, int j, float score) { Store(r, j, score); });
    StoreDiagonal(diagonal);
  }

 private:
  __device__ void Store(int r, int j, float score) const {
    if (block_.Has(r) && j < workspace_.grid) {
      workspace_.Score(block_.StepRow(r), head_)[j] = score;
    }
  }

  // Copies queries and keys of a panel to shared memory. write() runs while the copies are under
  // way.
  template <typename Write>
  __device__ __forceinline__ void CopyPanel(int panel, ScoreShared& shared,
                                            const Write& write) const {
    const int64_t dim = workspace_.key_dim;
    __syncthreads();  // all threads have read the previous panel
    CopyTile<kPanel>(
        [&](int r) {
          return block_.Has(r) ? static_cast<const float*>(args_.q.data) +
                                     block_.StepRow(r) * args_.q.stride + head_ * dim
                               : nullptr;
        },
        panel, dim, shared.queries, kRowStride);
    CopyTile<kPanel>(
        [&](int r) { return block_.line + r < block_.end ? rows_.Key(block_.line + r) : nullptr; },
        panel, dim, shared.keys, kRowStride);
    __pipeline_commit();
    write();
    __pipeline_wait_prior(0);
    __syncthreads();
  }
  __device__ __forceinline__ void CopyPanel(int panel, ScoreShared& shared) const {
    CopyPanel(panel, shared, [] {});
  }

  __device__ int Width(int panel) const {
    return min(kPanel, static_cast<int>(workspace_.key_dim) - panel);
  }

  __device__ __forceinline__ void StoreGates(int panel, GatedScoreShared& shared) const {
    const SubBlockGates gates(rows_, block_, panel + PanelColumn());
    shared.totals[PanelSubBlock()][PanelColumn()] = gates.total;
    const int first = PanelSubBlock() * kSubRows * kRowStride + PanelColumn();
#pragma unroll
    for (int r = 0; r < kSubRows; ++r) {
      shared.logs[first + r * kRowStride] = gates.log[r];
      shared.decays[first + r * kRowStride] = expf(gates.log[r]);
    }
  }

  // Computes scores within sub-blocks. Two warps share a sub-block, and a lane computes one row. It
  // takes every fourth group of four key elements of the panel. sums[j] is its sum over these
  // elements, for the key of row j of the sub-block.
  __device__ __forceinline__ void AddDiagonal(const GatedScoreShared& shared,
                                              float (&sums)[kSubRows]) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int first = warp / 2 * kSubRows;
    const int row = warp % 2 * 8 + lane / 4;
    const int key = lane % 4 * 4;
    const auto at = [&](const float* tile, int r, int i) {
      return *reinterpret_cast<const float4*>(tile + (first + r) * kRowStride + key + i * 16);
    };
    float4 q[kPanel / 16];
#pragma unroll
    for (int i = 0; i < kPanel / 16; ++i) q[i] = at(shared.queries, row, i);
#pragma unroll
    for (int j = kSubRows - 1; j >= 0; --j) {
      if (j > row) continue;
#pragma unroll
      for (int i = 0; i < kPanel / 16; ++i) {
        const float4 k = at(shared.keys, j, i), f = at(shared.decays, j, i);
        sums[j] = __fmaf_rn(q[i].x, k.x, sums[j]);
        sums[j] = __fmaf_rn(q[i].y, k.y, sums[j]);
        sums[j] = __fmaf_rn(q[i].z, k.z, sums[j]);
        sums[j] = __fmaf_rn(q[i].w, k.w, sums[j]);
        q[i] = {q[i].x * f.x, q[i].y * f.y, q[i].z * f.z, q[i].w * f.w};
      }
    }
  }

  __device__ void StoreDiagonal(const float (&sums)[kSubRows]) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int first = warp / 2 * kSubRows;
#pragma unroll
    for (int j = 0; j < kSubRows; ++j) {
      const float score = WarpSum<4>(sums[j]);
      if (lane % 4 == 0) Store(first + warp % 2 * 8 + lane / 4, first + j, score);
    }
  }

  // Decays the queries and keys of a panel to the borders of their sub-blocks, in place. Also
  // writes them to the workspace, decayed to the borders of the block.
  __device__ __forceinline__ void Decay(int panel, GatedScoreShared& shared) const {
    const int column = PanelColumn(), b = PanelSubBlock();
    const int key = panel + column;
    const bool exists = key < workspace_.key_dim;
    const bool folds = block_.complete(workspace_.grid) && block_.begin == block_.line;
    const float before = SumTotals(shared.totals, column, 0, b);
    const float after = SumTotals(shared.totals, column, b + 1, kSubBlocks);
    float sum = 0.0f;
#pragma unroll 4
    for (int r = b * kSubRows; r < (b + 1) * kSubRows; ++r) {
      sum += shared.logs[r * kRowStride + column];
      float& q = shared.queries[r * kRowStride + column];
      if (exists && block_.Has(r)) {
        workspace_.Query(block_.StepRow(r), head_)[key] = q * expf(before + sum);
      }
      q *= expf(sum);
    }
    sum = 0.0f;
#pragma unroll 4
    for (int r = (b + 1) * kSubRows - 1; r >= b * kSubRows; --r) {
      float& k = shared.keys[r * kRowStride + column];
      if (exists && folds && block_.Has(r)) {
        workspace_.Key(block_.StepRow(r), head_)[key] = DecayedKey(k, sum, after);
      }
      k *= expf(sum);
      sum += shared.logs[r * kRowStride + column];
    }
    if (b == 0) {
      if (exists && folds) {
        workspace_.Total(block_.t, head_)[key] =
            expf(SumTotals(shared.totals, column, 0, kSubBlocks));
      }
    } else {
      const int first = b == 2 ? 2 : 1;
      shared.between[b - 1][column] = expf(SumTotals(shared.totals, column, first, b == 1 ? 2 : 3));
    }
  }

  const LinearRecurrenceArgs& args_;
  const RecurrenceRows& rows_;
  const GridBlock& block_;
  const RecurrenceWorkspace& workspace_;
  const int head_;
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_SCORES_CUH_
