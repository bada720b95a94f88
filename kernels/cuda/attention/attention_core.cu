// The kernels of attention: prefill tiles, parts of decode rows, and the merge of the parts.
//
// Decode is bound by the bytes of keys and values: 2 H_kv D SizeOf(type) a token, each read once.
// For H_kv = 8, D = 128 and bf16 that is 4 KiB a token, and 512 MiB or 125 us at 128K tokens and
// 4.3 TB/s. That speed needs 3 MB of loads in flight (4.3 TB/s times 0.7 us), which is 23 KiB an
// SM. A block has one or two stages of 32 KiB in flight. At batch 1 there are kMaxAttentionSplits =
// 32 parts of 8 heads: 256 blocks, two an SM, which run all at once. The results of the parts are
// written once and read once: 2 H (D + 2) 32 floats, 1.3 MB for H = 40 and D = 128. From 32K tokens
// on that is below 1 % of the bytes of keys and values, and it stays in L2. The tensor cores need
// 1/6 of the time that the bytes of keys and values take. f32 FMAs, with their loads and
// conversions, would need 2/3 of that time at H / H_kv = 5, and all of it at 8.
//
// Prefill is bound by arithmetic: 4 D H flops for each visible pair of a row and a key. That is
// 2.2e12 flops at 16K tokens of H = 32, D = 128: 2.8 ms at the 790 TFLOP/s that wgmma reaches, 5 to
// 6 ms at the rate of mma.sync. wgmma and mma.sync have a kernel each (attention_wgmma.cuh,
// attention_tile.cuh). Tiles of one head group follow each other, so that its keys stay in L2.
#include <algorithm>
#include <type_traits>

#include "kernels/cuda/attention/attention_core.cuh"
#include "kernels/cuda/attention/attention_tile.cuh"
#include "kernels/cuda/attention/attention_wgmma.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/shared.cuh"
#include "kernels/ops/attention/attention.h"

namespace longstream::cuda {
namespace {

// The fewest keys of a part: two blocks of keys, so that one is loaded while the other is computed.
// A window of that many keys is one part and one launch.
constexpr int kMinPart = 128;
static_assert(kMinPart >= kMinAttentionSplit);
// Merge uses a lane for each part.
static_assert(kMaxAttentionSplits <= kWarp);
constexpr int kMergeThreads = 128;

// The parts into which the keys of a decode row are cut. The cuts depend on the number of keys
// alone.
struct Parts {
  int first_key;
  int length;  // keys of each part but the last
  int count;

  __device__ static Parts Of(const Attention& attention, int position) {
    constexpr int kMaxParts = static_cast<int>(kMaxAttentionSplits);
    const int last = min(position, attention.reach);  // counted from first_key
    const int length = (last / (kMinPart * kMaxParts) + 1) * kMinPart;
    return {position - last, length, last / length + 1};
  }
};

// The heads of a thread block: a group of at most kMaxHeads that share a K/V head. Each slice of
// the values has a thread block of its own.
struct HeadGroups {
  int heads_per_kv_head;
  int groups_per_kv_head;
  int slices;
  int count;

