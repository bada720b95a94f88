// A recurrence's block on tiles.
#include "kernels/cpu/recurrence/recurrence_tiles.h"

#include <type_traits>

#include "kernels/cpu/recurrence/recurrence_decays.h"
#include "kernels/cpu/recurrence/split_tiles.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {

#if defined(LONGSTREAM_TILES)

namespace {

// A group of rows is two tiles. A pair of columns is two tiles, too.
constexpr int64_t kGroupRows = 2 * kSplitLines;
constexpr int64_t kPairColumns = 2 * kSplitLines;
constexpr int64_t kBlockTiles = kMaxGrid / kSplitLines;
constexpr int64_t kSlicePairs = kMaxSliceColumns / kPairColumns;
constexpr int64_t kKeyTiles = kKeyChunk / kSplitLines;
static_assert(kMaxGrid == kSplitDepth && kKeyChunk == kSplitDepth);

LONGSTREAM_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

// Loads 16 numbers, of which only the first `count` count. The others are zeros.
LONGSTREAM_INLINE F32x16 LoadFirst(const float* from, int64_t count) {
  if (count >= kLanes) return Load(from);
  return count > 0 ? LoadPartial(from, count) : Zero();
}

// The chunks that cover `depth` steps of k.
LONGSTREAM_INLINE int64_t NumChunks(int64_t depth) {
  return (depth + kSplitChunk - 1) / kSplitChunk;
}

// Writes rows [begin, end) of an operand A, row r into line r % 16 of tile r / 16. The other lines
// of their tiles become zeros. read(r, k) returns the numbers k ... k + 15 of row r.
template <typename Read>
LONGSTREAM_INLINE void SplitRows(int64_t begin, int64_t end, int64_t depth, const Read& read,
                                 SplitTile* tiles) {
  const int64_t first = begin / kSplitLines * kSplitLines;
  const int64_t last = (end + kSplitLines - 1) / kSplitLines * kSplitLines;
  for (int64_t r = first; r < last; ++r) {
    SplitTile& tile = tiles[r / kSplitLines];
    const bool is_row = r >= begin && r < end;
    for (int64_t c = 0; c < NumChunks(depth); ++c) {
      const int64_t k = c * kSplitChunk;
      tile.chunks[c].Set(r % kSplitLines, is_row ? read(r, k) : Zero(),
                         is_row ? read(r, k + kLanes) : Zero());
    }
  }
}

// Writes a pair of columns of an operand B. row(k) returns its row k. Rows from `depth` on, and
// columns from `count` on, are zeros.
template <typename Row>
LONGSTREAM_INLINE void SplitColumns(int64_t depth, int64_t count, const Row& row, SplitTile* pair) {
  const auto split = [&](const auto& read) LONGSTREAM_INLINE_LAMBDA {
    for (int64_t c = 0; c < NumChunks(depth); ++c) {
      for (int64_t i = 0; i < kLanes; ++i) {
        const int64_t k = c * kSplitChunk + i;
        LONGSTREAM_UNROLL
        for (int tile = 0; tile < 2; ++tile) {
          pair[tile].chunks[c].Set(i, read(k, tile * kLanes), read(k + kLanes, tile * kLanes));
        }
      }
    }
  };
  if (depth % kSplitChunk == 0 && count >= kPairColumns) {
    split([&](int64_t k, int64_t c) LONGSTREAM_INLINE_LAMBDA { return Load(row(k) + c); });
  } else {
    split([&](int64_t k, int64_t c) LONGSTREAM_INLINE_LAMBDA {
      return k < depth ? LoadFirst(row(k) + c, count - c) : Zero();
    });
  }
}

// Calls body(tile, both) for the groups of two tiles that contain rows [begin, end). `tile` is the
// first tile of the group with such rows, and `both` says whether the next one has such rows too.
template <typename Body>
LONGSTREAM_INLINE void ForEachGroup(int64_t begin, int64_t end, const Body& body) {
  for (int64_t row = begin / kGroupRows * kGroupRows; row < end; row += kGroupRows) {
    const bool has_first = begin < row + kSplitLines;
    const bool has_second = row + kSplitLines < end;
    const int64_t tile = row / kSplitLines + (has_first ? 0 : 1);
    if (has_first && has_second) {
      body(tile, std::true_type{});
    } else {
      body(tile, std::false_type{});
    }
  }
}

// The rows up to the end of the group of `tile`, in chunks. So many keys may a row of the group
// have. The number depends on no other row of the step.
LONGSTREAM_INLINE int64_t CausalChunks(int64_t tile) {
  return NumChunks((tile / 2 + 1) * kGroupRows);
}

class FixedScores {
 public:
  explicit FixedScores(const RecurrenceBlock& block) : block_(block) { unit_.SetShape({}); }

