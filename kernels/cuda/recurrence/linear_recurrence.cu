// Linear recurrence. A step launches up to four kernels:
//
//   ScoreKernel     prefill: scores within blocks, decayed queries and keys. A thread block
//                   computes one block of the grid for one head (recurrence_scores.cuh).
//   DecodeKernel    decode rows: outputs, and the rows that are stored in the cache
//                   (recurrence_decode.cuh).
//   StateKernel     prefill rows: outputs. All rows: changes of states; a decode row changes the
//                   state if it completes a block. A thread block computes a sequence, a head and a
//                   slice of value columns (recurrence_states.cuh).
//   RememberKernel  prefill: stores the rows after the last grid line. By then no kernel needs the
//                   rows that they replace in the cache.
//
// Prefill costs these multiply-adds per head and block of C = 64 tokens, with Dk = Dv = 128:
//
//   scores  q k^T   C^2 Dk 5/8    0.33 M        outputs  q S    C Dk Dv      1.05 M
//   state   k^T v   C Dk Dv       1.05 M                 P V    C^2 Dv 5/8   0.33 M
//
// Each is three multiply-adds of the tensor cores, because a factor is two TF32 numbers
// (split_product.cuh): 8.3 M for a head and a block, or 136 G for 32 heads and 32K tokens. That
// takes 0.9 ms at 300 TFLOP/s, the part of an H200's TF32 rate that mma.sync should reach. Memory
// traffic is 3.8 GB, 0.9 ms at 4.3 TB/s: q and k are read twice and v once, the output is written,
// scores are written and read. With gates, decayed queries and keys are written too: 5.4 GB in all.
//
// StateKernel goes through the blocks one after the other and keeps the state on chip. A sequence
// of 32 heads then uses 128 SMs, in slices of 32 columns, and no state moves through memory.
// Computing all blocks side by side would write the state at each grid line and read it twice: 3.2
// GB more, as much as everything else. Work that needs no state is done before, in ScoreKernel. If
// slices of 32 columns do not fill the GPU, slices have 16 columns. Columns are independent, so the
// size of the slices changes no bits.
//
// A decode row reads its state once, Dk Dv 4 bytes a head, and the rows since the grid line, on
// average 32 (Dk + Dv) 4 bytes. It writes one row. It writes the state only at grid lines.
#include "kernels/cuda/cache/cache_access.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/device_limits.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/shared.cuh"
#include "kernels/cuda/primitives/warp.cuh"
#include "kernels/cuda/recurrence/recurrence_decode.cuh"
#include "kernels/cuda/recurrence/recurrence_rows.cuh"
#include "kernels/cuda/recurrence/recurrence_scores.cuh"
#include "kernels/cuda/recurrence/recurrence_states.cuh"
#include "kernels/ops/recurrence/linear_recurrence.h"

