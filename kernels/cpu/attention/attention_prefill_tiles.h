// The arithmetic of a tile of prefill rows on the matrix unit (kernels/cpu/simd/amx_tiles.h), over
// bf16 keys and values. It rounds weights and queries times `scale` to bf16. (With queries that are
// the sum of two bf16 numbers, as PairBlocks has them, scores took twice as many tile products.)
//
//   scores[j, r] += K Q     A tiles: 16 keys in place, 32 numbers each
//                           B tiles: 32 numbers of 16 queries, in pairs
//   sums[r, d] += W V       A tiles: the weights of 16 rows for 32 keys
//                           B tiles: 16 numbers of 32 values, in pairs of keys
//
// Where keys do not fill an A tile, they are copied and followed by zeros. Weights and values cover
// whole groups of 32 keys, with zeros for missing ones. So each sum has one order, whichever keys
// and rows are computed together.
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_PREFILL_TILES_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_PREFILL_TILES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/attention/tile_shape.h"
#include "kernels/cpu/gemm/tile_gemm.h"
#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/cpu/simd/row_vectors.h"
#include "kernels/cpu/simd/transpose.h"

namespace longstream::cpu::LONGSTREAM_ISA {

#if defined(LONGSTREAM_TILES)

class TileBlocks {
 public:
  // A part has as many rows as two tiles, so that its scores stay in the first-level cache. It has
  // many keys, because the unit needs as long to load and store sums as to add 128 keys to them.
  static constexpr int64_t kRows = kUnitTileRows;
  static constexpr int64_t kPartRows = 2 * kAmxRows;
  static constexpr int64_t kKeys = 256;

  // Queries times scale. The pairs of 16 rows, a strip, are [pairs of d, 16]. Zeros follow the last
  // number.
  struct Queries {
    alignas(64) BF16Pair pairs[kMaxHeadDim / 2 * kRows];
  };

  explicit TileBlocks(const TileShape& shape)
      : shape_(shape), depth_((shape.dim + kTileNumbers - 1) / kTileNumbers), width_(shape.stride) {
    unit_.SetShape({});
  }

  // The next calls compute the rows [row, row + width) of the tile; width <= kPartRows. Without
  // this call, Score computes all rows, at most kTileRows.
  LONGSTREAM_INLINE void SetPart(int64_t row, int64_t width) {
    first_row_ = row;
    width_ = width;
  }

  // REQUIRES: rows are loaded in order, up to a whole number of strips
  LONGSTREAM_INLINE void LoadQuery(const float* q, int64_t r, Queries* queries) {
    const int64_t lane = r % kLanes;
    BF16* const staged = &staged_[lane][0].even;
    for (int64_t d = 0; d < depth_ * kTileNumbers; d += kLanes) Store(Zero(), staged + d);
    if (q != nullptr) {
      ForEachRowVector(shape_.dim, [&](int64_t d, const auto& access) LONGSTREAM_INLINE_LAMBDA {
        access.Write(Broadcast(shape_.scale) * access.Read(q + d), staged + d);
      });
    }
    if (lane + 1 < kLanes) return;
    for (int64_t i = 0; i < depth_; ++i) {
      const int64_t to = (r / kLanes * depth_ + i) * kTilePairs;
      CopyTransposed(staged_[0] + i * kLanes, kMaxHeadDim / 2, queries->pairs + to);
    }
  }

  template <typename T>
  LONGSTREAM_INLINE void Score(const Queries& queries, const HeadRows& keys, int64_t begin,
                               int64_t end, const Ahead& /*next*/, float* scores) {
    const int64_t steps = (end - begin + kBoth - 1) / kBoth;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t first = begin + step * kBoth;
      float* to = scores + step * kBoth * width_;
      KeyTile tiles[2] = {Keys(keys, first, end, to, 0), {}};
      const bool both = first + kAmxRows < end;
      if (both) tiles[1] = Keys(keys, first + kAmxRows, end, to + kAmxRows * width_, 1);
      for (int64_t r = 0; r < width_; r += kBoth) {
        const bool both_strips = r + kLanes < width_;
        if (both && both_strips) {
          ScoreTiles<true, true>(queries, tiles, r);
        } else if (both) {
          ScoreTiles<true, false>(queries, tiles, r);
        } else if (both_strips) {
          ScoreTiles<false, true>(queries, tiles, r);
        } else {
          ScoreTiles<false, false>(queries, tiles, r);
        }
      }
      for (int i = 0; i < (both ? 2 : 1); ++i) {
        if (tiles[i].scores == spare_[i]) {
          __builtin_memcpy(to + i * kAmxRows * width_, spare_[i],
                           static_cast<size_t>(tiles[i].count * width_) * sizeof(float));
        }
      }
    }
  }