  void Run() {
    for (int64_t first = 0; first < block_.key_dim; first += kKeyChunk) {
      AddKeys(first, Least(kKeyChunk, block_.key_dim - first));
    }
    Decay();
  }

 private:
  // Adds the products of the key elements [first, first + width).
  void AddKeys(int64_t first, int64_t width) {
    SplitRows(
        block_.begin, block_.end, width,
        [&](int64_t r, int64_t k)
            LONGSTREAM_INLINE_LAMBDA { return LoadFirst(query(r) + first + k, width - k); },
        queries_);
    for (int64_t tile = 0; tile < 2 * NumChunks(block_.end); ++tile) SplitKeys(tile, first, width);
    ForEachGroup(block_.begin, block_.end, [&](int64_t tile, auto both) LONGSTREAM_INLINE_LAMBDA {
      using Sums = SplitSums<decltype(both)::value>;
      for (int64_t pair = 0; pair < CausalChunks(tile); ++pair) {
        float* sums = scores_ + tile * kSplitLines * kMaxGrid + pair * kPairColumns;
        if (first == 0) {
          Sums::Zero(unit_);
        } else {
          Sums::Load(unit_, sums, kMaxGrid);
        }
        Sums::Add(unit_, queries_ + tile, keys_ + 2 * pair, NumChunks(width));
        Sums::Store(unit_, sums, kMaxGrid);
      }
    });
  }

  // Writes 16 keys as columns of B.
  void SplitKeys(int64_t tile, int64_t first, int64_t width) {
    alignas(64) float keys[kSplitLines * kKeyChunk];
    for (int64_t i = 0; i < kSplitLines; ++i) {
      const int64_t j = tile * kSplitLines + i;
      for (int64_t d = 0; d < NumChunks(width) * kSplitChunk; d += kLanes) {
        Store(j < block_.end ? LoadFirst(block_.keys.row(j) + first + d, width - d) : Zero(),
              keys + i * kKeyChunk + d);
      }
    }
    for (int64_t c = 0; c < NumChunks(width); ++c) {
      const float* chunk = keys + c * kSplitChunk;
      keys_[tile].chunks[c].SetTransposed(chunk, chunk + kLanes, kKeyChunk);
    }
  }

  // Multiplies scores and queries by their decays.
  void Decay() {
    alignas(64) float decays[kMaxGrid + kLanes];
    FallingDecays(block_.log_decay, block_.grid, decays);
    const F32x16 scale = Broadcast(block_.scale);
    for (int64_t r = block_.begin; r < block_.end; ++r) {
      const float* falling = decays + block_.grid - r;  // falling[j] = decay^(r - j)
      float* scores = block_.scores + (r - block_.begin) * block_.grid;
      ForEachRowVector(r + 1, [&](int64_t j, const auto& access) LONGSTREAM_INLINE_LAMBDA {
        access.Write(Load(scores_ + r * kMaxGrid + j) * (scale * access.Read(falling + j)),
                     scores + j);
      });
      const F32x16 decay = Broadcast(block_.scale * decays[block_.grid - r - 1]);
      float* decayed = block_.decayed_queries + (r - block_.begin) * block_.key_dim;
      ForEachRowVector(block_.key_dim, [&](int64_t d, const auto& access) LONGSTREAM_INLINE_LAMBDA {
        access.Write(access.Read(query(r) + d) * decay, decayed + d);
      });
    }
  }

