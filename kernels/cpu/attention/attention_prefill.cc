// Attention of a tile of prefill rows.
#include <type_traits>

#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/attention/attention_int8_prefill.h"
#include "kernels/cpu/attention/attention_prefill_blocks.h"
#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

LONGSTREAM_INLINE int64_t Clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

// A tile of prefill rows. If a group has H heads, row r of the tile is the group's query head r % H
// at position first_ + r / H. Keys are of type Near, far keys and values of type T.
template <typename Near, typename T>
class PrefillTile {
  using Blocks = typename BlocksFor<T>::Type;
  // The arithmetic for near keys. Its type differs from Blocks if near keys have a type of their
  // own.
  using NearBlocks = typename BlocksFor<Near>::Type;
  static constexpr bool kOneType = std::is_same_v<Blocks, NearBlocks>;
  static constexpr int64_t kRows = Blocks::kRows;
  static constexpr int64_t kPartRows = Blocks::kPartRows;
  static constexpr int64_t kKeys = Blocks::kKeys;
  static_assert(kRows <= NearBlocks::kRows && kKeys <= NearBlocks::kKeys);

 public:
  PrefillTile(const Attention& attention, const SequenceRows& sequence, const HeadGroup& group,
              int64_t begin, int64_t end)
      : attention_(attention),
        group_(group),
        keys_(attention.keys.Head(attention.batch, sequence, group.kv_head)),
        values_(attention.values.Head(attention.batch, sequence, group.value_head)),
        has_far_(attention.q_far.data != nullptr),
        window_(attention.window),
        first_(begin),
        last_(end - 1),
        first_row_(sequence.first_row + (begin - sequence.first_position)),
        dim_(attention.values.head_dim),
        rows_((end - begin) * group.num_heads),
        stride_((rows_ + kLanes - 1) / kLanes * kLanes),
        blocks_({dim_, rows_, stride_, attention.scale}),
        near_blocks_({dim_, rows_, stride_, attention.scale}),
        sums_stride_(TileShape{dim_, rows_, stride_}.padded_dim()) {
    if (has_far_) far_keys_ = attention.far_keys.Head(attention.batch, sequence, group.kv_head);
  }

  void Run() {
    Start();
    const int64_t low = first_ - window_ + 1;
    const int64_t lowest = has_far_ || low < 0 ? 0 : low;
    for (int64_t block = lowest / kKeys * kKeys; block <= last_; block += kKeys) {
      const int64_t begin = block < lowest ? lowest : block;
      const int64_t end = EndOfBlock(block);
      blocks_.LoadValues(values_, begin, end);
      if constexpr (kPartRows < kRows) blocks_.SetNext(keys_, values_, end, EndOfBlock(end));
      for (int64_t row = 0; row < stride_; row += kPartRows) {
        part_ = {row, stride_ - row < kPartRows ? stride_ - row : kPartRows};
        AddBlock(begin, end);
      }
    }
    Finish();
  }

 private:
  // Rows of the tile that are computed together.
  struct Part {
    int64_t begin = 0;
    int64_t width = 0;  // a multiple of kLanes
  };

  // Adds the keys [begin, end) to the sums of the current part.
  LONGSTREAM_INLINE void AddBlock(int64_t begin, int64_t end) {
    if constexpr (kPartRows < kRows) blocks_.SetPart(part_.begin, part_.width);
    Score(begin, end);
    if (attention_.softcap > 0.0f) CapScores(begin, end);
    if (attention_.alibi_slopes != nullptr) SubtractDistances(begin, end);
    Mask(begin, end);
    Softmax(begin, end);
    blocks_.template Weigh<T>(values_, begin, end, sums_ + part_.begin * sums_stride_);
  }

  void Start() {
    LoadQueries(attention_.q, near(), &q_);
    if (has_far_) LoadQueries(attention_.q_far, blocks_, &q_far_);
    for (int64_t r = 0; r < stride_; ++r) {
      max_[r] = kLowestScore;
      sum_[r] = 0.0f;
      offset_[r] = r < rows_ ? static_cast<int32_t>(r / group_.num_heads) : 0;
      const int64_t head = group_.first_head + r % group_.num_heads;
      slope_[r] = attention_.alibi_slopes == nullptr ? 0.0f : attention_.alibi_slopes[head];
    }
    for (int64_t i = 0; i < stride_ * sums_stride_; ++i) sums_[i] = 0.0f;
  }

