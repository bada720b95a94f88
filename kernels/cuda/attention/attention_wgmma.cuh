// The loop of a tile of prefill rows over the keys that they see, with the products of warpgroups.
//
// Each of two warpgroups has 64 rows and all keys. For a block of keys it computes
//
//   scores = q keys^T          q and keys in shared memory
//   weights = softmax(scores)  in registers
//   sums += weights values     values in shared memory
//
// While a warpgroup turns the scores of one block into weights, the tensor cores compute the sums
// of the block before: both products are started together, and the warpgroup waits for the scores
// alone. For a block of 128 keys and heads of 128, the products of both warpgroups take the tensor
// cores 2048 cycles. In that time each scheduler issues 1600 instructions; for each warp, 350 of
// them are the softmax. The exponentials take 1024 cycles. Some work is not hidden. It comes
// between the end of the sums and the next scores: rounding the weights, and waiting for copies and
// at the barrier.
//
// There is one barrier for each block of keys. After it, the keys of the next block and the values
// of this block are in shared memory. All threads have by then read the keys of this block and the
// values of the block before, so the copies that overwrite them may start.
#ifndef LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_WGMMA_CUH_
#define LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_WGMMA_CUH_

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention/attention_core.cuh"
#include "kernels/cuda/attention/attention_rows.cuh"
#include "kernels/cuda/attention/attention_scores.cuh"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/warp.cuh"
#include "kernels/cuda/primitives/wgmma.cuh"

namespace longstream::cuda {

// The sizes of a block's tile for bf16 keys and heads of width <= kMaxDim, 64 or 128. A thread has
// 64 scores, 32 registers of weights and up to 64 sums, so one block fits on an SM.
template <int kMaxDim>
struct WgmmaShape {
  using Element = BF16;
  static constexpr bool kWgmma = true;
  static constexpr bool kDecode = false;
  static constexpr bool kSplitQueries = false;

  static constexpr int kDim = kMaxDim;
  static constexpr int kWarps = 8;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kRowTiles = 1;
  static constexpr int kWarpRows = 16;
  static constexpr int kRows = kWarps * kWarpRows;
  static constexpr int kMaxHeads = 16;  // query heads of a block

  // A product for scores reads 64 rows and 128 keys, 6 KiB, in the 64 cycles that it takes. That is
  // three quarters of the bandwidth of shared memory. With 64 keys a product would need all of it.
  static constexpr int kKeys = 128;
  static constexpr int kWarpKeys = kKeys;
  static constexpr int kKeyTiles = kKeys / 8;
  static constexpr int kDimTiles = kDim / 8;

  using Rows = Panels<kRows>;
  using Keys = Panels<kKeys>;

  // This takes 160 KiB for heads of 128.
  struct Shared {
    BF16 q[kRows * kDim];
    BF16 keys[2][kKeys * kDim];
    BF16 values[2][kKeys * kDim];
  };
};

template <typename Shape>
class WgmmaTile : public WarpRows<Shape> {
 public:
  using Base = WarpRows<Shape>;
  using typename Base::Corrections;
  using typename Base::Scores;

  __device__ WgmmaTile(const Attention& attention, const SequenceRows& sequence,
                       const TileRows& rows, typename Shape::Shared& shared)
      : Base(attention, rows), sequence_(sequence), shared_(shared) {}

  // Computes all keys. All warps must call it together.
  __device__ void Run() {
#pragma unroll 1
    for (int i = 0; i < attention_.num_ranges; ++i) RunRange(attention_.ranges[i]);
  }

 private:
  using Base::attention_;
  using Base::first_row_;
  using Base::lane_;
  using Base::rows_;
  using Base::sums_;
  using Base::warp_;

  static constexpr int kKeys = Shape::kKeys;
  static constexpr int kCopiedKeys = kKeys / Shape::kWarps;  // keys that a warp copies
  static_assert(2 * kCopiedKeys == kWarp);
  // The weights of a block of keys. They are the operands `a` of the products with the block's
  // values; each product takes 16 keys.
  using Weights = uint32_t[kKeys / kProductDepth][4];

