// Linear recurrence, the part that goes from block to block: outputs of prefill rows, and states. A
// thread block computes a sequence, a head and a slice of value columns, with that slice of the
// state in shared memory. For each block of the grid it computes, on tensor cores
// (split_product.cuh),
//
//   out = scale (F q S + P V)         S <- diag(F) S + K^T V
//
// from a stream of tiles [64, 64]: the panels of q, the scores P, the panels of k. Two tiles are
// being loaded while one is multiplied. Warp w computes half of the columns for 16 rows of a tile,
// from row 16 (w % 4) on; the rows of a tile of k are key elements here. The values of a block are
// split once and stay in the warp's registers for P and k.
//
// K^T V is summed from zero on tensor cores. An FMA, which rounds to nearest, then adds it to the
// state.
#ifndef LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_STATES_CUH_
#define LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_STATES_CUH_

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "kernels/cuda/gemm/split_product.cuh"
#include "kernels/cuda/recurrence/recurrence_rows.cuh"
#include "kernels/cuda/recurrence/recurrence_tile.cuh"

namespace longstream::cuda {

inline constexpr int kStateStages = 3;

// kColumnTiles: how many fragments of 8 columns a warp has. kIsStaged: whether the slice of the
// state lies in shared memory; otherwise it is used in the cache.
template <int kColumnTiles, bool kIsStaged>
struct StateShape {
  static constexpr int kTiles = kColumnTiles;
  static constexpr bool kStaged = kIsStaged;
  static constexpr int kColumns = 2 * 8 * kTiles;
  static constexpr int kStride = kColumns + 8;  // 8 or 24 modulo 32; kColumnStride says why

  struct Shared {
    float stages[kStateStages][kTileRows * kColumnStride];
    float values[kTileRows * kStride];
    float powers[kTileRows + 1];  // powers of a fixed decay
    float total[kPanel];          // F of the block for a panel
    SubBlockTotals totals;
    unsigned warps[kTileThreads / kWarp];  // for ListThreads
    uint8_t complete[kTileThreads];        // the decode rows that complete a block
    // If kStaged, the slice lies after this struct: [Dk rounded up to panels, kStride].
  };
  static size_t SharedBytes(int64_t key_dim) {
    const int64_t rows = kStaged ? (key_dim + kPanel - 1) / kPanel * kPanel : 0;
    return sizeof(Shared) + static_cast<size_t>(rows * kStride) * sizeof(float);
  }
};

template <typename Shape>
class StateSlice {
 public:
  using Shared = typename Shape::Shared;

  __device__ StateSlice(const LinearRecurrenceArgs& args, const RecurrenceWorkspace& workspace,
                        const SequenceRows& sequence, int64_t head, int64_t first_column,
                        Shared& shared)
      : args_(args),
        workspace_(workspace),
        sequence_(sequence),
        rows_(args, sequence, head),
        head_(head),
        first_column_(first_column),
        panels_(static_cast<int>((workspace.key_dim + kPanel - 1) / kPanel)),
        shared_(shared),
        warp_row_(static_cast<int>(threadIdx.x) / kWarp % 4 * 16),
        warp_column_(static_cast<int>(threadIdx.x) / kWarp / 4 * 8 * Shape::kTiles),
        g_(static_cast<int>(threadIdx.x) % kWarp / 4),
        t_(static_cast<int>(threadIdx.x) % 4) {}

