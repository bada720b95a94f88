// Attention of one decode row, for all query heads that share a K/V head.
#include "kernels/cpu/attention_core.h"
#include "kernels/cpu/block_product.h"
#include "kernels/cpu/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

constexpr int kBlockVectors = static_cast<int>(kKeyBlock) / kLanes;

class DecodeRow {
 public:
  DecodeRow(const Attention& attention, const SequenceRows& sequence, const HeadGroup& group)
      : attention_(attention),
        group_(group),
        keys_(attention.keys.Head(attention.batch, sequence, group.kv_head)),
        values_(attention.values.Head(attention.batch, sequence, group.kv_head)),
        has_far_(attention.q_far.data != nullptr),
        position_(sequence.first_position),
        near_begin_(position_ - attention.window + 1),
        dim_(attention.values.head_dim) {
    LoadQueries(attention.q.f32_row(sequence.first_row), q_);
    if (!has_far_) return;
    far_keys_ = attention.far_keys.Head(attention.batch, sequence, group.kv_head);
    LoadQueries(attention.q_far.f32_row(sequence.first_row), q_far_);
  }

  template <typename T>
  void Run(int64_t begin, int64_t end, const PartialRows& partials) {
    for (int64_t h = 0; h < group_.num_heads; ++h) {
      float* weighted = partials.data + h * partials.stride;
      for (int64_t d = 0; d < dim_; ++d) weighted[d] = 0.0f;
      weighted[dim_] = kLowestScore;
      weighted[dim_ + 1] = 0.0f;
    }
    for (int64_t block = begin / kKeyBlock * kKeyBlock; block < end; block += kKeyBlock) {
      const int64_t first = block < begin ? begin : block;
      const int64_t last = block + kKeyBlock < end ? block + kKeyBlock : end;
      Score<T>(block, first, last);
      if (attention_.alibi_slopes != nullptr) SubtractDistances(block);
      for (int64_t h = 0; h < group_.num_heads; ++h) {
        Softmax(scores_ + h * kKeyBlock, partials.data + h * partials.stride);
      }
      Weigh<T>(block, first, last, partials);
    }
  }

 private:
  // to[h, d] = scale * q[h, d]
  void LoadQueries(const float* q, float* to) const {
    const float* from = q + group_.first_head * dim_;
    for (int64_t i = 0; i < group_.num_heads * dim_; ++i) to[i] = attention_.scale * from[i];
  }

  // Scores of the keys [first, last) of the block that begins at `block`; the rest of it is hidden.
  template <typename T>
  void Score(int64_t block, int64_t first, int64_t last) {
    for (int64_t h = 0; h < group_.num_heads; ++h) {
      float* scores = scores_ + h * kKeyBlock;
      for (int64_t j = block; j < first; ++j) scores[j - block] = kHiddenScore;
      for (int64_t j = last; j < block + kKeyBlock; ++j) scores[j - block] = kHiddenScore;
    }
    int64_t border = near_begin_ < first ? first : near_begin_;
    if (border > last) border = last;
    if (has_far_) ScoreWith<T>(q_far_, far_keys_, block, first, border);
    ScoreWith<T>(q_, keys_, block, border, last);
  }

  template <typename T>
  void ScoreWith(const float* q, const HeadRows& keys, int64_t block, int64_t begin, int64_t end) {
    ForEachRun(keys, begin, end, [&](int64_t position, const RowRun& run) {
      DotProduct<T> product;
      product.a = q;
      product.a_stride = dim_;
      product.b = reinterpret_cast<const T*>(run.data);
      product.b_stride = run.stride / static_cast<int64_t>(sizeof(T));
      product.c = scores_ + (position - block);
      product.c_stride = kKeyBlock;
      product.rows = group_.num_heads;
      product.cols = run.count;
      product.depth = dim_;
      product.add = false;
      MultiplyTransposed(product);
    });
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
  void Softmax(float* scores, float* weighted) const {
    float& max = weighted[dim_];
    float& sum = weighted[dim_ + 1];
    F32x16 largest = Load(scores);
    for (int v = 1; v < kBlockVectors; ++v) largest = Max(Load(scores + v * kLanes), largest);
    const float block_max = MaxLane(largest);
    if (block_max > max) {
      const F32x16 correction = Exp(Broadcast(max - block_max));
      max = block_max;
      sum *= correction.part[0][0];
      ForEachRowVector(dim_, [&](int64_t d, const auto& access) {
        access.Write(access.Read(weighted + d) * correction, weighted + d);
      });
    }
    F32x16 block_sum = Zero();
    for (int v = 0; v < kBlockVectors; ++v) {
      const F32x16 weight = Exp(Load(scores + v * kLanes) - Broadcast(max));
      Store(weight, scores + v * kLanes);
      block_sum = block_sum + weight;
    }
    sum += Sum(block_sum);
  }

  template <typename T>
  void Weigh(int64_t block, int64_t first, int64_t last, const PartialRows& partials) {
    ForEachRun(values_, first, last, [&](int64_t position, const RowRun& run) {
      Product<T> product;
      product.a = scores_ + (position - block);
      product.a_row = kKeyBlock;
      product.a_k = 1;
      product.b = reinterpret_cast<const T*>(run.data);
      product.b_stride = run.stride / static_cast<int64_t>(sizeof(T));
      product.c = partials.data;
      product.c_stride = partials.stride;
      product.rows = group_.num_heads;
      product.cols = dim_;
      product.depth = run.count;
      Multiply(product);
    });
  }

  const Attention& attention_;
  const HeadGroup& group_;
  const HeadRows keys_;
  HeadRows far_keys_;
  const HeadRows values_;
  const bool has_far_;
  const int64_t position_;
  const int64_t near_begin_;  // the first position whose key is near; may be negative
  const int64_t dim_;

  alignas(64) float q_[kMaxGroup * kMaxHeadDim];      // [heads, D]
  alignas(64) float q_far_[kMaxGroup * kMaxHeadDim];  // [heads, D]
  alignas(64) float scores_[kMaxGroup * kKeyBlock];   // [heads, keys]
};

}  // namespace

void AttendDecode(const Attention& attention, const SequenceRows& sequence, const HeadGroup& group,
                  int64_t begin, int64_t end, const PartialRows& partials) {
  DecodeRow row(attention, sequence, group);
  ForType(attention.values.type,
          [&](auto element) { row.Run<decltype(element)>(begin, end, partials); });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
