// Linear recurrence in three kernels:
//
//   scores    a block a row and head: the decayed query q F(g, t) and the scores of the row with
//             the keys since its grid line g; nothing here depends on a state, so all rows of a
//             prefill run side by side
//   states    a block a sequence, head and slice of 32 value columns: goes through the blocks of
//             the piece, writes the outputs and at each grid line folds the rows into the state
//   remember  a block a row: stores the rows after the last grid line, once nobody reads those that
//             they replace
//
// A decode row reads its states once, Dk Dv 4 bytes a head, and the rows since the grid line, on
// average 32 (Dk + Dv) 4 bytes; it writes one row, and no state between grid lines.
//
// Every sum has an order that follows from absolute positions alone, the same for decode rows and
// prefill rows, so that a row's bits do not depend on how its tokens were divided into steps.
#include "kernels/cuda/cache_access.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrence_rows.cuh"
#include "kernels/cuda/shared.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/ops/linear_recurrence.h"

namespace longstream::cuda {
namespace {

constexpr int kMaxGrid = 256;     // rows of a block of the recurrence
constexpr int kScoreWarps = 4;    // of a block of the first kernel
constexpr int kParts = 8;         // warps of the second kernel, and parts of an output's sum
constexpr int kRowsTogether = 4;  // rows for which a warp reads an element of the state once
constexpr int kFoldKeys = 64;     // keys folded into the state at a time
constexpr int kFoldQuarters = kParts * kWarp / kFoldKeys;
constexpr int kRememberThreads = 128;
// On sm_80 a block may have 163 KiB of shared memory.
constexpr size_t kMaxSharedBytes = size_t{160} << 10;

// What the first kernel leaves for the second: [T, H, Dk] and [T, H, grid].
struct Scores {
  float* queries;
  float* scores;
  int64_t heads;
  int64_t key_dim;
  int64_t grid;