  // The keys and values [begin, end) come next. Weights prefetches them into the second-level cache
  // at an even rate: two lines for every two exponentials of a strip.
  LONGSTREAM_INLINE void SetNext(const HeadRows& keys, const HeadRows& values, int64_t begin,
                                 int64_t end) {
    next_[0] = &keys;
    next_[1] = &values;
    next_begin_ = begin;
    next_end_ = end;
  }

  LONGSTREAM_INLINE void LoadValues(const HeadRows& values, int64_t begin, int64_t end) {
    InterleaveRows(values, begin, end);
  }

  LONGSTREAM_INLINE F32x16 Weights(const float* scores, int64_t begin, int64_t end, int64_t r,
                                   const F32x16& max, const Ahead& /*next*/) {
    const float* column = scores + r;
    F32x16 sum = Zero();
    const int64_t block = begin / kKeys * kKeys;
    for (int64_t first = FirstGroup(begin); first < end; first += kTileNumbers) {
      const int64_t group = (first - block) / kTileNumbers;
      BF16Pair* to = Weights(r / kLanes, group);
      AskFor((first_row_ + r) / kLanes * kGroups + group, scores);
      if (begin <= first && first + kTileNumbers <= end) {
        sum = WeightsOfGroup(column + (first - begin) * width_, 0, kTileNumbers, max, sum, to);
      } else {
        const int64_t from = first < begin ? begin - first : 0;
        const int64_t until = end - first < kTileNumbers ? end - first : kTileNumbers;
        sum = WeightsOfGroup(column + (first - begin) * width_, from, until, max, sum, to);
      }
    }
    return sum;
  }

  template <typename T>
  LONGSTREAM_INLINE void Weigh(const HeadRows& /*values*/, int64_t begin, int64_t end,
                               float* sums) {
    const int64_t block = begin / kKeys * kKeys;
    const int64_t first = (FirstGroup(begin) - block) / kTileNumbers;
    const int64_t last = (end - 1 - block) / kTileNumbers;
    for (int64_t d = 0; d < shape_.padded_dim(); d += kBoth) {
      const bool both = d + kLanes < shape_.padded_dim();
      if (both && width_ > kLanes) {
        WeighTiles<true, true>(first, last, d, sums);
      } else if (both) {
        WeighTiles<true, false>(first, last, d, sums);
      } else if (width_ > kLanes) {
        WeighTiles<false, true>(first, last, d, sums);
      } else {
        WeighTiles<false, false>(first, last, d, sums);
      }
    }
  }

 private:
  static constexpr int64_t kTilePairs = kAmxRows * kLanes;  // pairs of a tile
  static constexpr int64_t kTileNumbers = 2 * kLanes;       // bf16 numbers in a row of an A tile
  static constexpr int64_t kBoth = 2 * kAmxRows;            // rows, keys or d of two tiles
  static constexpr int64_t kGroups = kKeys / kTileNumbers;
  static constexpr int64_t kRowBytes = kAmxRowBytes;

  // The keys of a block are in groups of 32, the depth of a tile. This is the group that has key j.
  LONGSTREAM_INLINE static int64_t FirstGroup(int64_t j) { return j / kTileNumbers * kTileNumbers; }

  // The weights of a strip of the part for a group of keys: [16 rows, 16 pairs of keys].
  LONGSTREAM_INLINE BF16Pair* Weights(int64_t strip, int64_t group) {
    return weights_ + (strip * kGroups + group) * kTilePairs;
  }