  static HeadGroups Of(const Attention& attention, int max_heads) {
    const int heads = attention.num_heads / attention.num_kv_heads;
    const int groups = static_cast<int>(CeilDiv(heads, max_heads));
    const int slices = attention.value_slices;
    return {heads, groups, slices, attention.num_kv_heads * groups * slices};
  }
  __device__ void Select(int number, int max_heads, TileRows* rows) const {
    const int group = number / slices;
    const int skipped = group % groups_per_kv_head * max_heads;
    rows->slice = number % slices;
    rows->kv_head = group / groups_per_kv_head;
    rows->first_head = rows->kv_head * heads_per_kv_head + skipped;
    rows->num_heads = min(heads_per_kv_head - skipped, max_heads);
  }
};

// Decode row `number` of the step; nullptr if the step has fewer decode rows.
__device__ const SequenceRows* DecodeRow(const BatchLayout& batch, int number) {
  if (batch.num_decode_rows == batch.num_sequences) return batch.sequences + number;
  for (int s = 0; s < batch.num_sequences; ++s) {
    if (batch.sequences[s].is_decode != 0 && number-- == 0) return batch.sequences + s;
  }
  return nullptr;
}

// The head of `out` that belongs to query head `head` of the tile.
__device__ int OutHead(const Attention& attention, const TileRows& rows, int head) {
  return (rows.first_head + head) * attention.value_slices + rows.slice;
}

__device__ float* OutRow(const Attention& attention, int64_t row, int out_head) {
  return static_cast<float*>(attention.out.data) + row * attention.out.stride +
         int64_t{out_head} * attention.head_dim;
}

__device__ float* Partial(const Attention& attention, int decode_row, int out_head, int part) {
  const int64_t row = int64_t{decode_row} * attention.num_out_heads() + out_head;
  return attention.partials + (row * attention.max_parts + part) * (attention.head_dim + 2);
}

template <typename Shape>
__device__ void WriteRows(const Attention& attention, const TileRows& rows, WarpRows<Shape>& tile) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < Shape::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float inverse = 1.0f / WarpSum<4>(tile.sums().sum[r][half]);
      const int row = tile.RowOf(r, half);
      if (row >= rows.count()) continue;
      float* out = OutRow(attention, rows.first_row + row / rows.num_heads,
                          OutHead(attention, rows, row % rows.num_heads));
#pragma unroll
      for (int d = 0; d < Shape::kDimTiles; ++d) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int column = d * 8 + lane % 4 * 2 + i;
          if (column < attention.head_dim) {
            out[column] = tile.sums().weighted[r][d][2 * half + i] * inverse;
          }
        }
      }
    }
  }
}

// Computes tile `tile_number` of the step. The last tiles of a sequence come first, because they
// are the longest.
template <typename Shape>
__device__ __forceinline__ void VisitTile(const Attention& attention, const HeadGroups& groups,
                                          int tile_number) {
  using TileOfShape = std::conditional_t<Shape::kWgmma, WgmmaTile<Shape>, Tile<Shape>>;
  TileRows rows;
  groups.Select(static_cast<int>(blockIdx.y), Shape::kMaxHeads, &rows);
  const int most = Shape::kRows / min(groups.heads_per_kv_head, Shape::kMaxHeads);
  for (int s = 0; s < attention.batch.num_sequences; ++s) {
    const SequenceRows& sequence = attention.batch.sequences[s];
    if (sequence.is_decode != 0) continue;
    const int tiles = (sequence.num_rows + most - 1) / most;
    if (tile_number >= tiles) {
      tile_number -= tiles;
      continue;
    }
    const int skipped = (tiles - 1 - tile_number) * most;
    rows.first_position = static_cast<int>(sequence.first_position) + skipped;
    rows.num_positions = min(sequence.num_rows - skipped, most);
    rows.first_row = sequence.first_row + skipped;
    rows.end = rows.first_position + rows.num_positions;
    TileOfShape tile(attention, sequence, rows, *SharedMemory<typename Shape::Shared>());
    tile.Run();
    WriteRows(attention, rows, tile);
    return;
  }
}

// Block (x, y) computes tile x of head group y. There are at least as many blocks as tiles.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    PrefillKernel(Attention attention, HeadGroups groups) {
  AwaitEarlierKernels();
  if constexpr (!Shape::kWgmma || kHasWgmma) {
    VisitTile<Shape>(attention, groups, static_cast<int>(blockIdx.x));
  } else {
    __trap();  // code without wgmma never launches this kernel
  }
}

template <typename Shape>
void LaunchPrefill(Stream& stream, const Attention& attention) {
  const BatchLayout& batch = attention.batch;
  if (batch.num_decode_rows == batch.num_rows) return;
  const HeadGroups groups = HeadGroups::Of(attention, Shape::kMaxHeads);
  const int positions = Shape::kRows / std::min(groups.heads_per_kv_head, Shape::kMaxHeads);
  // Each sequence has at most one tile that is not full.
  const int prefill_rows = batch.num_rows - batch.num_decode_rows;
  const int prefills = batch.num_sequences - batch.num_decode_rows;
  const unsigned tiles = static_cast<unsigned>(prefill_rows / positions + prefills);
  const LaunchShape shape = {{tiles, static_cast<unsigned>(groups.count)},
                             Shape::kThreads,
                             sizeof(typename Shape::Shared)};
  Launch(stream, shape, PrefillKernel<Shape>, attention, groups);
}

