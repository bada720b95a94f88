// Divides attention into tasks and merges the splits of decode rows.
#include "kernels/cpu/attention/attention_core.h"

#include <algorithm>

#include "kernels/cpu/simd/row_vectors.h"
#include "kernels/ops/attention/attention.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// The number of positions of a prefill tile: a power of two that divides kKeyBlock. Tiles are cut
// at absolute multiples of this number, so all rows of a tile end in the same block of keys.
int64_t TilePositions(int64_t group_heads, int64_t rows) {
  int64_t positions = kKeyBlock;
  while (positions * group_heads > rows) positions /= 2;
  return positions;
}

// The largest divisor of n that is at most `most`.
int64_t Divisor(int64_t n, int64_t most) {
  int64_t divisor = std::min(n, most);
  while (n % divisor != 0) --divisor;
  return divisor;
}

// The tasks of one call: the sizes that they share, and their work.
class Tasks {
 public:
  Tasks(Stream& stream, const Attention& attention)
      : attention_(attention),
        dim_(attention.values.head_dim),
        slices_(attention.value_slices()),
        heads_per_kv_head_(attention.num_heads / attention.keys.num_heads),
        groups_per_kv_head_((heads_per_kv_head_ + kMaxGroup - 1) / kMaxGroup),
        num_groups_(attention.keys.num_heads * groups_per_kv_head_ * slices_),
        num_out_heads_(attention.num_heads * slices_),
        tile_positions_(
            TilePositions(heads_per_kv_head_ < kMaxGroup ? heads_per_kv_head_ : kMaxGroup,
                          RowsOfTile(attention))),
        max_splits_(attention.split ? AttentionSplits(attention.max_position) : 1),
        partials_(reinterpret_cast<float*>(stream.workspace)) {
    for (int32_t s = 0; s < attention.batch.num_sequences; ++s) {
      const SequenceRows& sequence = attention.batch.sequences[s];
      if (sequence.is_decode != 0) {
        ++num_decode_rows_;
        num_splits_ += NumUnits(sequence);
      } else {
        num_tiles_ += NumUnits(sequence);
      }
      const int64_t last = sequence.first_position + sequence.num_rows - 1;
      if (last > last_position_) last_position_ = last;
    }
    // A task takes as many groups as possible. But there must be enough tasks for all threads to
    // end at about the same time.
    const int64_t enough = int64_t{4} * stream.executor.num_threads;
    task_groups_ = num_groups_;
    while (num_splits_ * num_groups_ < enough * task_groups_ && task_groups_ > 1) {
      task_groups_ = Divisor(num_groups_, task_groups_ - 1);
    }
    decode_groups_ = Divisor(task_groups_, kMaxDecodeGroups);
  }

  bool Served(const Stream& stream) const {
    if (dim_ > kMaxHeadDim || !TypesServed(attention_)) return false;
    if (!attention_.split) return true;
    return last_position_ <= attention_.max_position &&
           stream.workspace_bytes >=
               AttentionWorkspace(num_decode_rows_, num_out_heads_, dim_, attention_.max_position);
  }

  int64_t num_tasks() const {
    return num_splits_ * (num_groups_ / task_groups_) + num_tiles_ * num_groups_;
  }
  int64_t num_merges() const {
    return num_splits_ > num_decode_rows_ ? num_decode_rows_ * num_out_heads_ : 0;
  }

  // The tasks of a sequence have consecutive numbers. For a decode row, the tasks of one split
  // follow each other, because the heads of a page lie side by side. For a prefill, the tasks of
  // one group follow each other, because the tiles of a group read the same keys and values.
  void Run(int64_t task) const {
    int64_t decode_row = 0;
    const SequenceRows* sequence = attention_.batch.sequences;
    for (; task >= NumTasks(*sequence); ++sequence) {
      task -= NumTasks(*sequence);
      if (sequence->is_decode != 0) ++decode_row;
    }
    if (sequence->is_decode != 0) {
      const int64_t tasks_per_split = num_groups_ / task_groups_;
      const int64_t first_group = task % tasks_per_split * task_groups_;
      for (int64_t g = 0; g < task_groups_; g += decode_groups_) {
        RunSplit(*sequence, first_group + g, g + decode_groups_ < task_groups_, decode_row,
                 task / tasks_per_split);
      }
      return;
    }
    // Later tiles see more keys and take longer. They come first, so that the last tasks are short.
    const int64_t num_tiles = NumUnits(*sequence);
    RunTile(*sequence, Group(task / num_tiles), num_tiles - 1 - task % num_tiles);
  }