  __device__ void RunRange(const KeyRange& range) {
    const int low = max(rows_.begin, rows_.first_position - range.back);
    const int high = min(rows_.end, rows_.last_position() - range.front + 1);
    if (low >= high) return;
    // Blocks of keys lie at absolute positions, so a row's sums do not depend on its tile.
    int block = low / kKeys * kKeys;
    int stage = 0;
    const HeadRows<BF16> rows = RowsOf(range);
    const BF16* row = FindRow(rows, block - kKeys, low, high);
    __syncthreads();  // all threads have read the previous range
    CopyRows<0>(row, shared_.keys[stage]);
    __pipeline_commit();
    row = FindRow(rows, block, low, high);
    LoadQueries(range.q);
    AwaitCopies();

    Scores scores;
    Corrections corrections;
    Weights weights;
    FenceProducts();
    StartScores(stage, scores);
    if (block + kKeys < high) CopyRows<0>(row, shared_.keys[stage ^ 1]);
    CopyRows<kCopiedKeys>(row, shared_.values[stage]);
    __pipeline_commit();
    row = FindRow(rows, block + kKeys, low, high);
    WaitForProducts<0>();
    Pin(scores[0]);
    this->Adjust(range, block, scores);
    this->Softmax(scores, corrections);
    // The loop waits for the sums at the beginning of an iteration, not at the end of the one
    // before. At the end, a compiler would move the softmax behind the wait.
#pragma unroll 1
    for (;; block += kKeys, stage ^= 1) {
      WaitForProducts<0>();
      PinOperands(weights);
      this->Rescale(corrections);
      RoundWeights(scores, weights);
      AwaitCopies();
      if (block + kKeys >= high) break;
      FenceOperands(weights);
      StartScores(stage ^ 1, scores);
      StartSums(stage, weights);
      if (block + 2 * kKeys < high) CopyRows<0>(row, shared_.keys[stage]);
      CopyRows<kCopiedKeys>(row, shared_.values[stage ^ 1]);
      __pipeline_commit();
      row = FindRow(rows, block + 2 * kKeys, low, high);
      WaitForProducts<1>();
      Pin(scores[0]);
      this->Adjust(range, block + kKeys, scores);
      this->Softmax(scores, corrections);
    }
    FenceOperands(weights);
    StartSums(stage, weights);
    WaitForProducts<0>();
    PinOperands(weights);
  }

  // The rows that this lane looks up: keys in the lower half of a warp, values in the upper half.
  __device__ HeadRows<BF16> RowsOf(const KeyRange& range) const {
    const bool is_key = lane_ < kCopiedKeys;
    const int value_head = rows_.kv_head * attention_.value_slices + rows_.slice;
    return HeadRows<BF16>(attention_, is_key ? range.keys : attention_.values, sequence_,
                          is_key ? rows_.kv_head : value_head);
  }

  // Returns the row that this lane looks up for its warp. Lanes in the lower half of the warp look
  // up keys of the block after `block`, the others look up values of the block at `block`. Outside
  // [low, high) the row is nullptr: it is copied as zeros, and a weight of 0 hides it.
  __device__ const BF16* FindRow(const HeadRows<BF16>& rows, int block, int low, int high) const {
    const int lane = ComputedAnew(lane_);
    const int position =
        block + (lane < kCopiedKeys ? kKeys : 0) + warp_ * kCopiedKeys + lane % kCopiedKeys;
    return low <= position && position < high ? rows.Row(position) : nullptr;
  }

