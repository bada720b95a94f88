// Attention of one decode row, for several groups. A group has query heads that share a K/V head.
#include <algorithm>
#include <cstddef>
#include <new>
#include <type_traits>

#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/attention/attention_decode_blocks.h"
#include "kernels/cpu/attention/attention_int8_decode.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

constexpr int kBlockVectors = static_cast<int>(kKeyBlock) / kLanes;
// The widest register holds at most this many numbers of a row: 64 numbers of int8.
constexpr int64_t kWidestRegister = 64;

// Computes one group of a decode row. FarKeys is the class for far keys. Keys is the class for the
// others: near keys, the keys of a window, or all keys.
template <typename Keys, typename FarKeys, typename Values>
class DecodeRow {
 public:
  DecodeRow(const Attention& attention, const SequenceRows& sequence, const HeadGroup& group,
            BlockScratch* scratch)
      : attention_(attention),
        sequence_(sequence),
        group_(group),
        has_far_(attention.q_far.data != nullptr),
        position_(sequence.first_position),
        near_begin_(position_ - attention.window + 1),
        dim_(attention.values.head_dim),
        width_(kWidestRegister * NumVectors(dim_, kWidestRegister)),
        shape_{dim_, group.num_heads, attention.scale, scratch},
        keys_(shape_, Head(attention.keys, group.kv_head)),
        far_keys_(shape_, has_far_ ? Head(attention.far_keys, group.kv_head) : HeadRows()),
        values_(shape_, Head(attention.values, group.value_head)) {
    const int64_t first = group.first_head * dim_;
    keys_.LoadQueries(attention.q.f32_row(sequence.first_row) + first);
    if (has_far_) far_keys_.LoadQueries(attention.q_far.f32_row(sequence.first_row) + first);
  }

  void Start() {
    for (int64_t h = 0; h < group_.num_heads; ++h) {
      for (int64_t d = 0; d < width_; d += kLanes) Store(Zero(), sums_ + h * kMaxHeadDim + d);
      max_[h] = kLowestScore;
      sum_[h] = 0.0f;
    }
  }

  // Announces the keys [begin, end) of `group`, which may be another group than this one. They are
  // in one block, and they are computed after the next Score of this group. That Score prefetches
  // them. AnnounceValues announces values, which the next Weigh prefetches.
  void AnnounceKeys(const HeadGroup& group, int64_t begin, int64_t end) {
    const int64_t border = FarUntil(begin, end);
    if (has_far_) far_keys_.Announce(Head(attention_.far_keys, group.kv_head), begin, border);
    keys_.Announce(Head(attention_.keys, group.kv_head), border, end);
  }
  void AnnounceValues(const HeadGroup& group, int64_t begin, int64_t end) {
    values_.Announce(Head(attention_.values, group.value_head), begin, end);
  }

  // After the keys of the last group come values, and after its values come keys. So Score must
  // then prefetch values (AnnounceValuesBehindKeys), and Weigh must prefetch keys
  // (AnnounceKeysBehindValues). A class prefetches only rows of its own type: beside int8 pages,
  // Score of bf16 near keys prefetches no values, and Weigh prefetches no near keys. If a block has
  // far and near keys, only its far keys are prefetched.
  void AnnounceValuesBehindKeys(const HeadGroup& group, int64_t begin, int64_t end) {
    const HeadRows rows = Head(attention_.values, group.value_head);
    const bool far = FarUntil(begin, end) == end;  // whether far keys are scored last
    far_keys_.Announce(rows, begin, far ? end : begin);
    keys_.Announce(rows, begin, !far && kNearKeysAsValues ? end : begin);
  }
  void AnnounceKeysBehindValues(const HeadGroup& group, int64_t begin, int64_t end) {
    const int64_t far_end = FarUntil(begin, end);
    if (far_end > begin) {
      values_.Announce(Head(attention_.far_keys, group.kv_head), begin, far_end);
    } else {
      values_.Announce(Head(attention_.keys, group.kv_head), begin,
                       kNearKeysAsValues ? end : begin);
    }
  }

  // Computes the weights of the keys [first, last) of the block that begins at `block`.
  void Score(int64_t block, int64_t first, int64_t last) {
    ScoreKeys(block, first, last);
    if (attention_.alibi_slopes != nullptr) SubtractDistances(block);
    for (int64_t h = 0; h < group_.num_heads; ++h) Softmax(h);
  }