  // Computes all of the sequence's rows in the step. Another kernel has computed the output of a
  // decode row, so for it only the state is computed.
  __device__ void Run() {
    Begin();
    Cursor load = First(), use = load;
    for (int i = 0; i < kStateStages - 1; ++i) {
      Fetch(load, i);
      Advance(load);
    }
    for (int stage = 0; Valid(use); stage = (stage + 1) % kStateStages) {
      __pipeline_wait_prior(kStateStages - 2);
      __syncthreads();
      Fetch(load, (stage + kStateStages - 1) % kStateStages);
      Advance(load);
      Multiply(use, shared_.stages[stage]);
      Advance(use);
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    End();
  }

 private:
  using Sums = float[Shape::kTiles][4];

  // A tile of the stream. Tiles [0, panels) of a block are panels of q. Then comes P, then the
  // panels of k if the block is complete.
  struct Cursor {
    GridBlock block;
    int tile;
  };

  __device__ Cursor First() const {
    return {GridBlock::From(sequence_, sequence_.first_position, workspace_.grid), FirstTile()};
  }
  __device__ int FirstTile() const { return sequence_.is_decode ? panels_ : 0; }
  __device__ bool Valid(const Cursor& cursor) const { return cursor.tile >= 0; }
  __device__ void Advance(Cursor& cursor) const {
    if (cursor.tile < 0) return;
    const bool folds = cursor.block.complete(workspace_.grid);
    if (++cursor.tile <= (folds ? 2 * panels_ : panels_)) return;
    if (cursor.block.end == sequence_.first_position + sequence_.num_rows) {
      cursor.tile = -1;
      return;
    }
    cursor = {GridBlock::From(sequence_, cursor.block.end, workspace_.grid), FirstTile()};
  }

  // Whether the workspace has the decayed keys of a block.
  __device__ bool HasDecayedKeys(const GridBlock& block) const {
    return rows_.gated() && block.begin == block.line && !sequence_.is_decode;
  }

  __device__ __forceinline__ void Fetch(const Cursor& cursor, int stage) {
    if (Valid(cursor)) {
      const GridBlock& block = cursor.block;
      float* to = shared_.stages[stage];
      if (cursor.tile < panels_) {
        FetchQueries(block, cursor.tile * kPanel, to);
      } else if (cursor.tile == panels_) {
        if (!sequence_.is_decode) FetchScores(block, to);
        CopyTile<Shape::kColumns>(
            [&](int r) {
              return block.line + r < block.end ? rows_.Value(block.line + r) : nullptr;
            },
            first_column_, rows_.value_dim(), shared_.values, Shape::kStride);
      } else {
        FetchKeys(block, (cursor.tile - panels_ - 1) * kPanel, to);
      }
    }
    __pipeline_commit();
  }

  __device__ __forceinline__ void FetchQueries(const GridBlock& block, int first, float* to) const {
    const int64_t dim = workspace_.key_dim;
    const float* base = static_cast<const float*>(args_.q.data) + head_ * dim;
    const bool decayed = rows_.gated();
    CopyTile<kPanel>(
        [&](int r) -> const float* {
          if (!block.Has(r)) return nullptr;
          const int64_t t = block.StepRow(r);
          return decayed ? workspace_.Query(t, head_) : base + t * args_.q.stride;
        },
        first, dim, to, kRowStride);
  }

  __device__ __forceinline__ void FetchScores(const GridBlock& block, float* to) const {
    CopyTile<kTileRows>(
        [&](int r) -> const float* {
          return block.Has(r) ? workspace_.Score(block.StepRow(r), head_) : nullptr;
        },
        0, workspace_.grid, to, kRowStride);
  }

  __device__ __forceinline__ void FetchKeys(const GridBlock& block, int first, float* to) const {
    const bool decayed = HasDecayedKeys(block);
    CopyTile<kPanel>(
        [&](int r) -> const float* {
          if (block.line + r >= block.end) return nullptr;
          return decayed ? workspace_.Key(block.StepRow(r), head_) : rows_.Key(block.line + r);
        },
        first, workspace_.key_dim, to, kColumnStride);
  }

  __device__ __forceinline__ void Multiply(const Cursor& cursor, float* tile) {
    const GridBlock& block = cursor.block;
    // A warp adds nothing if it has no columns. The first two products below also need rows of the
    // warp, the last one key elements.
    const bool has_columns = first_column_ + warp_column_ < rows_.value_dim();
    if (cursor.tile < panels_) {
      if (has_columns && HasRows(block)) MultiplyQueries(cursor.tile * kPanel, tile);
    } else if (cursor.tile == panels_) {
      SplitValues();
      if (has_columns && !sequence_.is_decode && HasRows(block)) Answer(block, tile);
    } else {
      const int first = (cursor.tile - panels_ - 1) * kPanel;
      if (rows_.gated() && !HasDecayedKeys(block)) DecayKeys(block, first, tile);
      if (has_columns && first + warp_row_ < workspace_.key_dim) Fold(block, first, tile);
    }
  }

  // Whether the step has any of the warp's rows.
  __device__ bool HasRows(const GridBlock& block) const {
    return block.line + warp_row_ < block.end && block.line + warp_row_ + 16 > block.begin;
  }

  // sums_ += q S, for a panel of key elements.
  __device__ __forceinline__ void MultiplyQueries(int first, const float* queries) {
    const int width = static_cast<int>(min(int64_t{kPanel}, workspace_.key_dim - first));
#pragma unroll 2
    for (int k = 0; k < width; k += 8) {
      const SplitA a = LoadA(queries + warp_row_ * kRowStride + k, kRowStride);
#pragma unroll
      for (int n = 0; n < Shape::kTiles; ++n) {
        SplitB b;
        b.Set(0, State(first + k + t_, n * 8 + g_));
        b.Set(1, State(first + k + t_ + 4, n * 8 + g_));
        MultiplyAddSplit(sums_[n], a, b);
      }
    }
  }

  __device__ __forceinline__ void SplitValues() {
    const float* values = shared_.values + t_ * Shape::kStride + warp_column_ + g_;
#pragma unroll
    for (int k = 0; k < kTileRows / 8; ++k) {
#pragma unroll
      for (int n = 0; n < Shape::kTiles; ++n) {
        values_[k][n].Set(0, values[k * 8 * Shape::kStride + n * 8]);
        values_[k][n].Set(1, values[(k * 8 + 4) * Shape::kStride + n * 8]);
      }
    }
  }

  // out = scale (F sums_ + P V); then sums_ = 0. A gated F is already in the queries.
  __device__ __forceinline__ void Answer(const GridBlock& block, const float* scores) {
    if (!rows_.gated()) {
      const float upper = shared_.powers[warp_row_ + g_ + 1];
      const float lower = shared_.powers[warp_row_ + g_ + 9];
#pragma unroll
      for (int n = 0; n < Shape::kTiles; ++n) {
        sums_[n][0] *= upper;
        sums_[n][1] *= upper;
        sums_[n][2] *= lower;
        sums_[n][3] *= lower;
      }
    }
#pragma unroll
    for (int k = 0; k < kTileRows / 8; ++k) {
      if (k * 8 >= warp_row_ + 16) continue;  // these keys come after the warp's rows
      const SplitA a = LoadA(scores + warp_row_ * kRowStride + k * 8, kRowStride);
#pragma unroll
      for (int n = 0; n < Shape::kTiles; ++n) MultiplyAddSplit(sums_[n], a, values_[k][n]);
    }
#pragma unroll
    for (int n = 0; n < Shape::kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = warp_row_ + g_ + i / 2 * 8;
        const int64_t column = first_column_ + warp_column_ + n * 8 + t_ * 2 + i % 2;
        if (block.Has(r) && column < rows_.value_dim()) {
          static_cast<float*>(args_.out.data)[block.StepRow(r) * args_.out.stride +
                                              head_ * rows_.value_dim() + column] =
              args_.scale * sums_[n][i];
        }
        sums_[n][i] = 0.0f;
      }
    }
  }

  // S <- diag(F) S + K^T V for a panel of key elements. If the decay is fixed, the keys are decayed
  // here.
  __device__ __forceinline__ void Fold(const GridBlock& block, int first, const float* keys) {
    const bool fixed = !rows_.gated();
    const float upper = Total(block, first, warp_row_ + g_);
    const float lower = Total(block, first, warp_row_ + g_ + 8);
    Sums sums = {};
    const float* from = keys + t_ * kColumnStride + warp_row_ + g_;
#pragma unroll
    for (int k = 0; k < kTileRows / 8; ++k) {
      if (k * 8 >= workspace_.grid) continue;
      float x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = from[(k * 8 + i / 2 * 4) * kColumnStride + i % 2 * 8];
      if (fixed) {
        // The rows of the tile after the grid are zero.
        const int left = static_cast<int>(workspace_.grid) - 1 - k * 8 - t_;
        const float even = shared_.powers[max(left, 0)], odd = shared_.powers[max(left - 4, 0)];
        x[0] *= even;
        x[1] *= even;
        x[2] *= odd;
        x[3] *= odd;
      }
      SplitA a;
#pragma unroll
      for (int i = 0; i < 4; ++i) a.Set(i, x[i]);
#pragma unroll
      for (int n = 0; n < Shape::kTiles; ++n) MultiplyAddSplit(sums[n], a, values_[k][n]);
    }
#pragma unroll
    for (int n = 0; n < Shape::kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first + warp_row_ + g_ + i / 2 * 8, column = n * 8 + t_ * 2 + i % 2;
        SetState(key, column, __fmaf_rn(i < 2 ? upper : lower, State(key, column), sums[n][i]));
      }
    }
  }