  __device__ float* Query(int64_t t, int64_t head) const {
    return queries + (t * heads + head) * key_dim;
  }
  __device__ float* Row(int64_t t, int64_t head) const {
    return scores + (t * heads + head) * grid;
  }
};

// The grid line at or before a position.
__device__ __forceinline__ int64_t GridLine(int64_t position, int64_t grid) {
  return position - position % grid;
}

// --- scores ---

// The warp's quarter of the scores of one row at `position`, and from the first warp the decayed
// query. A decay is a product over the rows between, so each warp goes back from the row itself.
// `decays`, [Dk] shared: the log-decays of the elements so far; a lane touches its own only.
__device__ void ScoreGated(const RecurrenceRows& rows, const float* q, int64_t dim,
                           int64_t position, int64_t first, int64_t last, float* decays,
                           float* scores, float* query) {
  const int lane = static_cast<int>(threadIdx.x);
  for (int64_t i = lane; i < dim; i += kWarp) decays[i] = 0.0f;
  for (int64_t j = position; j >= first; --j) {
    if (j < last) {
      const float* k = rows.Key(j);
      float sum = 0.0f;
      for (int64_t i = lane; i < dim; i += kWarp) {
        sum = __fmaf_rn(q[i] * expf(decays[i]), k[i], sum);
      }
      sum = WarpSum(sum);
      if (lane == 0) scores[j - first] = sum;
    }
    for (int64_t i = lane; i < dim; i += kWarp) decays[i] += rows.LogGate(j, i);
  }
  if (query == nullptr) return;
  for (int64_t i = lane; i < dim; i += kWarp) query[i] = q[i] * expf(decays[i]);
}

__device__ void ScoreFixed(const RecurrenceRows& rows, const float* q, int64_t dim,
                           int64_t position, int64_t first, int64_t last, float* scores,
                           float* query) {
  const int lane = static_cast<int>(threadIdx.x);
  const float log_decay = rows.FixedLogDecay();
  for (int64_t j = first; j < last && j <= position; ++j) {
    const float* k = rows.Key(j);
    float sum = 0.0f;
    for (int64_t i = lane; i < dim; i += kWarp) sum = __fmaf_rn(q[i], k[i], sum);
    sum = WarpSum(sum) * expf(static_cast<float>(position - j) * log_decay);
    if (lane == 0) scores[j - first] = sum;
  }
  if (query == nullptr) return;
  const float decay = expf(static_cast<float>(position - first + 1) * log_decay);
  for (int64_t i = lane; i < dim; i += kWarp) query[i] = q[i] * decay;
}

// Shared memory: [kScoreWarps, Dk] f32.
__global__ void __launch_bounds__(kWarp* kScoreWarps)
    ScoreKernel(LinearRecurrenceArgs args, Scores out) {
  const int64_t t = blockIdx.x, head = blockIdx.y;
  const RecurrenceRows rows(args, SequenceOf(args.batch, t), head);
  const int64_t dim = args.cache.key_dim, grid = args.cache.grid;
  const int64_t position = args.batch.positions[t];
  const int64_t line = GridLine(position, grid);
  const int64_t quarter = (grid + kScoreWarps - 1) / kScoreWarps;
  const int64_t first = threadIdx.y * quarter;  // of the block's rows
  const int64_t last = min(first + quarter, grid);
  const float* q = static_cast<const float*>(args.q.data) + t * args.q.stride + head * dim;
  float* scores = out.Row(t, head) + first;
  float* query = threadIdx.y == 0 ? out.Query(t, head) : nullptr;
  if (rows.gated()) {
    float* decays = SharedMemory<float>() + threadIdx.y * dim;
    ScoreGated(rows, q, dim, position, line + first, line + last, decays, scores, query);
  } else {
    ScoreFixed(rows, q, dim, position, line + first, line + last, scores, query);
  }
}

// --- states ---

// A slice of 32 columns of a state, of which a lane owns one.
struct Slice {
  float* column;   // of this lane
  int64_t stride;  // from a key element to the next
};

struct StateShared {
  float partial[kParts][kWarp];               // parts of a row's outputs
  float log_decay[kFoldQuarters][kFoldKeys];  // of the rows of each quarter
  float decay[kFoldKeys];                     // of the state, over the whole block
  // Followed by keys [grid, kFoldKeys], decayed to the end of the block, and the slice [Dk, 32].
};

// One block of the grid, as the second kernel goes through it.
struct GridBlock {
  int64_t line;   // position of its first row
  int64_t begin;  // positions of the step's rows in it
  int64_t end;
  int64_t t;  // the step's row at `begin`
};

// Part `part` of out / scale of up to kCount rows at positions from `position` on, in this lane's
// column: some key elements of the state, then some rows of the block.
template <int kCount>
__device__ __forceinline__ void AddPart(const RecurrenceRows& rows, const Slice& slice,
                                        const Scores& scores, const GridBlock& block, int64_t head,
                                        int64_t column, int64_t position, int part,
                                        float (&sums)[kCount]) {
  const float* query[kCount];
  const float* score[kCount];
#pragma unroll
  for (int r = 0; r < kCount; ++r) {
    // Rows past the end repeat the last one; nobody reads what becomes of them.
    const int64_t t = block.t + min(position + r, block.end - 1) - block.begin;
    query[r] = scores.Query(t, head);
    score[r] = scores.Row(t, head);
  }
  float part_sums[kCount] = {};
  const int64_t keys = (scores.key_dim + kParts - 1) / kParts;
  const int64_t last_key = min((part + 1) * keys, scores.key_dim);
  for (int64_t i = part * keys; i < last_key; ++i) {
    const float s = slice.column[i * slice.stride];
#pragma unroll
    for (int r = 0; r < kCount; ++r) part_sums[r] = __fmaf_rn(query[r][i], s, part_sums[r]);
  }
  const int64_t count = (scores.grid + kParts - 1) / kParts;
  const int64_t last_row = min(block.line + (part + 1) * count, min(position + kCount, block.end));
  for (int64_t j = block.line + part * count; j < last_row; ++j) {
    const float v = rows.Value(j)[column];
#pragma unroll
    for (int r = 0; r < kCount; ++r) {
      if (j <= position + r) part_sums[r] = __fmaf_rn(score[r][j - block.line], v, part_sums[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kCount; ++r) sums[r] = __fadd_rn(sums[r], part_sums[r]);
}

// The outputs of a block's rows. Many rows: each warp has rows of its own. Few: a warp a part.
__device__ void WriteOutputs(const LinearRecurrenceArgs& args, const RecurrenceRows& rows,
                             const Slice& slice, const Scores& scores, const GridBlock& block,
                             int64_t head, int64_t column, StateShared* shared) {
  const int warp = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);
  const int64_t value_dim = args.cache.value_dim;
  const int64_t safe_column = min(column, value_dim - 1);
  const auto write = [&](int64_t position, float sum) {
    if (column >= value_dim) return;
    const int64_t t = block.t + (position - block.begin);
    static_cast<float*>(args.out.data)[t * args.out.stride + head * value_dim + column] =
        args.scale * sum;
  };
  if (block.end - block.begin >= kParts) {
    for (int64_t position = block.begin + warp * kRowsTogether; position < block.end;
         position += kParts * kRowsTogether) {
      float sums[kRowsTogether] = {};
      for (int part = 0; part < kParts; ++part) {
        AddPart(rows, slice, scores, block, head, safe_column, position, part, sums);
      }
#pragma unroll
      for (int r = 0; r < kRowsTogether; ++r) {
        if (position + r < block.end) write(position + r, sums[r]);
      }
    }
    return;
  }
  for (int64_t position = block.begin; position < block.end; ++position) {
    float part_sum[1] = {};
    AddPart(rows, slice, scores, block, head, safe_column, position, warp, part_sum);
    __syncthreads();  // the sums of the row before have been read
    shared->partial[warp][lane] = part_sum[0];
    __syncthreads();
    if (warp != 0) continue;
    float sum = 0.0f;
#pragma unroll
    for (int part = 0; part < kParts; ++part) sum = __fadd_rn(sum, shared->partial[part][lane]);
    write(position, sum);
  }
}

// Keys [first_key, first_key + kFoldKeys) of the block's rows, each decayed over the rows after it,
// into `keys` [grid, kFoldKeys], and the decay of the state over the whole block.
__device__ void DecayKeys(const RecurrenceRows& rows, const Scores& scores, int64_t line,
                          int64_t first_key, StateShared* shared, float* keys) {
  const int thread = static_cast<int>(threadIdx.y * kWarp + threadIdx.x);
  const int key = thread % kFoldKeys, quarter = thread / kFoldKeys;
  const int64_t i = min(first_key + key, scores.key_dim - 1);
  const int64_t grid = scores.grid;
  const int64_t count = (grid + kFoldQuarters - 1) / kFoldQuarters;
  const int64_t first = quarter * count;
  const int64_t last = min(first + count, grid);
  float sum = 0.0f;
  if (rows.gated()) {
    for (int64_t r = last - 1; r >= first; --r) sum += rows.LogGate(line + r, i);
    shared->log_decay[quarter][key] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int later = kFoldQuarters - 1; later > quarter; --later) {
      sum += shared->log_decay[later][key];
    }
    for (int64_t r = last - 1; r >= first; --r) {
      keys[r * kFoldKeys + key] = rows.Key(line + r)[i] * expf(sum);
      sum += rows.LogGate(line + r, i);
    }
    if (quarter == 0) shared->decay[key] = expf(sum);
  } else {
    const float log_decay = rows.FixedLogDecay();
    for (int64_t r = first; r < last; ++r) {
      keys[r * kFoldKeys + key] =
          rows.Key(line + r)[i] * expf(static_cast<float>(grid - 1 - r) * log_decay);
    }
    if (quarter == 0) shared->decay[key] = expf(static_cast<float>(grid) * log_decay);
  }
}

// S <- diag(F) S + sum_j (decayed k_j)^T v_j for the rows of a whole block.
__device__ void Fold(const RecurrenceRows& rows, const Slice& slice, const Scores& scores,
                     int64_t line, int64_t safe_column, bool writes, StateShared* shared) {
  constexpr int kKeysOfWarp = kFoldKeys / kParts;
  auto* keys = reinterpret_cast<float*>(shared + 1);
  const int first = static_cast<int>(threadIdx.y) * kKeysOfWarp;
  for (int64_t first_key = 0; first_key < scores.key_dim; first_key += kFoldKeys) {
    __syncthreads();  // all have read the state, and the keys before these
    DecayKeys(rows, scores, line, first_key, shared, keys);
    __syncthreads();
    float sums[kKeysOfWarp] = {};
    for (int64_t r = 0; r < scores.grid; ++r) {
      const float v = rows.Value(line + r)[safe_column];
#pragma unroll
      for (int m = 0; m < kKeysOfWarp; ++m) {
        sums[m] = __fmaf_rn(keys[r * kFoldKeys + first + m], v, sums[m]);
      }
    }
#pragma unroll
    for (int m = 0; m < kKeysOfWarp; ++m) {
      const int64_t i = first_key + first + m;
      if (i >= scores.key_dim || !writes) continue;
      float* s = slice.column + i * slice.stride;
      *s = __fmaf_rn(shared->decay[first + m], *s, sums[m]);
    }
  }
  __syncthreads();
}

// Between the slice in the cache and its copy in shared memory, where a lane has the same column of
// both.
__device__ void CopySlice(const Slice& from, const Slice& to, int64_t key_dim) {
  for (int64_t i = threadIdx.y; i < key_dim; i += kParts) {
    to.column[i * to.stride] = from.column[i * from.stride];
  }
  __syncthreads();
}

// Shared memory: StateShared and what it says follows; the slice only where `has_room`.
__global__ void __launch_bounds__(kWarp* kParts)
    StateKernel(LinearRecurrenceArgs args, Scores scores, bool has_room) {
  const int64_t head = blockIdx.y;
  const SequenceRows& sequence = args.batch.sequences[blockIdx.z];
  const RecurrenceRows rows(args, sequence, head);
  const int64_t value_dim = args.cache.value_dim, grid = args.cache.grid;
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const int64_t safe_column = min(column, value_dim - 1);
  const int64_t end = sequence.first_position + sequence.num_rows;

  auto* shared = SharedMemory<StateShared>();
  const Slice stored = {rows.State() + safe_column, value_dim};
  Slice slice = stored;
  // Only a piece with a few rows or a grid line reads the slice more than once.
  const bool staged =
      has_room && (sequence.num_rows >= kParts || GridLine(end, grid) > sequence.first_position);
  if (staged) {
    slice = {reinterpret_cast<float*>(shared + 1) + grid * kFoldKeys + threadIdx.x, kWarp};
    CopySlice(stored, slice, scores.key_dim);
  }
  bool folded = false;
  for (int64_t begin = sequence.first_position; begin < end;) {
    const int64_t line = GridLine(begin, grid);
    const GridBlock block = {line, begin, min(line + grid, end),
                             sequence.first_row + (begin - sequence.first_position)};
    WriteOutputs(args, rows, slice, scores, block, head, column, shared);
    if (block.end == line + grid) {
      Fold(rows, slice, scores, line, safe_column, staged || column < value_dim, shared);
      folded = true;
    }
    begin = block.end;
  }
  if (staged && folded && column < value_dim) {
    for (int64_t i = threadIdx.y; i < scores.key_dim; i += kParts) {
      stored.column[i * stored.stride] = slice.column[i * slice.stride];
    }
  }
}

// --- remember ---

__global__ void __launch_bounds__(kRememberThreads) RememberKernel(LinearRecurrenceArgs args) {
  const int64_t t = blockIdx.x;
  const SequenceRows& sequence = SequenceOf(args.batch, t);
  const RecurrentCache& cache = args.cache;
  const int64_t position = args.batch.positions[t];
  if (position < GridLine(sequence.first_position + sequence.num_rows, cache.grid)) return;
  const int64_t row = position % cache.grid;
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

}  // namespace

void LinearRecurrence(Stream& stream, const LinearRecurrenceArgs& args) {
  if (!stream.ok()) return;
  const RecurrentCache& cache = args.cache;
  const int64_t rows = args.batch.num_rows, heads = cache.num_heads;
  const size_t workspace = LinearRecurrenceWorkspace(rows, heads, cache.grid, cache.key_dim);
  const size_t score_shared = size_t{kScoreWarps} * static_cast<size_t>(cache.key_dim) * 4;
  if (stream.workspace_bytes < workspace || cache.grid < 1 || cache.grid > kMaxGrid ||
      score_shared > kMaxSharedBytes) {
    stream.Fail(OpStatus::kUnsupported);
    return;
  }
  Scores scores;
  scores.queries = reinterpret_cast<float*>(stream.workspace);
  scores.scores = scores.queries + rows * heads * cache.key_dim;
  scores.heads = heads;
  scores.key_dim = cache.key_dim;
  scores.grid = cache.grid;
  Launch(stream,
         {{static_cast<unsigned>(rows), static_cast<unsigned>(heads)},
          {kWarp, kScoreWarps},
          args.log_decay == nullptr ? score_shared : 0},
         ScoreKernel, args, scores);

  const size_t fold_shared =
      sizeof(StateShared) + static_cast<size_t>(cache.grid) * kFoldKeys * sizeof(float);
  const size_t slice_shared = static_cast<size_t>(cache.key_dim) * kWarp * sizeof(float);
  const bool has_room = fold_shared + slice_shared <= kMaxSharedBytes;
  Launch(stream,
         {{CeilDiv(cache.value_dim, kWarp), static_cast<unsigned>(heads),
           static_cast<unsigned>(args.batch.num_sequences)},
          {kWarp, kParts},
          fold_shared + (has_room ? slice_shared : 0)},
         StateKernel, args, scores, has_room);
  Launch(stream, {static_cast<unsigned>(rows), kRememberThreads}, RememberKernel, args);
}

}  // namespace longstream::cuda