  // Merges the splits of one decode row for one head of `out`.
  void Merge(int64_t merge) const {
    const int64_t head = merge % num_out_heads_;
    int64_t decode_row = merge / num_out_heads_;
    const SequenceRows* sequence = attention_.batch.sequences;
    for (; sequence->is_decode == 0 || decode_row > 0; ++sequence) {
      if (sequence->is_decode != 0) --decode_row;
    }
    const int64_t splits = NumUnits(*sequence);
    if (splits == 1) return;  // its only task has written the result
    const float* partials = Partial(merge / num_out_heads_, head, 0);
    float max = kLowestScore;
    for (int64_t s = 0; s < splits; ++s) {
      const float split_max = partials[s * partial_size() + dim_];
      if (split_max > max) max = split_max;
    }
    float weights[kMaxAttentionSplits];
    float sum = 0.0f;
    for (int64_t s = 0; s < splits; ++s) {
      const float* partial = partials + s * partial_size();
      weights[s] = Exp(Broadcast(partial[dim_] - max)).part[0][0];
      sum += weights[s] * partial[dim_ + 1];
    }
    float* out = attention_.out.f32_row(sequence->first_row) + head * dim_;
    ForEachRowVector(dim_, [&](int64_t d, const auto& access) {
      F32x16 weighted = Zero();
      for (int64_t s = 0; s < splits; ++s) {
        weighted =
            Fma(Broadcast(weights[s]), access.Read(partials + s * partial_size() + d), weighted);
      }
      access.Write(weighted / Broadcast(sum), out + d);
    });
  }

 private:
  static int64_t NumSplits(int64_t position) { return position / AttentionSplit(position) + 1; }

  int64_t NumUnits(const SequenceRows& sequence) const {
    if (sequence.is_decode != 0) {
      return attention_.split ? NumSplits(sequence.first_position) : 1;
    }
    const int64_t last = sequence.first_position + sequence.num_rows - 1;
    return last / tile_positions_ - sequence.first_position / tile_positions_ + 1;
  }

  int64_t NumTasks(const SequenceRows& sequence) const {
    const int64_t groups = sequence.is_decode != 0 ? num_groups_ / task_groups_ : num_groups_;
    return NumUnits(sequence) * groups;
  }

  // Group number `index`. The groups of the slices of one value are neighbours.
  HeadGroup Group(int64_t index) const {
    HeadGroup group;
    const int64_t slice = index % slices_;
    const int64_t heads = index / slices_;
    group.kv_head = heads / groups_per_kv_head_;
    group.value_head = group.kv_head * slices_ + slice;
    const int64_t skipped = heads % groups_per_kv_head_ * kMaxGroup;
    group.first_head = group.kv_head * heads_per_kv_head_ + skipped;
    const int64_t left = heads_per_kv_head_ - skipped;
    group.num_heads = left < kMaxGroup ? left : kMaxGroup;
    group.first_out = group.first_head * slices_ + slice;
    group.out_stride = slices_;
    return group;
  }

  int64_t partial_size() const { return dim_ + 2; }
  float* Partial(int64_t decode_row, int64_t head, int64_t split) const {
    return partials_ +
           ((decode_row * num_out_heads_ + head) * max_splits_ + split) * partial_size();
  }

  void RunTile(const SequenceRows& sequence, const HeadGroup& group, int64_t tile) const {
    const int64_t first = sequence.first_position;
    const int64_t last = first + sequence.num_rows;
    const int64_t tile_begin = (first / tile_positions_ + tile) * tile_positions_;
    const int64_t tile_end = tile_begin + tile_positions_;
    AttendPrefill(attention_, sequence, group, tile_begin < first ? first : tile_begin,
                  tile_end < last ? tile_end : last);
  }

