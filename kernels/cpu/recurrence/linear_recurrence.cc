// Linear recurrence: divides it into blocks and tasks (kernels/ops/recurrence/linear_recurrence.h).
#include "kernels/ops/recurrence/linear_recurrence.h"

#include <cstring>

#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/recurrence/recurrence_block.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

class Recurrence {
 public:
  Recurrence(Stream& stream, const LinearRecurrenceArgs& args)
      : args_(args),
        cache_(args.cache),
        num_slices_((cache_.value_dim + kMaxSliceColumns - 1) / kMaxSliceColumns) {
    // The workspace holds decayed queries [H, T, Dk], log-gates [T, H, Dk] and scores [H, T, grid].
    const int64_t rows = int64_t{args.batch.num_rows} * cache_.num_heads;
    decayed_queries_ = reinterpret_cast<float*>(stream.workspace);
    log_gates_ = decayed_queries_ + rows * cache_.key_dim;
    scores_ = log_gates_ + rows * cache_.key_dim;
  }

  bool Served(const Stream& stream) const {
    return cache_.grid <= kMaxGrid &&
           stream.workspace_bytes >= LinearRecurrenceWorkspace(args_.batch.num_rows,
                                                               cache_.num_heads, cache_.grid,
                                                               cache_.key_dim);
  }

  void Run(const Executor& executor) const {
    const int64_t num_sequences = args_.batch.num_sequences;
    const int64_t heads = cache_.num_heads;
    if (num_slices_ > 1) {
      int64_t num_blocks = 0;
      for (int64_t s = 0; s < num_sequences; ++s) num_blocks += NumBlocks(args_.batch.sequences[s]);
      ParallelFor(executor, static_cast<uint32_t>(num_blocks * heads), [&](uint32_t task) {
        const SequenceRows* sequence = args_.batch.sequences;
        int64_t block = task / heads;
        for (; block >= NumBlocks(*sequence); ++sequence) block -= NumBlocks(*sequence);
        PrepareBlock(BlockOf(*sequence, block, task % heads));
      });
    }
    ParallelFor(executor, static_cast<uint32_t>(num_sequences * heads * num_slices_),
                [&](uint32_t task) {
                  const int64_t head = task / num_slices_ % heads;
                  const int64_t s = task / num_slices_ / heads;
                  Advance(args_.batch.sequences[s], head, task % num_slices_);
                });
    // The cache is written only now, because the computation above still reads the rows of earlier
    // steps from it.
    ParallelFor(executor, static_cast<uint32_t>(num_sequences),
                [&](uint32_t s) { Remember(args_.batch.sequences[s]); });
  }

 private:
  // The number of a sequence's blocks that contain rows of the step.
  int64_t NumBlocks(const SequenceRows& sequence) const {
    const int64_t last = sequence.first_position + sequence.num_rows - 1;
    return last / cache_.grid - sequence.first_position / cache_.grid + 1;
  }

  float* Memory(std::byte* base, const SequenceRows& sequence) const {
    return reinterpret_cast<float*>(base + sequence.slot * cache_.slot_stride);
  }

  BlockRows Rows(std::byte* cached, const SequenceRows& sequence, const float* step,
                 int64_t step_stride, int64_t begin, int64_t num_heads, int64_t head,
                 int64_t dim) const {
    BlockRows rows;
    rows.cached = Memory(cached, sequence) + head * dim;
    rows.cached_stride = num_heads * dim;
    rows.step = step;
    rows.step_stride = step_stride;
    rows.begin = begin;
    return rows;
  }

