// The arithmetic of a tile of prefill rows on one block of int8 pages, in integers. Numbers and
// steps are those of decode rows (attention_int8_decode.h). Scores and weights are transposed: keys
// go down, rows go across.
//
//   Int8Blocks   uses the dot product of bytes (VNNI), if the processor has it
//   WordsBlocks  uses the dot product of words, on AVX2
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_INT8_PREFILL_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_INT8_PREFILL_H_

#include <cstdint>

#include "kernels/cpu/attention/attention_int8.h"
#include "kernels/cpu/attention/attention_prefill_blocks.h"

#if defined(__AVX2__)

namespace longstream::cpu::LONGSTREAM_ISA {

#if defined(__AVX512VNNI__)

class Int8Blocks : public BlockSizes {
 public:
  // The integers of queries plus 32768, which makes them unsigned. `high` and `low` hold their
  // bytes: [ceil(D / 4), stride], with the bytes of four d together.
  struct Queries {
    alignas(64) uint8_t high[kMaxHeadDim * kTileRows];
    alignas(64) uint8_t low[kMaxHeadDim * kTileRows];
    alignas(64) float step[kTileRows];
  };

  explicit Int8Blocks(const TileShape& shape) : shape_(shape), quads_((shape.dim + 3) / 4) {}

  LONGSTREAM_INLINE void LoadQuery(const float* q, int64_t r, Queries* queries) const {
    alignas(64) int32_t numbers[kMaxHeadDim] = {};
    queries->step[r] = q == nullptr ? 0.0f : QueryNumbers(q, shape_.dim, shape_.scale, numbers);
    for (int64_t d = 0; d < quads_ * 4; ++d) {
      const int32_t number = numbers[d] + kOffset;
      const int64_t at = (d / 4 * shape_.stride + r) * 4 + d % 4;
      queries->high[at] = static_cast<uint8_t>(number >> 8);
      queries->low[at] = static_cast<uint8_t>(number);
    }
  }

  template <typename T>
  LONGSTREAM_INLINE void Score(const Queries& queries, const HeadRows& keys, int64_t begin,
                               int64_t end, const Ahead& next, float* scores) {
    ForEachRun(keys, begin, end, [&](int64_t position, const RowRun& run) {
      const bool ask = next.bytes == run.count * keys.row_bytes;
      ScoreRun(queries, run, ask ? reinterpret_cast<const int8_t*>(next.data) : nullptr,
               scores + (position - begin) * shape_.stride);
    });
  }

  LONGSTREAM_INLINE void LoadValues(const HeadRows& values, int64_t begin, int64_t end) {
    LoadInt8Scales(values, begin, end, scales_);
  }

  LONGSTREAM_INLINE F32x16 Weights(float* scores, int64_t begin, int64_t end, int64_t r,
                                   const F32x16& max, const Ahead& next) {
    const ScaledWeights weights =
        ScaleWeights(scores, shape_.stride, end - begin, r, max, scales_, next);
    Store(weights.steps.step, steps_ + r);
    const I32x16 low_bytes = Broadcast(0x00ff00ff), high_bytes = Broadcast(-0x00ff0100);
    for (int64_t j = 0; j < end - begin; j += 4) {
      // Joins 16-bit integers to 32 bits: those of the keys j and j + 2, and those of j + 1 and
      // j + 3. Then takes the low and the high bytes of all four.
      const I32x16 even = weights.Numbers(j) | weights.Numbers(j + 2) << 16;
      const I32x16 odd = weights.Numbers(j + 1) | weights.Numbers(j + 3) << 16;
      const I32x16 low = (even & low_bytes) | (odd & low_bytes) << 8;
      const I32x16 high = (even >> 8 & low_bytes) | (odd & high_bytes);
      Store(high, weights_high_ + j / 4 * shape_.stride + r);
      Store(low, weights_low_ + j / 4 * shape_.stride + r);
    }
    return weights.sum;
  }

  template <typename T>
  LONGSTREAM_INLINE void Weigh(const HeadRows& values, int64_t begin, int64_t end, float* sums) {
    Interleave(values, begin, end);
    const int64_t quads = (end - begin + 3) / 4;
    for (int64_t r = 0; r < shape_.rows; r += kRowsAtOnce) {
      const int64_t rows = shape_.rows - r < kRowsAtOnce ? shape_.rows - r : kRowsAtOnce;
      WeighRows(r, rows, quads, sums + r * shape_.padded_dim());
    }
  }

 private:
  static constexpr int32_t kOffset = 32768;
  static constexpr int kRowsAtOnce = 2;  // rows whose 4 vectors of sums fit in registers