  // Computes the groups [first_group, first_group + decode_groups_) of a split. If `followed`, the
  // caller computes further groups of the same split after this call.
  void RunSplit(const SequenceRows& sequence, int64_t first_group, bool followed,
                int64_t decode_row, int64_t split) const {
    HeadGroup groups[kMaxDecodeGroups + 1];
    for (int64_t i = 0; i < decode_groups_ + (followed ? 1 : 0); ++i) {
      groups[i] = Group(first_group + i);
    }
    const HeadGroup* following = followed ? groups + decode_groups_ : nullptr;
    PartialRows partials[kMaxDecodeGroups];
    const int64_t end = sequence.first_position + 1;
    if (attention_.split && NumUnits(sequence) > 1) {
      for (int64_t i = 0; i < decode_groups_; ++i) {
        partials[i] = {Partial(decode_row, groups[i].first_out, split),
                       groups[i].out_stride * max_splits_ * partial_size()};
      }
      const int64_t length = AttentionSplit(sequence.first_position);
      const int64_t split_end = (split + 1) * length;
      AttendDecode(attention_, sequence, groups, decode_groups_, following, split * length,
                   split_end < end ? split_end : end, partials);
      return;
    }
    const bool has_far = attention_.q_far.data != nullptr;
    const int64_t window_begin = end - attention_.window;
    alignas(64) float data[kMaxDecodeGroups][kMaxGroup * (kMaxHeadDim + 2)];
    for (int64_t i = 0; i < decode_groups_; ++i) partials[i] = {data[i], partial_size()};
    AttendDecode(attention_, sequence, groups, decode_groups_, following,
                 has_far || window_begin < 0 ? 0 : window_begin, end, partials);
    for (int64_t i = 0; i < decode_groups_; ++i) WriteWhole(sequence, groups[i], data[i]);
  }

  // Writes a group's output rows from its sums over all keys.
  void WriteWhole(const SequenceRows& sequence, const HeadGroup& group,
                  const float* partials) const {
    for (int64_t h = 0; h < group.num_heads; ++h) {
      const float* weighted = partials + h * partial_size();
      const F32x16 sum = Broadcast(weighted[dim_ + 1]);
      float* out = attention_.out.f32_row(sequence.first_row) +
                   (group.first_out + h * group.out_stride) * dim_;
      ForEachRowVector(dim_, [&](int64_t d, const auto& access) {
        access.Write(access.Read(weighted + d) / sum, out + d);
      });
    }
  }

  const Attention& attention_;
  const int64_t dim_;
  const int64_t slices_;
  const int64_t heads_per_kv_head_;
  const int64_t groups_per_kv_head_;
  const int64_t num_groups_;
  const int64_t num_out_heads_;
  const int64_t tile_positions_;
  const int64_t max_splits_;
  float* const partials_;      // [decode rows, H * slices_, max_splits_, D + 2]
  int64_t task_groups_ = 1;    // groups in a task of a decode row
  int64_t decode_groups_ = 1;  // groups that a task of a decode row computes together
  int64_t num_splits_ = 0;     // the number of splits of all decode rows
  int64_t num_tiles_ = 0;      // the number of tiles of all prefill rows, for one group
  int64_t num_decode_rows_ = 0;
  int64_t last_position_ = 0;
};

}  // namespace

void Attend(Stream& stream, const Attention& attention) {
  const Tasks tasks(stream, attention);
  if (!tasks.Served(stream)) {
    stream.Fail(OpStatus::kUnsupported);
    return;
  }
  ParallelFor(stream.executor, static_cast<uint32_t>(tasks.num_tasks()),
              [&](uint32_t task) { tasks.Run(task); });
  ParallelFor(stream.executor, static_cast<uint32_t>(tasks.num_merges()),
              [&](uint32_t merge) { tasks.Merge(merge); });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