  // Starts copies of the warp's rows of a block of keys or values. Lanes from kFirstLane on have
  // looked up the rows. Missing rows, and elements beyond the head's width, become zeros. Eight
  // lanes copy a row's part of a panel.
  template <int kFirstLane>
  __device__ void CopyRows(const BF16* own_row, BF16* to) const {
    constexpr int kElements = kChunkBytes / sizeof(BF16);
    constexpr int kLanes = Shape::Keys::kWidth / kElements;
    constexpr int kRowsAtOnce = kWarp / kLanes;
    const int dim = attention_.head_dim;
    const auto lane = static_cast<unsigned>(ComputedAnew(lane_));
    const int first = static_cast<int>(lane % kLanes) * kElements;
    const auto own_address = reinterpret_cast<unsigned long long>(own_row);
    const auto copy = [&](int i, const auto& copy_chunk) {
      const int row = i * kRowsAtOnce + static_cast<int>(lane / kLanes);
      const auto address = __shfl_sync(kAllLanes, own_address, kFirstLane + row);
      BF16* place = to + Shape::Keys::Place(warp_ * kCopiedKeys + row, first);
#pragma unroll
      for (int panel = 0; panel < Shape::kDim / Shape::Keys::kWidth; ++panel) {
        const int d = panel * Shape::Keys::kWidth + first;
        copy_chunk(address, d, place + panel * Shape::Keys::kSize);
      }
    };
    if (__all_sync(kAllLanes, own_address % kChunkBytes == 0) != 0 && dim % kElements == 0) {
#pragma unroll
      for (int i = 0; i < kCopiedKeys / kRowsAtOnce; ++i) {
        copy(i, [dim](auto address, int d, BF16* place) {
          const bool exists = address != 0 && d < dim;
          __pipeline_memcpy_async(
              place,
              reinterpret_cast<const void*>(address + static_cast<unsigned>(d) * sizeof(BF16)),
              kChunkBytes, exists ? 0 : kChunkBytes);
        });
      }
      return;
    }
    // Some rows are not aligned to chunks, which is rare. Threads then wait for loads.
#pragma unroll 1
    for (int i = 0; i < kCopiedKeys / kRowsAtOnce; ++i) {
      copy(i, [dim](auto address, int d, BF16* place) {
        CopyPartOfChunk(reinterpret_cast<const BF16*>(address), dim, d, place);
      });
    }
  }

  // Waits until the products of both warpgroups can read all copies and writes of all threads.
  // After this call, memory that earlier products have read may be overwritten.
  __device__ void AwaitCopies() const {
    __pipeline_wait_prior(0);
    FenceSharedWrites();
    __syncthreads();
  }

  // Copies the queries of all rows to shared memory, with zeros beyond the rows and beyond D.
  __device__ void LoadQueries(const Matrix& q) {
    constexpr int kChunks = Shape::kDim / 8;
    const int dim = attention_.head_dim;
    const int thread = ComputedAnew(static_cast<int>(threadIdx.x));
#pragma unroll 4
    for (int i = thread; i < Shape::kRows * kChunks; i += Shape::kThreads) {
      const int row = i / kChunks, first = i % kChunks * 8;
      const float* from = static_cast<const float*>(q.data);
      const bool exists = row < rows_.count();
      if (exists) {
        from += (rows_.first_row + row / rows_.num_heads) * q.stride +
                int64_t{rows_.first_head + row % rows_.num_heads} * dim;
      }
      uint32_t pairs[4];
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const int d = first + 2 * pair;
        pairs[pair] = PackBF16(exists && d < dim ? from[d] : 0.0f,
                               exists && d + 1 < dim ? from[d + 1] : 0.0f);
      }
      *reinterpret_cast<uint4*>(shared_.q + Shape::Rows::Place(row, first)) =
          make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
  }

  // Starts a group of products: the scores of the warpgroup's rows with the keys of a stage.
  __device__ void StartScores(int stage, Scores& scores) const {
    const int row = ComputedAnew(first_row_) & -kWarpgroupRows;
#pragma unroll
    for (int d = 0; d < Shape::kDim; d += kProductDepth) {
      StartProduct(scores[0], Shape::Rows::AlongRows(shared_.q, row, d),
                   Shape::Keys::AlongRows(shared_.keys[stage], 0, d), d > 0);
    }
    CommitProducts();
  }

  // Starts a group of products that adds weights times the values of a stage to the sums.
  __device__ void StartSums(int stage, const Weights& weights) {
#pragma unroll
    for (int k = 0; k < kKeys / kProductDepth; ++k) {
      StartProduct(sums_.weighted[0], weights[k],
                   Shape::Keys::AcrossRows(shared_.values[stage], k * kProductDepth));
    }
    CommitProducts();
  }

  __device__ void PinOperands(Weights& weights) {
    Pin(sums_.weighted[0]);
    Pin(weights);
  }

  __device__ void FenceOperands(Weights& weights) {
    PinOperands(weights);
    FenceProducts();
  }

  static __device__ void RoundWeights(const Scores& scores, Weights& weights) {
#pragma unroll
    for (int k = 0; k < kKeys / kProductDepth; ++k) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float(&tile)[4] = scores[0][2 * k + half];
        weights[k][2 * half] = PackBF16(tile[0], tile[1]);
        weights[k][2 * half + 1] = PackBF16(tile[2], tile[3]);
      }
    }
  }

  const SequenceRows& sequence_;
  typename Shape::Shared& shared_;
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_WGMMA_CUH_