namespace longstream::cuda {
namespace {

constexpr int kRememberThreads = 128;
// Thread blocks that fill a GPU of 108 to 132 SMs.
constexpr int64_t kFullGpu = 100;

// Finds the `index`-th block of the grid that contains prefill rows, counted sequence by sequence.
// Returns false after the last one.
__device__ bool FindBlock(const BatchLayout& batch, int64_t grid, int64_t index, int32_t* sequence,
                          GridBlock* block) {
  for (int32_t s = 0; s < batch.num_sequences; ++s) {
    const SequenceRows& rows = batch.sequences[s];
    if (rows.is_decode) continue;
    const int64_t first = LineBefore(rows.first_position, grid);
    const int64_t last = LineBefore(rows.first_position + rows.num_rows - 1, grid);
    const int64_t count = static_cast<int>(last - first) / static_cast<int>(grid) + 1;
    if (index < count) {
      *sequence = s;
      *block = GridBlock::From(rows, max(first + index * grid, rows.first_position), grid);
      return true;
    }
    index -= count;
  }
  return false;
}

template <bool kGated>
__global__ void __launch_bounds__(kTileThreads, 2)
    ScoreKernel(LinearRecurrenceArgs args, RecurrenceWorkspace workspace) {
  AwaitEarlierKernels();
  const int64_t head = blockIdx.y;
  int32_t sequence;
  GridBlock block;
  if (!FindBlock(args.batch, workspace.grid, blockIdx.x, &sequence, &block)) return;
  const RecurrenceRows rows(args, args.batch.sequences[sequence], head);
  const BlockScores scores(args, rows, block, workspace, head);
  if constexpr (kGated) {
    scores.RunGated(*SharedMemory<GatedScoreShared>());
  } else {
    scores.RunFixed(*SharedMemory<ScoreShared>());
  }
}

// Returns the number of the `index`-th sequence of the batch that is a decode row or, if is_decode
// is false, that is a prefill.
__device__ int32_t FindSequence(const BatchLayout& batch, bool is_decode, int64_t index) {
  int32_t s = 0;
  while ((batch.sequences[s].is_decode != 0) != is_decode || index-- > 0) ++s;
  return s;
}

template <int kRowLanes, bool kGated, bool kVectors>
__global__ void __launch_bounds__(kDecodeThreads, kVectors ? 2 : 1)
    DecodeKernel(LinearRecurrenceArgs args) {
  AwaitEarlierKernels();
  const int32_t s = args.batch.num_decode_rows == args.batch.num_sequences
                        ? static_cast<int32_t>(blockIdx.z)
                        : FindSequence(args.batch, true, blockIdx.z);
  using Row = DecodeRow<kRowLanes, kGated, kVectors>;
  Row(args, args.batch.sequences[s], blockIdx.y, blockIdx.x, *SharedMemory<typename Row::Shared>())
      .Run();
}

// Writes the numbers of the threads for which `is_listed` holds to `list`, in order, and returns
// how many there are. warps: [kTileThreads / 32] in shared memory; list: [kTileThreads] in shared
// memory.
__device__ int ListThreads(bool is_listed, unsigned* warps, uint8_t* list) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const unsigned of_warp = __ballot_sync(kAllLanes, is_listed ? 1 : 0);
  if (threadIdx.x % kWarp == 0) warps[warp] = of_warp;
  __syncthreads();
  int count = 0;
  int before = __popc(of_warp & ((1u << threadIdx.x % kWarp) - 1));
  for (int w = 0; w < kTileThreads / kWarp; ++w) {
    if (w == warp) before += count;
    count += __popc(warps[w]);
  }
  if (is_listed) list[before] = static_cast<uint8_t>(threadIdx.x);
  __syncthreads();
  return count;
}

// Thread block z computes the z-th prefill sequence. The thread blocks after these share the decode
// rows that complete a block of the grid.
template <typename Shape>
__global__ void __launch_bounds__(kTileThreads)
    StateKernel(LinearRecurrenceArgs args, RecurrenceWorkspace workspace) {
  AwaitEarlierKernels();
  const BatchLayout& batch = args.batch;
  auto& shared = *SharedMemory<typename Shape::Shared>();
  const auto run = [&](int32_t s) {
    StateSlice<Shape>(args, workspace, batch.sequences[s], blockIdx.y,
                      int64_t{blockIdx.x} * Shape::kColumns, shared)
        .Run();
  };
  const int share = static_cast<int>(blockIdx.z) - (batch.num_sequences - batch.num_decode_rows);
  if (share < 0) {
    run(FindSequence(batch, false, blockIdx.z));
    return;
  }
  const int shares = static_cast<int>(gridDim.z - blockIdx.z) + share;
  for (int32_t first = 0; first < batch.num_sequences; first += kTileThreads) {
    const int32_t s = first + static_cast<int32_t>(threadIdx.x);
    const bool completes = s < batch.num_sequences && batch.sequences[s].is_decode &&
                           IsLine(batch.sequences[s].first_position + 1, workspace.grid);
    const int count = ListThreads(completes, shared.warps, shared.complete);
    for (int i = share; i < count; i += shares) run(first + shared.complete[i]);
    __syncthreads();  // the next round writes the list
  }
}

__global__ void __launch_bounds__(kRememberThreads) RememberKernel(LinearRecurrenceArgs args) {
  BeginKernel();
  const int64_t t = blockIdx.x;
  const SequenceRows& sequence = SequenceOf(args.batch, t);
  const RecurrentCache& cache = args.cache;
  const int64_t position = args.batch.positions[t];
  const int64_t end = sequence.first_position + sequence.num_rows;
  const int64_t line = LineBefore(end, cache.grid);
  if (sequence.is_decode || position < line) return;
  const int64_t row = position - line;
  const int64_t offset = sequence.slot * cache.slot_stride;
  const auto store = [&](const Matrix& from, std::byte* to, int64_t width, bool is_gate) {
    const float* x = static_cast<const float*>(from.data) + t * from.stride;
    float* y = reinterpret_cast<float*>(to + offset) + row * width;
    for (int64_t i = threadIdx.x; i < width; i += kRememberThreads) {
      y[i] = is_gate ? LogSigmoid(x[i]) : x[i];
    }
  };
  store(args.k, cache.keys, int64_t{cache.num_kv_heads} * cache.key_dim, false);
  store(args.v, cache.values, int64_t{cache.num_kv_heads} * cache.value_dim, false);
  if (args.log_decay == nullptr) {
    store(args.gate, cache.gates, int64_t{cache.num_heads} * cache.key_dim, true);
  }
}

RecurrenceWorkspace WorkspaceOf(const Stream& stream, const LinearRecurrenceArgs& args) {
  RecurrenceWorkspace workspace;
  workspace.heads = args.cache.num_heads;
  workspace.key_dim = args.cache.key_dim;
  workspace.grid = args.cache.grid;
  const int64_t rows = args.batch.num_rows * workspace.heads;
  workspace.queries = reinterpret_cast<float*>(stream.workspace);
  workspace.keys = workspace.queries + rows * workspace.key_dim;
  workspace.scores = workspace.keys + rows * workspace.key_dim;
  workspace.totals = workspace.scores + rows * workspace.grid;
  return workspace;
}

// The numbers of a step that decide how many thread blocks are launched.
struct Counts {
  explicit Counts(const LinearRecurrenceArgs& args)
      : heads(static_cast<unsigned>(args.cache.num_heads)),
        decode_rows(args.batch.num_decode_rows),
        prefill_sequences(args.batch.num_sequences - decode_rows),
        prefill_rows(args.batch.num_rows - decode_rows) {}

