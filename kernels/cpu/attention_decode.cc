// Attention of one decode row, for all query heads that share a K/V head.
#include "kernels/cpu/attention_core.h"
#include "kernels/cpu/attention_decode_blocks.h"
#include "kernels/cpu/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

constexpr int kBlockVectors = static_cast<int>(kKeyBlock) / kLanes;

template <typename Blocks>
class DecodeRow {
 public:
  DecodeRow(const Attention& attention, const SequenceRows& sequence, const HeadGroup& group)
      : attention_(attention),
        group_(group),
        keys_(attention.keys.Head(attention.batch, sequence, group.kv_head)),
        has_far_(attention.q_far.data != nullptr),
        position_(sequence.first_position),
        near_begin_(position_ - attention.window + 1),
        dim_(attention.values.head_dim),
        blocks_({dim_, group.num_heads, attention.scale},
                attention.values.Head(attention.batch, sequence, group.kv_head)) {
    const int64_t first = group.first_head * dim_;
    blocks_.LoadQueries(attention.q.f32_row(sequence.first_row) + first, &q_);
    if (!has_far_) return;
    far_keys_ = attention.far_keys.Head(attention.batch, sequence, group.kv_head);
    blocks_.LoadQueries(attention.q_far.f32_row(sequence.first_row) + first, &q_far_);
  }

  void Run(int64_t begin, int64_t end, const PartialRows& partials) {
    for (int64_t h = 0; h < group_.num_heads; ++h) {
      for (int64_t d = 0; d < kMaxHeadDim; d += kLanes) Store(Zero(), sums_ + h * kMaxHeadDim + d);
      max_[h] = kLowestScore;
      sum_[h] = 0.0f;
    }
    for (int64_t block = begin / kKeyBlock * kKeyBlock; block < end; block += kKeyBlock) {
      const int64_t first = block < begin ? begin : block;
      const int64_t last = block + kKeyBlock < end ? block + kKeyBlock : end;
      Announce(last, last + kKeyBlock < end ? last + kKeyBlock : end);
      Score(block, first, last);
      if (attention_.alibi_slopes != nullptr) SubtractDistances(block);
      for (int64_t h = 0; h < group_.num_heads; ++h) Softmax(h);
      blocks_.Weigh(scores_, block, first, last, sums_);
    }
    for (int64_t h = 0; h < group_.num_heads; ++h) {
      float* partial = partials.data + h * partials.stride;
      blocks_.InOrder(sums_ + h * kMaxHeadDim, partial);
      partial[dim_] = max_[h];
      partial[dim_ + 1] = sum_[h];
    }
  }

 private:
  // What comes after a block: [begin, end), of one kind as far as the keys go.
  void Announce(int64_t begin, int64_t end) {
    const bool far = has_far_ && begin < near_begin_;
    blocks_.Announce(far ? far_keys_ : keys_, begin, far && near_begin_ < end ? near_begin_ : end);
  }

  // Scores of the keys [first, last) of the block that begins at `block`; the rest of it is hidden.
  void Score(int64_t block, int64_t first, int64_t last) {
    for (int64_t h = 0; h < group_.num_heads; ++h) {
      float* scores = scores_ + h * kKeyBlock;
      for (int64_t j = block; j < first; ++j) scores[j - block] = kHiddenScore;
      for (int64_t j = last; j < block + kKeyBlock; ++j) scores[j - block] = kHiddenScore;
    }
    int64_t border = near_begin_ < first ? first : near_begin_;
    if (border > last) border = last;
    if (has_far_) blocks_.Score(q_far_, far_keys_, block, first, border, scores_);
    blocks_.Score(q_, keys_, block, border, last, scores_);
  }

  // scores[h, j] -= slope_h (p - j)
  void SubtractDistances(int64_t block) {
    for (int64_t h = 0; h < group_.num_heads; ++h) {
      const F32x16 slope = Broadcast(attention_.alibi_slopes[group_.first_head + h]);
      for (int v = 0; v < kBlockVectors; ++v) {
        float* scores = scores_ + h * kKeyBlock + v * kLanes;
        const auto first = static_cast<int32_t>(block + v * kLanes - position_);
        Store(Fma(slope, ToF32(Iota(first)), Load(scores)), scores);
      }
    }
  }

  // A block's scores become weights e^(score - max); sums so far are brought to the new maximum.
  void Softmax(int64_t h) {
    float* scores = scores_ + h * kKeyBlock;
    F32x16 largest = Load(scores);
    for (int v = 1; v < kBlockVectors; ++v) largest = Max(Load(scores + v * kLanes), largest);
    const float block_max = MaxLane(largest);
    if (block_max > max_[h]) {
      const F32x16 correction = Exp(Broadcast(max_[h] - block_max));
      max_[h] = block_max;
      sum_[h] *= correction.part[0][0];
      float* sums = sums_ + h * kMaxHeadDim;
      for (int64_t d = 0; d < kMaxHeadDim; d += kLanes) {
        Store(Load(sums + d) * correction, sums + d);
      }
    }
    F32x16 block_sum = Zero();
    for (int v = 0; v < kBlockVectors; ++v) {
      const F32x16 weight = ExpOfNegative(Load(scores + v * kLanes) - Broadcast(max_[h]));
      Store(weight, scores + v * kLanes);
      block_sum = block_sum + weight;
    }
    sum_[h] += Sum(block_sum);
  }

  const Attention& attention_;
  const HeadGroup& group_;
  const HeadRows keys_;
  HeadRows far_keys_;
  const bool has_far_;
  const int64_t position_;
  const int64_t near_begin_;  // the first position whose key is near; may be negative
  const int64_t dim_;

  Blocks blocks_;

  typename Blocks::Queries q_;
  typename Blocks::Queries q_far_;
  alignas(64) float scores_[kMaxGroup * kKeyBlock];  // [heads, keys]
  alignas(64) float sums_[kMaxGroup * kMaxHeadDim];  // [heads, kMaxHeadDim], weighted values
  float max_[kMaxGroup];
  float sum_[kMaxGroup];
};

}  // namespace

void AttendDecode(const Attention& attention, const SequenceRows& sequence, const HeadGroup& group,
                  int64_t begin, int64_t end, const PartialRows& partials) {
  ForType(attention.values.type, [&](auto element) {
    DecodeRow<typename DecodeBlocksFor<decltype(element)>::Type> row(attention, sequence, group);
    row.Run(begin, end, partials);
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