// The sums of the warps of a decode block. They reuse the shared memory of the block's keys and
// values.
template <typename Shape>
struct WarpSums {
  float weighted[Shape::kWarps][Shape::kMaxHeads][Shape::kDim];
  float max[Shape::kWarps][Shape::kMaxHeads];  // -infinity if the warp has seen no key
  float sum[Shape::kWarps][Shape::kMaxHeads];
};

template <typename Shape>
__device__ void StoreWarpSums(Tile<Shape>& tile, WarpSums<Shape>& to) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const RowSums<Shape>& sums = tile.sums();
#pragma unroll
  for (int half = 0; half < Shape::kMaxHeads / 8; ++half) {
    const int head = half * 8 + lane / 4;
    const float sum = WarpSum<4>(sums.sum[0][half]);
    if (lane % 4 == 0) {
      to.max[warp][head] = sums.max[0][half];
      to.sum[warp][head] = sum;
    }
#pragma unroll
    for (int d = 0; d < Shape::kDimTiles; ++d) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float weighted = sums.weighted[0][d][2 * half + i];
        if constexpr (Shape::kSplitQueries) weighted += sums.weighted[0][d][2 + i];
        to.weighted[warp][head][d * 8 + lane % 4 * 2 + i] = weighted;
      }
    }
  }
}

// Adds the sums of the warps in their order. If the row has only this part, writes the result to
// `out`. Otherwise stores the part's sums and its scaled maximum.
template <typename Shape>
__device__ void AddWarps(const Attention& attention, const TileRows& rows, int decode_row, int part,
                         bool only_part, const WarpSums<Shape>& from) {
  const float scale = attention.scale * kLog2E;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int head = warp; head < rows.num_heads; head += Shape::kWarps) {
    float max = from.max[0][head];
#pragma unroll
    for (int w = 1; w < Shape::kWarps; ++w) max = fmaxf(max, from.max[w][head]);
    float weights[Shape::kWarps];
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < Shape::kWarps; ++w) {
      weights[w] = Exp2((from.max[w][head] - max) * scale);
      sum += weights[w] * from.sum[w][head];
    }
    const int out_head = OutHead(attention, rows, head);
    float* out = only_part ? OutRow(attention, rows.first_row, out_head)
                           : Partial(attention, decode_row, out_head, part);
    const float factor = only_part ? 1.0f / sum : 1.0f;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (int d = lane; d < attention.head_dim; d += kWarp) {
      float weighted = 0.0f;
#pragma unroll
      for (int w = 0; w < Shape::kWarps; ++w) weighted += weights[w] * from.weighted[w][head][d];
      out[d] = weighted * factor;
    }
    if (!only_part && lane == 0) {
      out[attention.head_dim] = max * scale;
      out[attention.head_dim + 1] = sum;
    }
  }
}

// Block (x, y, z) computes part x of decode row z for head group y, or nothing if the row has fewer
// parts.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    DecodeKernel(Attention attention, HeadGroups groups) {
  AwaitEarlierKernels();
  const int number = static_cast<int>(blockIdx.z), part = static_cast<int>(blockIdx.x);
  const SequenceRows* sequence = DecodeRow(attention.batch, number);
  if (sequence == nullptr || sequence->num_rows == 0) return;
  const int position = static_cast<int>(sequence->first_position);
  const Parts parts = Parts::Of(attention, position);
  if (part >= parts.count || position > attention.max_position) return;
  TileRows rows;
  groups.Select(static_cast<int>(blockIdx.y), Shape::kMaxHeads, &rows);
  rows.first_position = position;
  rows.num_positions = 1;
  rows.first_row = sequence->first_row;
  rows.begin = parts.first_key + part * parts.length;
  rows.end = min(rows.begin + parts.length, position + 1);
  auto* shared = SharedMemory<typename Shape::Shared>();
  Tile<Shape> tile(attention, *sequence, rows, *shared);
  tile.Run();
  LetNextKernelStart();
  static_assert(sizeof(WarpSums<Shape>) <= sizeof(typename Shape::Shared));
  auto* sums = SharedMemory<WarpSums<Shape>>();
  StoreWarpSums(tile, *sums);
  __syncthreads();
  AddWarps(attention, rows, number, part, parts.count == 1, *sums);
}