  // n rows lie in at most n / grid + 2 blocks, whatever position they begin at.
  unsigned MaxBlocks(int64_t grid) const {
    return static_cast<unsigned>(prefill_rows / grid + 2 * prefill_sequences);
  }

  unsigned heads;
  int64_t decode_rows;
  int64_t prefill_sequences;
  int64_t prefill_rows;
};

void LaunchScores(Stream& stream, const LinearRecurrenceArgs& args, const Counts& counts,
                  const RecurrenceWorkspace& workspace) {
  const dim3 grid = {counts.MaxBlocks(workspace.grid), counts.heads};
  if (args.log_decay == nullptr) {
    Launch(stream, {grid, kTileThreads, sizeof(GatedScoreShared)}, ScoreKernel<true>, args,
           workspace);
  } else {
    Launch(stream, {grid, kTileThreads, sizeof(ScoreShared)}, ScoreKernel<false>, args, workspace);
  }
}

template <int kRowLanes, bool kGated, bool kVectors>
void LaunchDecode(Stream& stream, const LinearRecurrenceArgs& args, const Counts& counts) {
  using Row = DecodeRow<kRowLanes, kGated, kVectors>;
  Launch(stream,
         {{CeilDiv(args.cache.value_dim, Row::kColumns), counts.heads,
           static_cast<unsigned>(counts.decode_rows)},
          kDecodeThreads,
          Row::SharedBytes(args.cache.key_dim)},
         DecodeKernel<kRowLanes, kGated, kVectors>, args);
}

// Whether a thread may load four neighbouring elements of each row together.
bool HasVectors(const LinearRecurrenceArgs& args) {
  const auto fits = [](const void* data, int64_t elements) {
    return reinterpret_cast<uintptr_t>(data) % sizeof(float4) == 0 && elements % kLaneColumns == 0;
  };
  const RecurrentCache& cache = args.cache;
  return fits(cache.state, cache.value_dim) && fits(cache.keys, cache.key_dim) &&
         fits(cache.values, cache.slot_stride / static_cast<int64_t>(sizeof(float))) &&
         fits(args.q.data, args.q.stride) && fits(args.k.data, args.k.stride) &&
         fits(args.v.data, args.v.stride);
}

// Without gates a thread block has 128 columns if that gives enough thread blocks, or else 32. With
// gates, which need more registers, it has 32.
void LaunchDecode(Stream& stream, const LinearRecurrenceArgs& args, const Counts& counts) {
  using Wide = DecodeRow<kWarp, false, true>;
  const bool has_vectors = HasVectors(args);
  if (args.log_decay == nullptr) {
    if (has_vectors) return LaunchDecode<8, true, true>(stream, args, counts);
    return LaunchDecode<8, true, false>(stream, args, counts);
  }
  const int64_t wide_blocks =
      CeilDiv(args.cache.value_dim, Wide::kColumns) * counts.heads * counts.decode_rows;
  if (!has_vectors) return LaunchDecode<8, false, false>(stream, args, counts);
  if (wide_blocks >= kFullGpu && args.cache.value_dim % Wide::kColumns == 0) {
    return LaunchDecode<kWarp, false, true>(stream, args, counts);
  }
  LaunchDecode<8, false, true>(stream, args, counts);
}

// Of the decode rows of many sequences, about one in `grid` completes a block in each step.
template <typename Shape>
void LaunchStates(Stream& stream, const LinearRecurrenceArgs& args, const Counts& counts,
                  const RecurrenceWorkspace& workspace) {
  Launch(stream,
         {{CeilDiv(args.cache.value_dim, Shape::kColumns), counts.heads,
           static_cast<unsigned>(counts.prefill_sequences) +
               CeilDiv(counts.decode_rows, args.cache.grid)},
          kTileThreads,
          Shape::SharedBytes(args.cache.key_dim)},
         StateKernel<Shape>, args, workspace);
}

void LaunchStates(Stream& stream, const LinearRecurrenceArgs& args, const Counts& counts,
                  const RecurrenceWorkspace& workspace) {
  using Wide = StateShape<2, true>;
  using Narrow = StateShape<1, true>;
  const int64_t dim = args.cache.key_dim;
  const int64_t wide_blocks = CeilDiv(args.cache.value_dim, Wide::kColumns) * counts.heads *
                              (counts.prefill_sequences + (counts.decode_rows > 0 ? 1 : 0));
  if (wide_blocks >= kFullGpu && Wide::SharedBytes(dim) <= kMaxSharedBytes) {
    LaunchStates<Wide>(stream, args, counts, workspace);
  } else if (Narrow::SharedBytes(dim) <= kMaxSharedBytes) {
    LaunchStates<Narrow>(stream, args, counts, workspace);
  } else {
    LaunchStates<StateShape<1, false>>(stream, args, counts, workspace);
  }
}

}  // namespace

void LinearRecurrence(Stream& stream, const LinearRecurrenceArgs& args) {
  if (!stream.ok()) return;
  const RecurrentCache& cache = args.cache;
  if (cache.grid < 1 || cache.grid > kMaxRecurrenceGrid ||
      stream.workspace_bytes < LinearRecurrenceWorkspace(args.batch.num_rows, cache.num_heads,
                                                         cache.grid, cache.key_dim) ||
      DecodeRow<8, true, false>::SharedBytes(cache.key_dim) > kMaxSharedBytes) {
    stream.Fail(OpStatus::kUnsupported);
    return;
  }
  const RecurrenceWorkspace workspace = WorkspaceOf(stream, args);
  const Counts counts(args);
  LaunchScores(stream, args, counts, workspace);
  LaunchDecode(stream, args, counts);
  LaunchStates(stream, args, counts, workspace);
  if (counts.prefill_rows > 0) {
    Launch(stream, {static_cast<unsigned>(args.batch.num_rows), kRememberThreads}, RememberKernel,
           args);
  }
}

}  // namespace longstream::cuda
