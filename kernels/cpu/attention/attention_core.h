// Flash attention over pages and rings: the core of attention over every view of keys.
//
// For each row and head it computes an online softmax (Dao 2022) over blocks of kKeyBlock keys. It
// keeps a running maximum, the sum of the weights and the weighted sum of the values, all in f32.
// Blocks begin at multiples of kKeyBlock in the sequence, whichever rows are computed together. So
// a row's bits depend on its own position and keys alone.
//
//   decode   One task computes a split of the context for one K/V head, or for several or all heads
//            if there are enough tasks. It reads keys and values in place, once for all query heads
//            that share them. The splits are merged in the order of positions.
//   prefill  One task computes a K/V head for a tile of up to kTileRows pairs (position, query
//            head). Scores are transposed: keys go down, rows go across. So the softmax of 16 rows
//            is plain vector arithmetic, and no key is ever transposed.
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_CORE_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_CORE_H_

#include <cstdint>
#include <limits>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/cpu/attention/head_rows.h"
#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/cpu/simd/row_vectors.h"
#include "kernels/ops/attention/attention.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// The number of keys of a block. The keys and values of a block in f32 stay in a second-level
// cache, together with the sums of a tile.
inline constexpr int64_t kKeyBlock = 64;
inline constexpr int64_t kTileRows = 64;
// The rows of a tile over bf16 keys and values, if the matrix unit computes it. It then reads keys
// and values half as often.
inline constexpr int64_t kUnitTileRows = 128;
// The most query heads of a group. A tile of 64 rows then covers at least 4 positions.
inline constexpr int64_t kMaxGroup = 16;
// A window of this size means that there is no window. The sum of it and a position does not
// overflow.
inline constexpr int64_t kUnbounded = INT64_MAX / 2;

inline constexpr float kHiddenScore = -std::numeric_limits<float>::infinity();
// The value of a maximum before the first score. It is finite, so a hidden score minus this value
// is not NaN.
inline constexpr float kLowestScore = -std::numeric_limits<float>::max();

// The arguments of attention over any view of keys.
//
// score(p, j) = scale * q . keys_j           if p - j < window
//               scale * q_far . far_keys_j   if p - j >= window
// Without q_far, a row does not see the keys with p - j >= window. A softcap bounds the score
// (ops/attention/attention.h). Then slopes subtract alibi_slopes[h] * (p - j) from it.
//
// The slices of a value are heads of width D that share a key (batch_layout.h). Each slice is a
// group of its own. If the slices of a decode row are computed together, they share their weights.
struct Attention {
  BatchLayout batch;
  int32_t num_heads = 0;
  float scale = 1.0f;
  float softcap = 0.0f;  // 0: none
  int64_t window = kUnbounded;
  Matrix q;      // [T, H * D]
  Matrix q_far;  // [T, H * D]; data nullptr: none
  RowStore keys;
  RowStore far_keys;
  RowStore values;
  const float* alibi_slopes = nullptr;  // [H]
  // If true, decode rows are split by AttentionSplit, and the call needs AttentionWorkspace. If
  // false, each decode row is one task.
  bool split = false;
  int64_t max_position = 0;  // read only with split
  Matrix out;                // [T, H * value_slices() * D]

  LONGSTREAM_INLINE int64_t value_slices() const { return values.num_heads / keys.num_heads; }
};

// Calls body(near, element): `near` has the type of attention.keys, `element` the type of all other
// keys and values. REQUIRES: TypesServed(attention)
template <typename Body>
LONGSTREAM_INLINE void ForKeysAndValues(const Attention& attention, const Body& body) {
  if (attention.values.type == DType::kI8) {
    if (attention.keys.type == DType::kI8) return body(int8_t{}, int8_t{});
    return body(BF16{}, int8_t{});
  }
  ForType(attention.values.type, [&](auto element) { body(element, element); });
}

// Whether attention serves these types. Rings are never int8, and near keys beside int8 pages are
// bf16. Otherwise all keys and values have one type.
LONGSTREAM_INLINE bool TypesServed(const Attention& attention) {
  const DType type = attention.values.type;
  if (type == DType::kI8 && !attention.values.paged) return false;
  if (attention.q_far.data != nullptr && attention.far_keys.type != type) return false;
  if (attention.keys.type == type) return type != DType::kI8 || attention.keys.paged;
  return type == DType::kI8 && attention.keys.type == DType::kBF16;
}

// The most pairs (position, query head) of a tile of prefill rows.
LONGSTREAM_INLINE int64_t RowsOfTile(const Attention& attention) {
  return kHasTiles && attention.values.type == DType::kBF16 ? kUnitTileRows : kTileRows;
}

// At most kMaxGroup query heads that share a K/V head, with one slice of its values. All heads of a
// group are computed in one pass over keys and values.
struct HeadGroup {
  int64_t kv_head = 0;
  int64_t value_head = 0;  // kv_head * value_slices() + the slice
  int64_t first_head = 0;
  int64_t num_heads = 0;
  int64_t first_out = 0;   // the head of `out` that gets the sums of query head first_head
  int64_t out_stride = 1;  // distance of the sums of neighbouring query heads, in heads of `out`
};

// Sums of a decode row over some of its keys, for the heads of a group. For head h there are D + 2
// floats at data + h * stride: the sum of e^(score - max) * value, which has D numbers; then max;
// then the sum of e^(score - max).
struct PartialRows {
  float* data = nullptr;
  int64_t stride = 0;
};

// The most groups of a decode row that one task computes together; it does so if there are enough
// tasks. The keys of the groups lie side by side in a page, and so do their values. 12 groups of
// the widest heads (kMaxHeadDim) take 0.9 MiB of stack.
inline constexpr int64_t kMaxDecodeGroups = 12;

// Attention of one decode row over its keys [begin, end), for num_groups <= kMaxDecodeGroups
// groups. The sums of groups[i] go to partials[i]. `following` is the group that the caller
// computes next, over the same positions; nullptr: no group follows.
void AttendDecode(const Attention& attention, const SequenceRows& sequence, const HeadGroup* groups,
                  int64_t num_groups, const HeadGroup* following, int64_t begin, int64_t end,
                  const PartialRows* partials);

// Attention of the rows of one sequence at the positions [begin, end); the result goes to `out`.
// REQUIRES: (end - begin) * group.num_heads <= RowsOfTile(attention), and all positions are in one
// block of keys.
void AttendPrefill(const Attention& attention, const SequenceRows& sequence, const HeadGroup& group,
                   int64_t begin, int64_t end);

// Computes the whole call. Fails the stream for heads wider than kMaxHeadDim, a position beyond
// max_position, or a workspace that is too small.
void Attend(Stream& stream, const Attention& attention);

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_CORE_H_