  // Loads the queries of the tile. Rows beyond the last one are zero.
  template <typename Queries>
  void LoadQueries(const Matrix& q, auto& blocks, Queries* to) const {
    for (int64_t r = 0; r < stride_; ++r) {
      const float* row = nullptr;
      if (r < rows_) {
        row = q.f32_row(first_row_ + r / group_.num_heads) +
              (group_.first_head + r % group_.num_heads) * dim_;
      }
      blocks.LoadQuery(row, r, to);
    }
  }

  // The end of the keys, within the block that begins at `block`, that the last row of the tile
  // sees.
  int64_t EndOfBlock(int64_t block) const {
    return block + kKeys <= last_ ? block + kKeys : last_ + 1;
  }

  LONGSTREAM_INLINE NearBlocks& near() {
    if constexpr (kOneType) {
      return blocks_;
    } else {
      return near_blocks_;
    }
  }

  // Keys before near_begin are far for every row of the tile, and keys from far_end on are near for
  // every row. Between the two positions lies the band of keys that are near for some rows and far
  // for others.
  void Score(int64_t begin, int64_t end) {
    const int64_t near_begin = Clamp(first_ - window_ + 1, begin, end);
    float* band = scores_ + (near_begin - begin) * part_.width;
    const int64_t next = EndOfBlock(end);
    near().template Score<Near>(q_, keys_, near_begin, end, Ahead::Rows(keys_, end, next), band);
    if (!has_far_) return;
    const int64_t far_end = Clamp(last_ - window_ + 1, begin, end);
    const Ahead next_far = Ahead::Rows(far_keys_, end, next);
    blocks_.template Score<T>(q_far_, far_keys_, begin, near_begin, next_far, scores_);
    blocks_.template Score<T>(q_far_, far_keys_, near_begin, far_end, {}, far_scores_);
    for (int64_t j = near_begin; j < far_end; ++j) {
      float* near_scores = band + (j - near_begin) * part_.width;
      const float* far_scores = far_scores_ + (j - near_begin) * part_.width;
      for (int64_t r = 0; r < part_.width; r += kLanes) {
        Store(Select(IsFar(j, r), Load(far_scores + r), Load(near_scores + r)), near_scores + r);
      }
    }
  }

  // For each of the rows r ... r + 15, whether its position p has p - j >= window.
  LONGSTREAM_INLINE I32x16 IsFar(int64_t j, int64_t r) const {
    return Broadcast(static_cast<int32_t>(window_ - 1 + j - first_)) <
           Load(offset_ + part_.begin + r);
  }

  void CapScores(int64_t begin, int64_t end) {
    for (int64_t i = 0; i < (end - begin) * part_.width; i += kLanes) {
      Store(SoftCapped(Load(scores_ + i), attention_.softcap), scores_ + i);
    }
  }