  const float* query(int64_t r) const {
    return block_.queries + (r - block_.begin) * block_.query_stride;
  }

  const RecurrenceBlock& block_;
  AmxTiles unit_;
  SplitTile queries_[kBlockTiles];
  SplitTile keys_[kBlockTiles];
  alignas(64) float scores_[kMaxGrid * kMaxGrid];
};

// Computes the outputs of a block, and updates the state.
class BlockOnTiles {
 public:
  BlockOnTiles(const RecurrenceBlock& block, const RecurrenceSlice& slice)
      : block_(block), slice_(slice), num_pairs_((slice.count + kPairColumns - 1) / kPairColumns) {
    unit_.SetShape({});
  }

  void Run(bool outputs) {
    SplitValues();
    if (outputs) SplitScores();
    for (int64_t first = 0; first < block_.key_dim; first += kKeyChunk) {
      const int64_t width = Least(kKeyChunk, block_.key_dim - first);
      if (outputs) SplitQueries(first, width);
      if (block_.complete()) SplitKeys(first, width);
      for (int64_t pair = 0; pair < num_pairs_; ++pair) {
        if (outputs) AddOutputs(first, width, pair);
        if (block_.complete()) Fold(first, width, pair);
      }
    }
    if (outputs) WriteOutputs();
  }

 private:
  // The number of columns from the pair's first one on.
  int64_t columns(int64_t pair) const { return slice_.count - pair * kPairColumns; }

  float* out(int64_t r) const {
    return slice_.out + (r - block_.begin) * slice_.out_stride + slice_.column;
  }
  float* state(int64_t d, int64_t pair) const {
    return slice_.state + d * slice_.state_stride + slice_.column + pair * kPairColumns;
  }

  void SplitValues() {
    for (int64_t pair = 0; pair < num_pairs_; ++pair) {
      SplitColumns(
          block_.end, columns(pair),
          [&](int64_t j) LONGSTREAM_INLINE_LAMBDA {
            return block_.values.row(j) + slice_.column + pair * kPairColumns;
          },
          values_ + 2 * pair);
    }
  }

  void SplitScores() {
    SplitRows(
        block_.begin, block_.end, kMaxGrid,
        [&](int64_t r, int64_t j) LONGSTREAM_INLINE_LAMBDA {
          return LoadFirst(block_.scores + (r - block_.begin) * block_.grid + j, r + 1 - j);
        },
        scores_);
  }

  void SplitQueries(int64_t first, int64_t width) {
    SplitRows(
        block_.begin, block_.end, width,
        [&](int64_t r, int64_t k) LONGSTREAM_INLINE_LAMBDA {
          const float* row = block_.decayed_queries + (r - block_.begin) * block_.key_dim;
          return LoadFirst(row + first + k, width - k);
        },
        queries_);
  }

  // Writes the keys of the whole block, decayed to its end, as rows of A: a row for each key
  // element, and a step of k for each key.
  void SplitKeys(int64_t first, int64_t width) {
    alignas(64) float keys[kMaxGrid * kKeyChunk];
    const int64_t num_chunks = NumChunks(block_.grid);
    if (width < kKeyChunk || block_.grid < num_chunks * kSplitChunk) {
      for (int64_t i = 0; i < kMaxGrid * kKeyChunk; i += kLanes) Store(Zero(), keys + i);
    }
    if (block_.gated) {
      DecayGatedKeys(block_, 0, block_.grid, first, width, keys, decays_);
    } else {
      DecayFixedKeys(block_, 0, block_.grid, first, width, keys, decays_);
    }
    for (int64_t tile = 0; tile * kSplitLines < width; ++tile) {
      for (int64_t c = 0; c < num_chunks; ++c) {
        const float* chunk = keys + c * kSplitChunk * kKeyChunk + tile * kSplitLines;
        keys_[tile].chunks[c].SetTransposed(chunk, chunk + kLanes * kKeyChunk, kKeyChunk);
      }
    }
  }