  // The decay of the state over a block, for key element first + i.
  __device__ __forceinline__ float Total(const GridBlock& block, int first, int i) const {
    if (!rows_.gated()) return shared_.powers[workspace_.grid];
    if (!HasDecayedKeys(block)) return shared_.total[i];
    return first + i < workspace_.key_dim ? workspace_.Total(block.t, head_)[first + i] : 0.0f;
  }

  // Decays a panel of the keys in place, for a block that began in an earlier step.
  __device__ void DecayKeys(const GridBlock& block, int first, float* keys) {
    const int column = PanelColumn(), b = PanelSubBlock();
    const SubBlockGates gates(rows_, block, first + column);
    shared_.totals[b][column] = gates.total;
    __syncthreads();
    const float after = SumTotals(shared_.totals, column, b + 1, kSubBlocks);
    if (b == 0) shared_.total[column] = expf(SumTotals(shared_.totals, column, 0, kSubBlocks));
    float sum = 0.0f;
#pragma unroll
    for (int i = kSubRows - 1; i >= 0; --i) {
      float& key = keys[(b * kSubRows + i) * kColumnStride + column];
      key = DecayedKey(key, sum, after);
      sum += gates.log[i];
    }
    __syncthreads();
  }

  // Element (key, column) of the warp's part of the slice; zero outside the state.
  __device__ __forceinline__ float State(int key, int column) const {
    if constexpr (Shape::kStaged) {
      return staged()[key * Shape::kStride + warp_column_ + column];
    } else {
      const float* element = Stored(key, warp_column_ + column);
      return element == nullptr ? 0.0f : *element;
    }
  }
  __device__ __forceinline__ void SetState(int key, int column, float value) const {
    if constexpr (Shape::kStaged) {
      staged()[key * Shape::kStride + warp_column_ + column] = value;
    } else {
      float* element = Stored(key, warp_column_ + column);
      if (element != nullptr) *element = value;
    }
  }
  __device__ float* staged() const { return reinterpret_cast<float*>(&shared_ + 1); }
  __device__ __forceinline__ float* Stored(int key, int column) const {
    const int64_t value = first_column_ + column;
    if (key >= workspace_.key_dim || value >= rows_.value_dim()) return nullptr;
    return rows_.State() + key * rows_.value_dim() + value;
  }

  __device__ void Begin() {
    __syncthreads();  // all threads have written the previous sequence
    const int thread = static_cast<int>(threadIdx.x);
    if (!rows_.gated() && thread <= kTileRows) {
      shared_.powers[thread] = expf(static_cast<float>(thread) * rows_.FixedLogDecay());
    }
    if constexpr (Shape::kStaged) {
      for (int i = thread; i < panels_ * kPanel * Shape::kColumns; i += kTileThreads) {
        const float* from = Stored(i / Shape::kColumns, i % Shape::kColumns);
        staged()[i / Shape::kColumns * Shape::kStride + i % Shape::kColumns] =
            from == nullptr ? 0.0f : *from;
      }
    }
#pragma unroll
    for (int n = 0; n < Shape::kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums_[n][i] = 0.0f;
    }
  }

  __device__ void End() const {
    if constexpr (Shape::kStaged) {
      const int64_t end = sequence_.first_position + sequence_.num_rows;
      if (LineBefore(end, workspace_.grid) <= sequence_.first_position)
        return;  // no block was folded into the state
      for (int i = static_cast<int>(threadIdx.x); i < panels_ * kPanel * Shape::kColumns;
           i += kTileThreads) {
        float* to = Stored(i / Shape::kColumns, i % Shape::kColumns);
        if (to == nullptr) continue;
        *to = staged()[i / Shape::kColumns * Shape::kStride + i % Shape::kColumns];
      }
    }
  }

  const LinearRecurrenceArgs& args_;
  const RecurrenceWorkspace& workspace_;
  const SequenceRows& sequence_;
  const RecurrenceRows rows_;
  const int64_t head_;
  const int64_t first_column_;
  const int panels_;
  Shared& shared_;
  const int warp_row_;
  const int warp_column_;
  const int g_;  // the lane's number is 4 g + t
  const int t_;
  Sums sums_;                                    // q S so far
  SplitB values_[kTileRows / 8][Shape::kTiles];  // values of the block
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_STATES_CUH_