  // Whether `other` computes the same weights, because it has another slice of the same values.
  bool SharesWeights(const DecodeRow& other) const {
    return group_.kv_head == other.group_.kv_head && group_.first_head == other.group_.first_head;
  }
  // Takes the weights from `other`, whose weights are the same. The caller does this instead of
  // Score.
  void TakeWeights(const DecodeRow& other) {
    for (int64_t h = 0; h < group_.num_heads; ++h) {
      if (other.max_[h] > max_[h]) RaiseMax(h, other.max_[h]);
      sum_[h] = other.sum_[h];
    }
    __builtin_memcpy(scores_, other.scores_,
                     static_cast<size_t>(group_.num_heads * kKeyBlock) * sizeof(float));
  }

  // Adds the block's values, multiplied by the weights, to the sums.
  void Weigh(int64_t block, int64_t first, int64_t last) {
    values_.Weigh(scores_, block, first, last, sums_);
  }

  void Finish(const PartialRows& partials) const {
    for (int64_t h = 0; h < group_.num_heads; ++h) {
      float* partial = partials.data + h * partials.stride;
      values_.InOrder(sums_ + h * kMaxHeadDim, partial);
      partial[dim_] = max_[h];
      partial[dim_ + 1] = sum_[h];
    }
  }

 private:
  // Far keys always have the type of the values.
  static constexpr bool kNearKeysAsValues = std::is_same_v<Keys, FarKeys>;

  HeadRows Head(const RowStore& rows, int64_t index) const {
    return rows.Head(attention_.batch, sequence_, index);
  }

  // The position at which the far keys among the keys [begin, end) end.
  int64_t FarUntil(int64_t begin, int64_t end) const {
    return has_far_ ? std::clamp(near_begin_, begin, end) : begin;
  }

  // Computes the scores of the keys [first, last) of the block that begins at `block`, and hides
  // the rest of the block.
  void ScoreKeys(int64_t block, int64_t first, int64_t last) {
    for (int64_t h = 0; h < group_.num_heads; ++h) {
      float* scores = scores_ + h * kKeyBlock;
      for (int64_t j = block; j < first; ++j) scores[j - block] = kHiddenScore;
      for (int64_t j = last; j < block + kKeyBlock; ++j) scores[j - block] = kHiddenScore;
    }
    const int64_t border = std::clamp(near_begin_, first, last);
    if (has_far_) far_keys_.Score(block, first, border, scores_);
    keys_.Score(block, border, last, scores_);
    if (attention_.softcap > 0.0f) CapScores();
  }

  // Caps the scores, but not those of hidden keys.
  void CapScores() {
    const F32x16 lowest = Broadcast(kLowestScore);
    for (int64_t i = 0; i < group_.num_heads * kKeyBlock; i += kLanes) {
      const F32x16 score = Load(scores_ + i);
      Store(Select(score < lowest, score, SoftCapped(score, attention_.softcap)), scores_ + i);
    }
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

  // Raises the maximum of a head, and scales the head's sums so far to the new maximum.
  void RaiseMax(int64_t h, float new_max) {
    const F32x16 correction = Exp(Broadcast(max_[h] - new_max));
    max_[h] = new_max;
    sum_[h] *= correction.part[0][0];
    float* sums = sums_ + h * kMaxHeadDim;
    for (int64_t d = 0; d < width_; d += kLanes) {
      Store(Load(sums + d) * correction, sums + d);
    }
  }

  // Turns the scores of a block for one head into weights e^(score - max).
  void Softmax(int64_t h) {
    float* scores = scores_ + h * kKeyBlock;
    F32x16 largest = Load(scores);
    for (int v = 1; v < kBlockVectors; ++v) largest = Max(Load(scores + v * kLanes), largest);
    const float block_max = MaxLane(largest);
    if (block_max > max_[h]) RaiseMax(h, block_max);
    F32x16 block_sum = Zero();
    for (int v = 0; v < kBlockVectors; ++v) {
      const F32x16 weight = ExpOfNegative(Load(scores + v * kLanes) - Broadcast(max_[h]));
      Store(weight, scores + v * kLanes);
      block_sum = block_sum + weight;
    }
    sum_[h] += Sum(block_sum);
  }

  const Attention& attention_;
  const SequenceRows& sequence_;
  const HeadGroup& group_;
  const bool has_far_;
  const int64_t position_;
  const int64_t near_begin_;  // the first position whose key is near; may be negative
  const int64_t dim_;
  const int64_t width_;  // numbers of a row of sums: D, rounded up to whole registers
  const DecodeShape shape_;

  Keys keys_;
  FarKeys far_keys_;
  Values values_;
  alignas(64) float scores_[kMaxGroup * kKeyBlock];  // [heads, keys]
  alignas(64) float sums_[kMaxGroup * kMaxHeadDim];  // [heads, kMaxHeadDim], weighted values
  float max_[kMaxGroup];
  float sum_[kMaxGroup];
};

// The first group after groups[i] that has other keys than groups[i]; nullptr: there is none.
const HeadGroup* WithOtherKeys(const HeadGroup* groups, int64_t num_groups, int64_t i) {
  for (int64_t j = i + 1; j < num_groups; ++j) {
    if (groups[j].kv_head != groups[i].kv_head) return groups + j;
  }
  return nullptr;
}

// Computes several groups block by block. In each block it first computes the keys of all groups,
// which lie side by side in a page, and then the values of all groups. While one group is computed,
// the data of the next one is prefetched. The processor's own prefetcher works only in such long
// runs of memory.
template <typename Row>
void AttendHeads(const Attention& attention, const SequenceRows& sequence, const HeadGroup* groups,
                 int64_t num_groups, const HeadGroup* following, int64_t begin, int64_t end,
                 const PartialRows* partials) {
  static_assert(std::is_trivially_destructible_v<Row>);
  BlockScratch scratch;
  alignas(Row) std::byte storage[kMaxDecodeGroups * sizeof(Row)];
  Row* const rows = std::launder(reinterpret_cast<Row*>(storage));
  for (int64_t i = 0; i < num_groups; ++i) {
    new (rows + i) Row(attention, sequence, groups[i], &scratch);
    rows[i].Start();
  }
  const int64_t first_block = begin / kKeyBlock * kKeyBlock;
  for (int64_t block = first_block; block < end; block += kKeyBlock) {
    const int64_t first = std::max(block, begin);
    const int64_t last = std::min(block + kKeyBlock, end);
    // After the last group of a block comes the next block. After the last block comes the first
    // block of the following group.
    const bool is_last = last == end && following != nullptr;
    const HeadGroup& next_group = is_last ? *following : groups[0];
    const int64_t next_first = is_last ? begin : last;
    const int64_t next_last = std::min((is_last ? first_block : last) + kKeyBlock, end);
    for (int64_t i = 0; i < num_groups; ++i) {
      if (const HeadGroup* other = WithOtherKeys(groups, num_groups, i)) {
        rows[i].AnnounceKeys(*other, first, last);
      } else {
        rows[i].AnnounceValuesBehindKeys(groups[0], first, last);
      }
      if (i + 1 < num_groups) {
        rows[i].AnnounceValues(groups[i + 1], first, last);
      } else {
        rows[i].AnnounceKeysBehindValues(next_group, next_first, next_last);
      }
    }
    for (int64_t i = 0; i < num_groups; ++i) {
      if (i > 0 && rows[i].SharesWeights(rows[i - 1])) {
        rows[i].TakeWeights(rows[i - 1]);
      } else {
        rows[i].Score(block, first, last);
      }
    }
    for (int64_t i = 0; i < num_groups; ++i) rows[i].Weigh(block, first, last);
  }
  for (int64_t i = 0; i < num_groups; ++i) rows[i].Finish(partials[i]);
}

}  // namespace

void AttendDecode(const Attention& attention, const SequenceRows& sequence, const HeadGroup* groups,
                  int64_t num_groups, const HeadGroup* following, int64_t begin, int64_t end,
                  const PartialRows* partials) {
  const auto run = [&](auto near, auto element) {
    using Near = DecodeBlocksFor<decltype(near)>;
    using Blocks = DecodeBlocksFor<decltype(element)>;
    using Row = DecodeRow<typename Near::Keys, typename Blocks::Keys, typename Blocks::Values>;
    AttendHeads<Row>(attention, sequence, groups, num_groups, following, begin, end, partials);
  };
  ForKeysAndValues(attention, run);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