  // Adds the products of the queries' elements [first, first + width) with the state, and at last
  // those of the scores with the values.
  void AddOutputs(int64_t first, int64_t width, int64_t pair) {
    SplitTile states[2];
    SplitColumns(
        width, columns(pair),
        [&](int64_t d) LONGSTREAM_INLINE_LAMBDA { return state(first + d, pair); }, states);
    const bool is_last = first + width == block_.key_dim;
    ForEachGroup(block_.begin, block_.end, [&](int64_t tile, auto both) LONGSTREAM_INLINE_LAMBDA {
      using Sums = SplitSums<decltype(both)::value>;
      float* sums = out_ + pair * kMaxGrid * kPairColumns + tile * kSplitLines * kPairColumns;
      if (first == 0) {
        Sums::Zero(unit_);
      } else {
        Sums::Load(unit_, sums, kPairColumns);
      }
      Sums::Add(unit_, queries_ + tile, states, NumChunks(width));
      if (is_last) {
        Sums::Add(unit_, scores_ + tile, values_ + 2 * pair, CausalChunks(tile));
      }
      Sums::Store(unit_, sums, kPairColumns);
    });
  }

  // Updates rows [first, first + width) of the state.
  void Fold(int64_t first, int64_t width, int64_t pair) {
    alignas(64) float added[kKeyChunk * kPairColumns];
    ForEachGroup(0, width, [&](int64_t tile, auto both) LONGSTREAM_INLINE_LAMBDA {
      using Sums = SplitSums<decltype(both)::value>;
      Sums::Zero(unit_);
      Sums::Add(unit_, keys_ + tile, values_ + 2 * pair, NumChunks(block_.grid));
      Sums::Store(unit_, added + tile * kSplitLines * kPairColumns, kPairColumns);
    });
    for (int64_t d = 0; d < width; ++d) {
      const F32x16 decay = Broadcast(decays_[d]);
      float* row = state(first + d, pair);
      ForEachRowVector(Least(columns(pair), kPairColumns),
                       [&](int64_t c, const auto& access) LONGSTREAM_INLINE_LAMBDA {
                         access.Write(
                             Fma(access.Read(row + c), decay, Load(added + d * kPairColumns + c)),
                             row + c);
                       });
    }
  }

  void WriteOutputs() {
    for (int64_t r = block_.begin; r < block_.end; ++r) {
      for (int64_t pair = 0; pair < num_pairs_; ++pair) {
        const float* sums = out_ + (pair * kMaxGrid + r) * kPairColumns;
        ForEachRowVector(Least(columns(pair), kPairColumns),
                         [&](int64_t c, const auto& access) LONGSTREAM_INLINE_LAMBDA {
                           access.Write(Load(sums + c), out(r) + pair * kPairColumns + c);
                         });
      }
    }
  }

  const RecurrenceBlock& block_;
  const RecurrenceSlice& slice_;
  const int64_t num_pairs_;
  AmxTiles unit_;
  SplitTile values_[2 * kSlicePairs];
  SplitTile scores_[kBlockTiles];
  SplitTile queries_[kBlockTiles];
  SplitTile keys_[kKeyTiles];
  alignas(64) float decays_[kKeyChunk];
  alignas(64) float out_[kSlicePairs * kMaxGrid * kPairColumns];
};

}  // namespace

void PrepareFixedOnTiles(const RecurrenceBlock& block) { FixedScores(block).Run(); }

void ApplyBlockOnTiles(const RecurrenceBlock& block, const RecurrenceSlice& slice) {
  BlockOnTiles(block, slice).Run(/*outputs=*/true);
}

void FoldOnTiles(const RecurrenceBlock& block, const RecurrenceSlice& slice) {
  BlockOnTiles(block, slice).Run(/*outputs=*/false);
}

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA
