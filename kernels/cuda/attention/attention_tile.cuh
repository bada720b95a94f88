// The loop of a tile of rows over the keys that they see. Prefill and decode share it.
#ifndef LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_TILE_CUH_
#define LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_TILE_CUH_

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/attention/attention_core.cuh"
#include "kernels/cuda/attention/attention_product.cuh"
#include "kernels/cuda/attention/attention_rows.cuh"
#include "kernels/cuda/attention/attention_scores.cuh"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/warp.cuh"

namespace longstream::cuda {

// The sizes of a block's tile for keys of type T and heads of width <= kMaxDim.
template <typename T, int kMaxDim, bool kIsDecode>
struct TileShape {
  using Element = T;
  static constexpr bool kWgmma = false;
  static constexpr bool kTensor = std::is_same_v<T, BF16>;
  static constexpr bool kDecode = kIsDecode;
  static constexpr bool kSplitQueries = kTensor && kDecode;
  using Product = std::conditional_t<kTensor, TensorProduct<kSplitQueries>, FmaProduct<T>>;
  using Query = std::conditional_t<kTensor, BF16, float>;

  static constexpr int kDim = kMaxDim;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kWarp;
  // With 32 rows a warp, one fragment of keys from shared memory feeds two products, which keeps
  // the tensor cores busy. Wider heads, or scores by FMAs, leave registers for 16 rows only.
  static constexpr int kRowTiles = kTensor && !kDecode && kDim <= 128 ? 2 : 1;
  static constexpr int kWarpRows = kRowTiles * 16;
  static constexpr int kRows = kDecode ? kWarpRows : kWarps * kWarpRows;
  static constexpr int kMaxHeads = kSplitQueries ? 8 : 16;  // query heads of a block

  // Two stages of keys and values take 70 KiB for bf16 and D = 128, so 2 blocks of a prefill or 3
  // of a decode fit on an SM. For no type and width do the stages take more than the 163 KiB of
  // sm_80. If a row of keys has at most 128 bytes, a stage of a decode has up to 128 keys instead
  // of 64. Then two blocks an SM, as many as a long row has at batch 1, keep 64 KiB in flight.
  static constexpr int kStageBytes = kDecode ? 32768 : 16384;
  static constexpr int kRowBytes = kDim * static_cast<int>(sizeof(T));
  static constexpr int kMaxKeys = kDecode && kRowBytes <= 128 ? 128 : 64;
  static constexpr int kKeys =
      kStageBytes / kRowBytes < kMaxKeys ? kStageBytes / kRowBytes : kMaxKeys;
  static constexpr int kWarpKeys = kDecode ? kKeys / kWarps : kKeys;
  static constexpr int kKeyTiles = kWarpKeys / 8;
  static constexpr int kDimTiles = kDim / 8;
  // The strides are 16 bytes more than a row, so that the rows that one load of a warp reads begin
  // in different banks.
  static constexpr int kQueryStride = kDim + 16 / static_cast<int>(sizeof(Query));
  static constexpr int kStride = kDim + 16 / static_cast<int>(sizeof(T));

  struct Shared {
    const T* key_rows[kKeys];
    const T* value_rows[kKeys];
    T keys[2][kKeys * kStride];
    T values[2][kKeys * kStride];
    Query q[kRows * kQueryStride];
  };
};

template <typename Shape>
class Tile : public WarpRows<Shape> {
 public:
  using T = typename Shape::Element;
  using Query = typename Shape::Query;
  using Rows = WarpRows<Shape>;

  __device__ Tile(const Attention& attention, const SequenceRows& sequence, const TileRows& rows,
                  typename Shape::Shared& shared)
      : Rows(attention, rows),
        sequence_(sequence),
        shared_(shared),
        active_(Shape::kDecode || first_row_ < rows.count()) {}

  // Computes all keys. All warps must call it together.
  __device__ void Run() {
#pragma unroll 1
    for (int i = 0; i < attention_.num_ranges; ++i) RunRange(attention_.ranges[i]);
  }

 private:
  using Rows::attention_;
  using Rows::first_position_;
  using Rows::first_row_;
  using Rows::lane_;
  using Rows::last_position_;
  using Rows::rows_;
  using Rows::sums_;
  using Rows::warp_;