  // Sets asked_ to the share number `share` of the next keys and values. A tile of kRows rows has
  // as many shares as strips times groups of keys. A share is 16 lines, if rows have 256 bytes.
  LONGSTREAM_INLINE void AskFor(int64_t share, const float* scores) {
    constexpr int64_t kShare = kKeys / (kRows / kLanes * kGroups);
    const int64_t position = next_begin_ + share * kShare;
    for (int i = 0; i < 2; ++i) {
      // Without a share, the scores are prefetched again, which costs nothing.
      asked_[i] = position < next_end_ ? next_[i]->From(position).data
                                       : reinterpret_cast<const std::byte*>(scores);
    }
  }

  // Writes the weights of a group of keys. `scores` is the column of the group's first key; keys
  // that are not in [begin, end) have the weight 0. Returns `sum` plus the weights.
  LONGSTREAM_INLINE F32x16 WeightsOfGroup(const float* scores, int64_t begin, int64_t end,
                                          const F32x16& max, F32x16 sum, BF16Pair* to) const {
    const auto weight = [&](int64_t j) LONGSTREAM_INLINE_LAMBDA {
      if (j < begin || j >= end) return Zero();
      const F32x16 w = ExpOfDifference(Load(scores + j * width_), max);
      sum = sum + w;
      return w;
    };
    I32x16 pairs[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) {
      PrefetchL2(asked_[0] + i * kLineBytes);
      PrefetchL2(asked_[1] + i * kLineBytes);
      const F32x16 even = weight(2 * i), odd = weight(2 * i + 1);
      pairs[i] = Pairs(even, odd);
    }
    Transpose(pairs);
    LONGSTREAM_UNROLL
    for (int64_t i = 0; i < kLanes; ++i) {
      Store(pairs[i], reinterpret_cast<int32_t*>(to + i * kLanes));
    }
    return sum;
  }

  // 16 keys, and the place of their scores.
  struct KeyTile {
    const std::byte* data = nullptr;
    int64_t stride = 0;  // bytes
    float* scores = nullptr;
    int64_t count = 0;
  };

  // The keys from `position` on, at most 16 and only up to `end`. Copies them to gathered_[i] if
  // they do not fill a tile in place. The scores of fewer keys go to spare_[i].
  LONGSTREAM_INLINE KeyTile Keys(const HeadRows& keys, int64_t position, int64_t end, float* scores,
                                 int i) {
    const RowRun run = keys.From(position);
    const int64_t count = end - position < kAmxRows ? end - position : kAmxRows;
    if (count == kAmxRows && run.count >= count && shape_.dim % kTileNumbers == 0) {
      return {run.data, run.stride, scores, count};
    }
    return Gather(keys, position, count, scores, i);
  }

  LONGSTREAM_INLINE KeyTile Gather(const HeadRows& keys, int64_t position, int64_t count,
                                   float* scores, int i) {
    const int64_t width = depth_ * kTileNumbers;
    __builtin_memset(gathered_[i], 0, static_cast<size_t>(kAmxRows * width) * sizeof(BF16));
    ForEachRun(keys, position, position + count, [&](int64_t at, const RowRun& run) {
      for (int64_t k = 0; k < run.count; ++k) {
        __builtin_memcpy(gathered_[i] + (at - position + k) * width, run.data + k * run.stride,
                         static_cast<size_t>(shape_.dim) * sizeof(BF16));
      }
    });
    return {reinterpret_cast<const std::byte*>(gathered_[i]),
            width * static_cast<int64_t>(sizeof(BF16)), count == kAmxRows ? scores : spare_[i],
            count};
  }