  // scores[j - begin, r] -= slope[r] (p[r] - j)
  void SubtractDistances(int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const I32x16 position = Broadcast(static_cast<int32_t>(j - first_));
      float* scores = scores_ + (j - begin) * part_.width;
      for (int64_t r = 0; r < part_.width; r += kLanes) {
        const F32x16 ahead = ToF32(position - Load(offset_ + part_.begin + r));
        Store(Fma(Load(slope_ + part_.begin + r), ahead, Load(scores + r)), scores + r);
      }
    }
  }

  // Hides from each row the keys at later positions and, if there are no far keys, the keys before
  // its window.
  void Mask(int64_t begin, int64_t end) {
    const F32x16 hidden = Broadcast(kHiddenScore);
    for (int64_t j = begin > first_ ? begin : first_ + 1; j < end; ++j) {
      const I32x16 position = Broadcast(static_cast<int32_t>(j - first_));
      float* scores = scores_ + (j - begin) * part_.width;
      for (int64_t r = 0; r < part_.width; r += kLanes) {
        Store(Select(Load(offset_ + part_.begin + r) < position, hidden, Load(scores + r)),
              scores + r);
      }
    }
    if (has_far_) return;
    const int64_t seen_by_all = Clamp(last_ - window_ + 1, begin, end);
    for (int64_t j = begin; j < seen_by_all; ++j) {
      float* scores = scores_ + (j - begin) * part_.width;
      for (int64_t r = 0; r < part_.width; r += kLanes) {
        Store(Select(IsFar(j, r), hidden, Load(scores + r)), scores + r);
      }
    }
  }

  // Turns scores into weights e^(score - max), and scales the sums so far to the new maximum.
  void Softmax(int64_t begin, int64_t end) {
    const Ahead next = Ahead::Rows(values_, end, EndOfBlock(end));
    for (int64_t r = 0; r < part_.width; r += kLanes) {
      const F32x16 old_max = Load(max_ + part_.begin + r);
      const F32x16 new_max = Max(Largest(scores_ + r, end - begin), old_max);
      const F32x16 sum = blocks_.Weights(scores_, begin, end, r, new_max, next);
      const F32x16 correction = Exp(old_max - new_max);
      Store(Fma(Load(sum_ + part_.begin + r), correction, sum), sum_ + part_.begin + r);
      Store(new_max, max_ + part_.begin + r);
      Store(correction, correction_ + part_.begin + r);
    }
    const int64_t part_end = part_.begin + part_.width;
    for (int64_t r = part_.begin; r < (part_end < rows_ ? part_end : rows_); ++r) {
      if (correction_[r] == 1.0f) continue;
      const F32x16 correction = Broadcast(correction_[r]);
      float* sums = sums_ + r * sums_stride_;
      for (int64_t d = 0; d < sums_stride_; d += kLanes) {
        Store(Load(sums + d) * correction, sums + d);
      }
    }
  }

  // The largest score of each of 16 rows over `count` keys. Computes four maxima side by side,
  // because each comparison waits for the one before.
  F32x16 Largest(const float* scores, int64_t count) const {
    F32x16 largest[4];
    for (F32x16& part : largest) part = Load(scores);
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) {
      for (int i = 0; i < 4; ++i) {
        largest[i] = Max(Load(scores + (j + i) * part_.width), largest[i]);
      }
    }
    for (; j < count; ++j) largest[0] = Max(Load(scores + j * part_.width), largest[0]);
    return Max(Max(largest[0], largest[1]), Max(largest[2], largest[3]));
  }

  void Finish() const {
    for (int64_t r = 0; r < rows_; ++r) {
      const F32x16 sum = Broadcast(sum_[r]);
      const float* sums = sums_ + r * sums_stride_;
      float* out = attention_.out.f32_row(first_row_ + r / group_.num_heads) +
                   (group_.first_out + r % group_.num_heads * group_.out_stride) * dim_;
      ForEachRowVector(dim_, [&](int64_t d, const auto& access) {
        F32x16 value = access.Read(sums + d) / sum;
        // A tile product of zeros makes -0 to +0, and blocks of zeros may be left out.
        if constexpr (kHasTiles) value = value + Zero();
        access.Write(value, out + d);
      });
    }
  }

  const Attention& attention_;
  const HeadGroup& group_;
  const HeadRows keys_;
  HeadRows far_keys_;
  const HeadRows values_;
  const bool has_far_;
  const int64_t window_;
  const int64_t first_;      // the first position of the tile
  const int64_t last_;       // the last position of the tile
  const int64_t first_row_;  // the row of the step at first_
  const int64_t dim_;
  const int64_t rows_;
  const int64_t stride_;  // rows_, rounded up to whole vectors

  Part part_;
  Blocks blocks_;
  std::conditional_t<kOneType, TileShape, NearBlocks> near_blocks_;
  const int64_t sums_stride_;

  typename NearBlocks::Queries q_;
  typename Blocks::Queries q_far_;
  alignas(64) float scores_[kKeys * kPartRows];      // [keys, part_.width]
  alignas(64) float far_scores_[kKeys * kPartRows];  // [keys of the band, part_.width]
  alignas(64) float sums_[kRows * kMaxHeadDim];      // [rows_, sums_stride_], weighted values
  alignas(64) float max_[kRows];
  alignas(64) float sum_[kRows];
  alignas(64) float correction_[kRows];
  alignas(64) int32_t offset_[kRows];  // a row's position minus first_
  alignas(64) float slope_[kRows];     // slopes of ALiBi
};

}  // namespace

void AttendPrefill(const Attention& attention, const SequenceRows& sequence, const HeadGroup& group,
                   int64_t begin, int64_t end) {
  ForKeysAndValues(attention, [&](auto near, auto element) {
#if defined(LONGSTREAM_TILES)
    // The unit takes subnormal weights as zeros anyway. On Intel processors an exponential of a
    // hidden score, which underflows, takes 150 cycles more if its result may be subnormal.
    const FlushesSubnormals flushes;
#endif
    PrefillTile<decltype(near), decltype(element)> tile(attention, sequence, group, begin, end);
    tile.Run();
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