  // Computes the scores of a run of keys. Also prefetches the same number of keys at `next`, unless
  // it is nullptr.
  void ScoreRun(const Queries& queries, const RowRun& run, const int8_t* next, float* scores);
  void WeighRows(int64_t first, int64_t rows, int64_t quads, float* sums) const;
  // interleaved_[i, d] = the four numbers d of the rows begin + 4 i ... begin + 4 i + 3. Rows from
  // `end` on count as zeros.
  void Interleave(const HeadRows& values, int64_t begin, int64_t end);

  const TileShape shape_;
  const int64_t quads_;  // number of fours in a head's row
  alignas(64) float scales_[kKeyBlock];
  alignas(64) float steps_[kTileRows];
  alignas(64) int32_t weights_high_[kKeyBlock / 4 * kTileRows];  // [quads of keys, stride]
  alignas(64) int32_t weights_low_[kKeyBlock / 4 * kTileRows];
  alignas(64) int32_t interleaved_[kKeyBlock / 4 * kMaxHeadDim];  // [quads of keys, kMaxHeadDim]
  alignas(64) int8_t gathered_[kKeyBlock * kMaxHeadDim];
};

template <>
struct BlocksFor<int8_t> {
  using Type = Int8Blocks;
};

#else

class WordsBlocks : public BlockSizes {
 public:
  struct Queries {  // the numbers of two d together, the even d in the lower half
    alignas(64) int32_t pairs[kMaxHeadDim / 2 * kTileRows];  // [ceil(D / 2), stride]
    alignas(64) float step[kTileRows];
  };

  explicit WordsBlocks(const TileShape& shape) : shape_(shape), pairs_((shape.dim + 1) / 2) {}

  LONGSTREAM_INLINE void LoadQuery(const float* q, int64_t r, Queries* queries) const {
    alignas(64) int32_t numbers[kMaxHeadDim] = {};
    queries->step[r] = q == nullptr ? 0.0f : QueryNumbers(q, shape_.dim, shape_.scale, numbers);
    for (int64_t i = 0; i < pairs_; ++i) {
      const auto even = static_cast<uint32_t>(numbers[2 * i]) & 0xffff;
      const auto odd = static_cast<uint32_t>(numbers[2 * i + 1]) << 16;
      queries->pairs[i * shape_.stride + r] = static_cast<int32_t>(even | odd);
    }
  }

  template <typename T>
  LONGSTREAM_INLINE void Score(const Queries& queries, const HeadRows& keys, int64_t begin,
                               int64_t end, const Ahead& /*next*/, float* scores) {
    if (begin >= end) return;
    Widen(keys, begin, end);
    ScoreRows(queries, end - begin, scores);
  }

  LONGSTREAM_INLINE void LoadValues(const HeadRows& values, int64_t begin, int64_t end) {
    LoadInt8Scales(values, begin, end, scales_);
  }

  LONGSTREAM_INLINE F32x16 Weights(float* scores, int64_t begin, int64_t end, int64_t r,
                                   const F32x16& max, const Ahead& next) {
    const ScaledWeights weights =
        ScaleWeights(scores, shape_.stride, end - begin, r, max, scales_, next);
    Store(weights.steps.step, steps_ + r);
    for (int64_t j = 0; j < end - begin; j += 2) {
      Store(weights.Numbers(j) | weights.Numbers(j + 1) << 16,
            weights_ + j / 2 * shape_.stride + r);
    }
    return weights.sum;
  }

  template <typename T>
  LONGSTREAM_INLINE void Weigh(const HeadRows& values, int64_t begin, int64_t end, float* sums) {
    Interleave(values, begin, end);
    WeighRows((end - begin + 1) / 2, sums);
  }

 private:
  // key_pairs_[j] = the numbers of row begin + j; key_scales_[j] = its scale.
  void Widen(const HeadRows& keys, int64_t begin, int64_t end);
  void ScoreRows(const Queries& queries, int64_t num_keys, float* scores) const;
  // interleaved_[i, d] = the two numbers d of the rows begin + 2 i and begin + 2 i + 1. Rows from
  // `end` on, and numbers from D on, count as zeros.
  void Interleave(const HeadRows& values, int64_t begin, int64_t end);
  void WeighRows(int64_t num_pairs, float* sums) const;

  const TileShape shape_;
  const int64_t pairs_;  // pairs of numbers in a head's row
  alignas(64) float key_scales_[kKeyBlock];
  alignas(64) float scales_[kKeyBlock];
  alignas(64) float steps_[kTileRows];
  alignas(64) int32_t weights_[kKeyBlock / 2 * kTileRows];        // [pairs of keys, stride]
  alignas(64) int32_t key_pairs_[kKeyBlock * kMaxHeadDim / 2];    // [keys, padded_dim() / 2]
  alignas(64) int32_t interleaved_[kKeyBlock / 2 * kMaxHeadDim];  // [pairs of keys, padded_dim()]
};

template <>
struct BlocksFor<int8_t> {
  using Type = WordsBlocks;
};

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_INT8_PREFILL_H_