  // The scores of one or two tiles of keys with the rows r ... r + 15 or r + 31 of the part.
  template <bool kBothKeys, bool kBothStrips>
  LONGSTREAM_INLINE void ScoreTiles(const Queries& queries, const KeyTile (&keys)[2], int64_t r) {
    AmxSums<kBothKeys, kBothStrips>::Zero(unit_);
    const int64_t strip = depth_ * kTilePairs;
    const BF16Pair* pairs = queries.pairs + (first_row_ + r) / kLanes * strip;
    for (int64_t i = 0; i < depth_; ++i) {
      unit_.LoadOnce<kAmxA>(keys[0].data + i * kRowBytes, keys[0].stride);
      unit_.Load<kAmxB>(pairs + i * kTilePairs, kRowBytes);
      unit_.MultiplyBF16<0, kAmxA, kAmxB>();
      if constexpr (kBothKeys) {
        unit_.LoadOnce<kAmxA + 1>(keys[1].data + i * kRowBytes, keys[1].stride);
        unit_.MultiplyBF16<2, kAmxA + 1, kAmxB>();
      }
      if constexpr (kBothStrips) {
        unit_.Load<kAmxB + 1>(pairs + strip + i * kTilePairs, kRowBytes);
        unit_.MultiplyBF16<1, kAmxA, kAmxB + 1>();
        if constexpr (kBothKeys) unit_.MultiplyBF16<3, kAmxA + 1, kAmxB + 1>();
      }
    }
    const int64_t stride = width_ * static_cast<int64_t>(sizeof(float));
    unit_.Store<0>(keys[0].scores + r, stride);
    if constexpr (kBothStrips) unit_.Store<1>(keys[0].scores + r + kLanes, stride);
    if constexpr (kBothKeys) unit_.Store<2>(keys[1].scores + r, stride);
    if constexpr (kBothKeys && kBothStrips) {
      unit_.Store<3>(keys[1].scores + r + kLanes, stride);
    }
  }

  // Adds the weighted values of the groups first ... last of the block, from number d on, to the
  // part's one or two strips of rows.
  template <bool kBothDims, bool kBothStrips>
  LONGSTREAM_INLINE void WeighTiles(int64_t first, int64_t last, int64_t d, float* sums) {
    using Sums = AmxSums<kBothStrips, kBothDims>;
    Sums::Load(unit_, sums + d, shape_.padded_dim());
    const BF16Pair* weights = Weights(0, first);
    const BF16Pair* values = interleaved_ + d * kMaxPairs + first * kTilePairs;
    for (int64_t group = first; group <= last; ++group) {
      unit_.Load<kAmxA>(weights, kRowBytes);
      unit_.LoadOnce<kAmxB>(values, kRowBytes);
      unit_.MultiplyBF16<0, kAmxA, kAmxB>();
      if constexpr (kBothDims) {
        unit_.LoadOnce<kAmxB + 1>(values + kLanes * kMaxPairs, kRowBytes);
        unit_.MultiplyBF16<1, kAmxA, kAmxB + 1>();
      }
      if constexpr (kBothStrips) {
        unit_.Load<kAmxA + 1>(weights + kGroups * kTilePairs, kRowBytes);
        unit_.MultiplyBF16<2, kAmxA + 1, kAmxB>();
        if constexpr (kBothDims) unit_.MultiplyBF16<3, kAmxA + 1, kAmxB + 1>();
      }
      weights += kTilePairs;
      values += kTilePairs;
    }
    Sums::Store(unit_, sums + d, shape_.padded_dim());
  }