  // The block number `index` among those of a sequence that contain rows of the step, for one head.
  RecurrenceBlock BlockOf(const SequenceRows& sequence, int64_t index, int64_t head) const {
    const int64_t first = sequence.first_position;
    const int64_t line = (first / cache_.grid + index) * cache_.grid;
    const int64_t begin = line < first ? first : line;
    const int64_t after = first + sequence.num_rows;
    const int64_t end = line + cache_.grid < after ? line + cache_.grid : after;
    const int64_t row = sequence.first_row + (begin - first);  // the row in the step
    const int64_t kv_head = head / (cache_.num_heads / cache_.num_kv_heads);

    RecurrenceBlock block;
    block.grid = cache_.grid;
    block.key_dim = cache_.key_dim;
    block.scale = args_.scale;
    block.begin = begin - line;
    block.end = end - line;
    block.is_decode = sequence.is_decode != 0;
    block.queries = args_.q.f32_row(row) + head * cache_.key_dim;
    block.query_stride = args_.q.stride;
    block.keys = Rows(cache_.keys, sequence, args_.k.f32_row(row) + kv_head * cache_.key_dim,
                      args_.k.stride, block.begin, cache_.num_kv_heads, kv_head, cache_.key_dim);
    block.values =
        Rows(cache_.values, sequence, args_.v.f32_row(row) + kv_head * cache_.value_dim,
             args_.v.stride, block.begin, cache_.num_kv_heads, kv_head, cache_.value_dim);
    block.step_log_gates = log_gates_ + (row * cache_.num_heads + head) * cache_.key_dim;
    block.log_gate_stride = int64_t{cache_.num_heads} * cache_.key_dim;
    // A task that computes all columns needs only the queries and scores of its present block. The
    // blocks of the sequence use the same memory, one after the other, so that it stays in cache.
    const int64_t workspace_row =
        head * args_.batch.num_rows + (num_slices_ == 1 ? sequence.first_row : row);
    block.decayed_queries = decayed_queries_ + workspace_row * cache_.key_dim;
    block.scores = scores_ + workspace_row * cache_.grid;
    block.gated = args_.log_decay == nullptr;
    if (!block.gated) {
      block.log_decay = args_.log_decay[head];
      return block;
    }
    block.gates = args_.gate.f32_row(row) + head * cache_.key_dim;
    block.gate_stride = args_.gate.stride;
    block.log_gates = Rows(cache_.gates, sequence, block.step_log_gates, block.log_gate_stride,
                           block.begin, cache_.num_heads, head, cache_.key_dim);
    return block;
  }

  void Advance(const SequenceRows& sequence, int64_t head, int64_t slice_index) const {
    RecurrenceSlice slice;
    slice.column = slice_index * kMaxSliceColumns;
    slice.count = cache_.value_dim - slice.column;
    if (slice.count > kMaxSliceColumns) slice.count = kMaxSliceColumns;
    slice.state_stride = cache_.value_dim;
    slice.state = Memory(cache_.state, sequence) + head * cache_.key_dim * slice.state_stride;
    slice.out_stride = args_.out.stride;
    slice.out = args_.out.f32_row(sequence.first_row) + head * cache_.value_dim;
    for (int64_t i = 0; i < NumBlocks(sequence); ++i) {
      const RecurrenceBlock block = BlockOf(sequence, i, head);
      if (num_slices_ == 1) PrepareBlock(block);
      ApplyBlock(block, slice);
      slice.out += (block.end - block.begin) * slice.out_stride;
    }
  }

  // Copies the step's rows of an incomplete last block into the cache.
  void Remember(const SequenceRows& sequence) const {
    const int64_t after = sequence.first_position + sequence.num_rows;
    const int64_t end = after % cache_.grid;
    const int64_t count = end < sequence.num_rows ? end : sequence.num_rows;
    const int64_t begin = end - count;
    const int64_t row = sequence.first_row + sequence.num_rows - count;
    Copy(args_.k, row, count, int64_t{cache_.num_kv_heads} * cache_.key_dim,
         Memory(cache_.keys, sequence), begin);
    Copy(args_.v, row, count, int64_t{cache_.num_kv_heads} * cache_.value_dim,
         Memory(cache_.values, sequence), begin);
    if (args_.log_decay != nullptr) return;
    const int64_t width = int64_t{cache_.num_heads} * cache_.key_dim;
    const Matrix log_gates = {log_gates_, DType::kF32, args_.batch.num_rows, width, width};
    Copy(log_gates, row, count, width, Memory(cache_.gates, sequence), begin);
  }

  static void Copy(const Matrix& from, int64_t row, int64_t count, int64_t width, float* to,
                   int64_t to_row) {
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + (to_row + i) * width, from.f32_row(row + i),
                  static_cast<size_t>(width) * sizeof(float));
    }
  }

  const LinearRecurrenceArgs& args_;
  const RecurrentCache& cache_;
  const int64_t num_slices_;
  float* decayed_queries_;
  float* log_gates_;
  float* scores_;
};

}  // namespace

void LinearRecurrence(Stream& stream, const LinearRecurrenceArgs& args) {
  if (!stream.ok()) return;
  const Recurrence recurrence(stream, args);
  if (!recurrence.Served(stream)) {
    stream.Fail(OpStatus::kUnsupported);
    return;
  }
  recurrence.Run(stream.executor);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