  // While a block of keys is computed, the next block is loaded, and the rows of the block after
  // that are looked up, once for all threads.
  __device__ void RunRange(const KeyRange& range) {
    const int low = max(rows_.begin, rows_.first_position - range.back);
    const int high = min(rows_.end, rows_.last_position() - range.front + 1);
    if (low >= high) return;
    // Blocks of keys lie at absolute positions, so the sums of a prefill row do not depend on its
    // tile. A decode row has the tile to itself, so its blocks begin with its first key.
    int block = Shape::kDecode ? low : low / Shape::kKeys * Shape::kKeys;
    FindRows(range, block, low, high);
    __syncthreads();
    Fetch(0);
    __pipeline_commit();
    __syncthreads();
    FindRows(range, block + Shape::kKeys, low, high);
    LoadQueries(range.q);
    __syncthreads();
    for (int stage = 0; block < high; block += Shape::kKeys, stage ^= 1) {
      if (block + Shape::kKeys < high) Fetch(stage ^ 1);
      __pipeline_commit();
      __pipeline_wait_prior(1);
      __syncthreads();
      FindRows(range, block + 2 * Shape::kKeys, low, high);
      Visit(range, block, stage);
      __syncthreads();
    }
  }

  // Looks up where the keys and values of a block lie. Rows outside [low, high) are nullptr; they
  // are loaded as zeros, and a weight of 0 hides them.
  __device__ void FindRows(const KeyRange& range, int block, int low, int high) {
    const HeadRows<T> keys(attention_, range.keys, sequence_, rows_.kv_head);
    const int value_head = rows_.kv_head * attention_.value_slices + rows_.slice;
    const HeadRows<T> values(attention_, attention_.values, sequence_, value_head);
    for (int i = static_cast<int>(threadIdx.x); i < Shape::kKeys; i += Shape::kThreads) {
      const int position = block + i;
      const bool seen = low <= position && position < high;
      shared_.key_rows[i] = seen ? keys.Row(position) : nullptr;
      shared_.value_rows[i] = seen ? values.Row(position) : nullptr;
    }
  }

  __device__ void Fetch(int stage) {
    const int dim = attention_.head_dim;
    CopyRows<Shape::kThreads, Shape::kKeys, Shape::kDim, Shape::kStride>(shared_.key_rows, dim,
                                                                         shared_.keys[stage]);
    CopyRows<Shape::kThreads, Shape::kKeys, Shape::kDim, Shape::kStride>(shared_.value_rows, dim,
                                                                         shared_.values[stage]);
  }

  // Copies the queries of all rows to shared memory, with zeros beyond the rows and beyond D.
  __device__ void LoadQueries(const Matrix& q) {
    const int dim = attention_.head_dim;
    constexpr int kHeadRows = Shape::kSplitQueries ? 8 : Shape::kRows;
    for (int row = warp_; row < kHeadRows; row += Shape::kWarps) {
      const bool exists = row < rows_.count();
      const float* from = static_cast<const float*>(q.data);
      if (exists) {
        from += (rows_.first_row + row / rows_.num_heads) * q.stride +
                int64_t{rows_.first_head + row % rows_.num_heads} * dim;
      }
      Query* to = shared_.q + row * Shape::kQueryStride;
#pragma unroll
      for (int i = 0; i < Shape::kDim / kWarp; ++i) {
        const int d = lane_ + i * kWarp;
        const float x = exists && d < dim ? from[d] : 0.0f;
        to[d] = RoundTo<Query>(x);
        if constexpr (Shape::kSplitQueries) {
          to[8 * Shape::kQueryStride + d] = RoundTo<Query>(x - Widen(to[d]));
        }
      }
    }
  }

  // Computes this warp's part of a block of keys.
  __device__ void Visit(const KeyRange& range, int block, int stage) {
    const int warp_key = Shape::kDecode ? warp_ * Shape::kWarpKeys : 0;
    const int begin = block + warp_key, last = begin + Shape::kWarpKeys - 1;
    const int lowest = max(rows_.begin, first_position_ - range.back);
    const int highest = min(rows_.end - 1, last_position_ - range.front);
    if (!active_ || last < lowest || begin > highest) return;
    Fragments<Shape::kRowTiles, Shape::kKeyTiles> scores = {};
    Shape::Product::template Score<Shape::kDim, Shape::kQueryStride, Shape::kStride>(
        shared_.q + first_row_ * Shape::kQueryStride,
        shared_.keys[stage] + warp_key * Shape::kStride, scores);
    this->Adjust(range, begin, scores);
    typename Rows::Corrections corrections;
    this->Softmax(scores, corrections);
    this->Rescale(corrections);
    Shape::Product::template Weigh<Shape::kDim, Shape::kStride, Shape::kRowTiles, Shape::kKeyTiles>(
        scores, shared_.values[stage] + warp_key * Shape::kStride, sums_.weighted);
  }

  const SequenceRows& sequence_;
  typename Shape::Shared& shared_;
  const bool active_;  // whether the warp has rows
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_TILE_CUH_