  // Sets interleaved_ to the values of the groups that have the keys [begin, end), with zeros for
  // other keys.
  LONGSTREAM_INLINE void InterleaveRows(const HeadRows& values, int64_t begin, int64_t end) {
    static constexpr BF16 kZeros[kMaxHeadDim] = {};
    const int64_t block = begin / kKeys * kKeys;
    const int64_t first = FirstGroup(begin) - block;
    const int64_t last = FirstGroup(end - 1) + kTileNumbers - block;
    const BF16* rows[kKeys];
    for (int64_t i = first; i < begin - block; ++i) rows[i] = kZeros;
    for (int64_t i = end - block; i < last; ++i) rows[i] = kZeros;
    ForEachRun(values, begin, end, [&](int64_t position, const RowRun& run) {
      for (int64_t i = 0; i < run.count; ++i) {
        rows[position - block + i] = reinterpret_cast<const BF16*>(run.data + i * run.stride);
      }
    });
    for (int64_t i = first / 2; i < last / 2; ++i) {
      const BF16 *even = rows[2 * i], *odd = rows[2 * i + 1];
      BF16Pair* to = interleaved_ + i * kLanes;
      int64_t whole = 0;
#if defined(__AVX512BW__)
      for (; whole + 2 * kLanes <= shape_.dim; whole += 2 * kLanes) {
        InterleaveTwo(even + whole, odd + whole, to + whole * kMaxPairs);
      }
#endif
      ForEachRowVector(
          shape_.dim - whole, [&](int64_t in_rest, const auto& access) LONGSTREAM_INLINE_LAMBDA {
            const int64_t d = whole + in_rest;
            const I32x16 upper = ToBits(access.Read(odd + d));
            const I32x16 lower = ToBits(access.Read(even + d)) >> 16 & Broadcast(0xffff);
            Store(upper | lower, reinterpret_cast<int32_t*>(to + d * kMaxPairs));
          });
    }
  }

#if defined(__AVX512BW__)
  // Makes pairs of 32 numbers of two keys: 16 at `to`, and 16 in the next strip of d.
  LONGSTREAM_INLINE static void InterleaveTwo(const BF16* even, const BF16* odd, BF16Pair* to) {
    const __m512i e = _mm512_loadu_si512(even), o = _mm512_loadu_si512(odd);
    const __m512i low = _mm512_loadu_si512(kPairsOfRows[0]);
    const __m512i high = _mm512_loadu_si512(kPairsOfRows[1]);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(e, low, o));
    _mm512_storeu_si512(to + kLanes * kMaxPairs, _mm512_permutex2var_epi16(e, high, o));
  }
#endif

  // Rounds both numbers of each lane to bf16, and makes them a pair.
  LONGSTREAM_INLINE static I32x16 Pairs(const F32x16& even, const F32x16& odd) {
#if defined(__AVX512BF16__)
    const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd.part[0], even.part[0]));
    const __m512i order = _mm512_loadu_si512(kPairsOfHalves);
    return {{reinterpret_cast<NativeI32>(_mm512_permutexvar_epi16(order, both))}};
#else
    const I32x16 lower = ToBits(RoundToBF16(even)) >> 16 & Broadcast(0xffff);
    return ToBits(RoundToBF16(odd)) | lower;
#endif
  }

  // Copies 16 rows of 16 pairs to the columns of a tile.
  LONGSTREAM_INLINE static void CopyTransposed(const BF16Pair* from, int64_t stride, BF16Pair* to) {
    I32x16 rows[kLanes];
    LONGSTREAM_UNROLL
    for (int64_t i = 0; i < kLanes; ++i) {
      rows[i] = Load(reinterpret_cast<const int32_t*>(from + i * stride));
    }
    Transpose(rows);
    LONGSTREAM_UNROLL
    for (int64_t i = 0; i < kLanes; ++i) {
      Store(rows[i], reinterpret_cast<int32_t*>(to + i * kLanes));
    }
  }

  static constexpr int64_t kMaxPairs = kKeys / 2;
  // The order that makes pairs of 16 first numbers, followed by 16 second ones.
  static constexpr uint16_t kPairsOfHalves[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                  21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                  11, 27, 12, 28, 13, 29, 14, 30, 15, 31};

  // The orders that make pairs of the first 16 and of the last 16 numbers of two rows of 32.
  static constexpr uint16_t kPairsOfRows[2][32] = {
      {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
      {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63}};

  const TileShape shape_;
  const int64_t depth_;           // A tiles in a key
  const HeadRows* next_[2] = {};  // keys and values
  int64_t next_begin_ = 0;
  int64_t next_end_ = 0;
  const std::byte* asked_[2] = {};
  int64_t first_row_ = 0;
  int64_t width_;  // rows of the part
  AmxTiles unit_;
  alignas(64) BF16Pair staged_[kLanes][kMaxHeadDim / 2];       // 16 queries
  alignas(64) BF16 gathered_[2][kAmxRows * kMaxHeadDim];       // keys of two tiles
  alignas(64) float spare_[2][kAmxRows * kTileRows];           // scores of two tiles
  alignas(64) BF16Pair weights_[kMaxPairs * kPartRows];        // [strips, groups, 16 rows, 16]
  alignas(64) BF16Pair interleaved_[kMaxPairs * kMaxHeadDim];  // [d / 16, pairs of keys, 16]
};

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_PREFILL_TILES_H_