// Block (x, y) merges the parts of decode row y in their order, for head x of `out`.
__global__ void __launch_bounds__(kMergeThreads) MergeKernel(Attention attention) {
  BeginKernel();
  const int number = static_cast<int>(blockIdx.y), head = static_cast<int>(blockIdx.x);
  const SequenceRows* sequence = DecodeRow(attention.batch, number);
  if (sequence == nullptr || sequence->num_rows == 0) return;
  const int position = static_cast<int>(sequence->first_position);
  const int parts = Parts::Of(attention, position).count;
  if (parts == 1 || position > attention.max_position) return;
  const int dim = attention.head_dim, lane = static_cast<int>(threadIdx.x) % kWarp;
  const float* partials = Partial(attention, number, head, 0);
  const float* own = partials + int64_t{min(lane, parts - 1)} * (dim + 2);
  const float max = WarpMax(own[dim]);
  const float own_weight = lane < parts ? Exp2(own[dim] - max) : 0.0f;
  const float inverse = 1.0f / WarpSum(own_weight * own[dim + 1]);
  float* out = OutRow(attention, sequence->first_row, head);
  for (int first = 0; first < dim; first += kMergeThreads) {
    const int d = first + static_cast<int>(threadIdx.x);
    float weighted = 0.0f;
#pragma unroll 8
    for (int part = 0; part < parts; ++part) {
      const float weight = __shfl_sync(kAllLanes, own_weight, part);
      if (d < dim) weighted += weight * partials[int64_t{part} * (dim + 2) + d];
    }
    if (d < dim) out[d] = weighted * inverse;
  }
}

template <typename Shape>
void LaunchDecode(Stream& stream, const Attention& attention) {
  const HeadGroups groups = HeadGroups::Of(attention, Shape::kMaxHeads);
  const auto decode_rows = static_cast<unsigned>(attention.batch.num_decode_rows);
  const auto parts = static_cast<unsigned>(attention.max_parts);
  const LaunchShape shape = {{parts, static_cast<unsigned>(groups.count), decode_rows},
                             Shape::kThreads,
                             sizeof(typename Shape::Shared)};
  Launch(stream, shape, DecodeKernel<Shape>, attention, groups);
  if (parts == 1) return;
  const LaunchShape merge = {{static_cast<unsigned>(attention.num_out_heads()), decode_rows},
                             kMergeThreads};
  Launch(stream, merge, MergeKernel, attention);
}

template <typename T, int kMaxDim>
void LaunchPrefillForm(Stream& stream, const Attention& attention) {
  // Heads of width 256 would leave no registers for the sums of the wgmma kernel.
  if constexpr (std::is_same_v<T, BF16> && kMaxDim <= 128) {
    if (stream.wgmma) return LaunchPrefill<WgmmaShape<kMaxDim>>(stream, attention);
  }
  LaunchPrefill<TileShape<T, kMaxDim, false>>(stream, attention);
}

template <typename T, int kMaxDim>
void LaunchBoth(Stream& stream, const Attention& attention) {
  LaunchPrefillForm<T, kMaxDim>(stream, attention);
  LaunchDecode<TileShape<T, kMaxDim, true>>(stream, attention);
}

}  // namespace

void Attend(Stream& stream, const Attention& attention) {
  const int dim = attention.head_dim;
  Attention placed = attention;
  for (int i = 0; i < attention.num_ranges; ++i) {
    placed.reach = std::max(placed.reach, attention.ranges[i].back);
  }
  const int64_t last = std::min<int64_t>(attention.max_position, placed.reach);
  const size_t workspace =
      AttentionWorkspace(attention.batch.num_decode_rows, attention.num_out_heads(), dim, last);
  static_assert(kMaxHeadDim == 256);
  if (dim > kMaxHeadDim || stream.workspace_bytes < workspace) {
    stream.Fail(OpStatus::kUnsupported);
    return;
  }
  placed.max_parts = static_cast<int32_t>(AttentionSplits(last));
  placed.partials = reinterpret_cast<float*>(stream.workspace);
  placed.score_cap = attention.softcap / attention.scale;
  placed.inverse_score_cap = 1.0f / placed.score_cap;
  ForType(attention.type, [&](auto element) {
    using T = decltype(element);
    if (dim <= 64) return LaunchBoth<T, 64>(stream, placed);
    if (dim <= 128) return LaunchBoth<T, 128>(stream, placed);
    LaunchBoth<T, 256>(stream, placed);
  });
}

}  // namespace longstream::cuda
