// Linear recurrence of one head within one block.
#include "kernels/cpu/recurrence/recurrence_block.h"

#include "kernels/cpu/gemm/tile_gemm.h"
#include "kernels/cpu/recurrence/recurrence_decays.h"
#include "kernels/cpu/recurrence/recurrence_tiles.h"
#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

LONGSTREAM_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

// ln(1 + e) for 0 <= e <= 1, accurate for small e too, because the rounding error of 1 + e cancels
// (Kahan).
LONGSTREAM_INLINE F32x16 Log1p(const F32x16& e) {
  const F32x16 one = Broadcast(1.0f);
  const F32x16 sum = one + e;
  return Select(sum == one, e, Log(sum) * e / (sum - one));
}

// ln sigmoid(x)
LONGSTREAM_INLINE F32x16 LogSigmoid(const F32x16& x) {
  const F32x16 minus = Zero() - x;
  return Min(x, Zero()) - Log1p(Exp(Min(x, minus)));
}

// ---------------------------------------------------------------- fixed decay

void PrepareFixed(const RecurrenceBlock& block) {
  alignas(64) float decays[kMaxGrid + kLanes];
  FallingDecays(block.log_decay, block.grid, decays);
  for (int64_t first = block.begin; first < block.end;) {
    const int64_t last = Least((first / kSubBlock + 1) * kSubBlock, block.end);
    const float* queries = block.queries + (first - block.begin) * block.query_stride;
    float* scores = block.scores + (first - block.begin) * block.grid;
    for (int64_t j = 0; j < last;) {
      const int64_t part_end = block.keys.EvenUntil(j, last);
      TransposedTileGemm<float> product;
      product.a = queries;
      product.a_stride = block.query_stride;
      product.b = block.keys.row(j);
      product.b_stride = block.keys.stride(j);
      product.c = scores + j;
      product.c_stride = block.grid;
      product.rows = last - first;
      product.cols = part_end - j;
      product.depth = block.key_dim;
      product.add = false;
      MultiplyTransposed(product);
      j = part_end;
    }
    for (int64_t r = first; r < last; ++r) {
      float* row = scores + (r - first) * block.grid;
      const float* falling = decays + block.grid - r;  // falling[j] = decay^(r - j)
      for (int64_t j = 0; j <= r; ++j) row[j] *= block.scale * falling[j];
      for (int64_t j = r + 1; j < last; ++j) row[j] = 0.0f;
      const F32x16 decay = Broadcast(block.scale * decays[block.grid - r - 1]);
      const float* query = queries + (r - first) * block.query_stride;
      float* decayed = block.decayed_queries + (r - block.begin) * block.key_dim;
      ForEachRowVector(block.key_dim, [&](int64_t d, const auto& access) {
        access.Write(access.Read(query + d) * decay, decayed + d);
      });
    }
    first = last;
  }
}

// ---------------------------------------------------------------- data-dependent decay

// Computes with the key elements [first_, first_ + width_) of a block: their decays, and what these
// elements add to the scores.
class GatedChunk {
 public:
  GatedChunk(const RecurrenceBlock& block, int64_t first)
      : block_(block), first_(first), width_(Least(kKeyChunk, block.key_dim - first)) {}

  void Run() {
    const int64_t first_query_block = block_.begin / kSubBlock;
    const int64_t last_query_block = (block_.end - 1) / kSubBlock;
    for (int64_t b = 0; b < last_query_block; ++b) DecayKeys(b);
    for (int64_t b = first_query_block; b <= last_query_block; ++b) {
      DecayQueries(b);
      ScoreEarlierSubBlocks(b);
      ScoreOwnSubBlock(b);
    }
  }

 private:
  const float* log_gates(int64_t r) const { return block_.log_gates.row(r) + first_; }
  const float* key(int64_t r) const { return block_.keys.row(r) + first_; }
  float* scores(int64_t r) const { return block_.scores + (r - block_.begin) * block_.grid; }

  // keys_[j] = k_j * F(j + 1, last row of sub-block b); totals_[b] = ln F over all rows of b.
  void DecayKeys(int64_t b) {
    ForEachRowVector(width_, [&](int64_t d, const auto& access) {
      F32x16 sum = Zero();
      for (int64_t j = (b + 1) * kSubBlock - 1; j >= b * kSubBlock; --j) {
        Store(access.Read(key(j) + d) * Exp(sum), keys_ + j * kKeyChunk + d);
        sum = sum + access.Read(log_gates(j) + d);
      }
      Store(sum, totals_ + b * kKeyChunk + d);
    });
  }

  // queries_[r] = scale * q_r * F(first row of sub-block b, r). Also writes the decayed queries,
  // scale * q_r * F(0, r), of the block.
  void DecayQueries(int64_t b) {
    const int64_t begin = b * kSubBlock;
    const int64_t end = Least(begin + kSubBlock, block_.end);
    ForEachRowVector(width_, [&](int64_t d, const auto& access) {
      F32x16 before = Zero();
      for (int64_t a = 0; a < b; ++a) before = before + Load(totals_ + a * kKeyChunk + d);
      F32x16 sum = Zero();
      for (int64_t r = begin; r < end; ++r) {
        sum = sum + access.Read(log_gates(r) + d);
        if (r < block_.begin) continue;
        const int64_t i = r - block_.begin;
        const float* query = block_.queries + i * block_.query_stride + first_ + d;
        const F32x16 scaled = access.Read(query) * Broadcast(block_.scale);
        const F32x16 decayed = scaled * Exp(sum);
        Store(scaled, scaled_queries_ + (r - begin) * kKeyChunk + d);
        Store(decayed, queries_ + (r - begin) * kKeyChunk + d);
        access.Write(decayed * Exp(before),
                     block_.decayed_queries + i * block_.key_dim + first_ + d);
      }
    });
  }

  // Adds the scores with the keys of sub-blocks b - 1, b - 2, ... 0. From each of these sub-blocks
  // to the next, the queries decay by one more sub-block.
  void ScoreEarlierSubBlocks(int64_t b) {
    const int64_t begin = b * kSubBlock;
    const int64_t first = begin < block_.begin ? block_.begin : begin;
    const int64_t end = Least(begin + kSubBlock, block_.end);
    float* queries = queries_ + (first - begin) * kKeyChunk;
    alignas(64) float between[kKeyChunk];
    for (int64_t i = 0; i < kKeyChunk; ++i) between[i] = 0.0f;
    alignas(64) float decayed[kSubBlock * kKeyChunk];
    for (int64_t a = b - 1; a >= 0; --a) {
      ForEachRowVector(width_, [&](int64_t d, const auto&) {
        const F32x16 sum = Load(between + d);
        const F32x16 decay = Exp(sum);
        for (int64_t r = 0; r < end - first; ++r) {
          Store(Load(queries + r * kKeyChunk + d) * decay, decayed + r * kKeyChunk + d);
        }
        Store(sum + Load(totals_ + a * kKeyChunk + d), between + d);
      });
      TransposedTileGemm<float> product;
      product.a = decayed;
      product.a_stride = kKeyChunk;
      product.b = keys_ + a * kSubBlock * kKeyChunk;
      product.b_stride = kKeyChunk;
      product.c = scores(first) + a * kSubBlock;
      product.c_stride = block_.grid;
      product.rows = end - first;
      product.cols = kSubBlock;
      product.depth = width_;
      MultiplyTransposed(product);
    }
  }

  // Adds the scores with the keys of the query's own sub-block. Goes from the query's row
  // backwards; for each key the query decays by one more row.
  void ScoreOwnSubBlock(int64_t b) {
    const int64_t begin = b * kSubBlock;
    const int64_t end = Least(begin + kSubBlock, block_.end);
    alignas(64) float decays[kSubBlock * kKeyChunk];
    ForEachRowVector(width_, [&](int64_t d, const auto& access) {
      for (int64_t r = begin; r < end; ++r) {
        Store(Exp(access.Read(log_gates(r) + d)), decays + (r - begin) * kKeyChunk + d);
      }
    });
    for (int64_t r = begin < block_.begin ? block_.begin : begin; r < end; ++r) {
      float* query = scaled_queries_ + (r - begin) * kKeyChunk;
      for (int64_t j = r; j >= begin; --j) {
        const float* decay = decays + (j - begin) * kKeyChunk;
        F32x16 sum = Zero();
        ForEachRowVector(width_, [&](int64_t d, const auto& access) {
          const F32x16 q = Load(query + d);
          sum = Fma(q, access.Read(key(j) + d), sum);
          Store(q * Load(decay + d), query + d);
        });
        scores(r)[j] += Sum(sum);
      }
    }
  }

  const RecurrenceBlock& block_;
  const int64_t first_;
  const int64_t width_;

  // Lanes beyond width_ hold zeros, or results computed from zeros.
  alignas(64) float keys_[kMaxGrid * kKeyChunk];                // rows of complete sub-blocks
  alignas(64) float totals_[kMaxGrid / kSubBlock * kKeyChunk];  // sums of complete sub-blocks
  alignas(64) float queries_[kSubBlock * kKeyChunk];
  alignas(64) float scaled_queries_[kSubBlock * kKeyChunk];
};

void PrepareGated(const RecurrenceBlock& block) {
  const int64_t num_rows = block.end - block.begin;
  for (int64_t i = 0; i < num_rows; ++i) {
    const float* gates = block.gates + i * block.gate_stride;
    float* log_gates = block.step_log_gates + i * block.log_gate_stride;
    ForEachRowVector(block.key_dim, [&](int64_t d, const auto& access) {
      access.Write(LogSigmoid(access.Read(gates + d)), log_gates + d);
    });
    for (int64_t j = 0; j < block.end; ++j) block.scores[i * block.grid + j] = 0.0f;
  }
  for (int64_t first = 0; first < block.key_dim; first += kKeyChunk) {
    GatedChunk(block, first).Run();
  }
}

// ---------------------------------------------------------------- state

// Adds rows [begin, end) of a sub-block to the state's rows [first, first + width).
void FoldRows(const RecurrenceBlock& block, const RecurrenceSlice& slice, int64_t begin,
              int64_t end, int64_t first, int64_t width) {
  alignas(64) float keys[kSubBlock * kKeyChunk];
  alignas(64) float decays[kKeyChunk];
  if (block.gated) {
    DecayGatedKeys(block, begin, end, first, width, keys, decays);
  } else {
    DecayFixedKeys(block, begin, end, first, width, keys, decays);
  }
  float* state = slice.state + first * slice.state_stride + slice.column;
  for (int64_t d = 0; d < width; ++d) {
    float* row = state + d * slice.state_stride;
    const F32x16 decay = Broadcast(decays[d]);
    ForEachRowVector(slice.count, [&](int64_t c, const auto& access) {
      access.Write(access.Read(row + c) * decay, row + c);
    });
  }
  for (int64_t j = begin; j < end;) {
    const int64_t part_end = block.values.EvenUntil(j, end);
    TileGemm<float> product;
    product.a = keys + (j - begin) * kKeyChunk;
    product.a_row = 1;
    product.a_k = kKeyChunk;
    product.b = block.values.row(j) + slice.column;
    product.b_stride = block.values.stride(j);
    product.c = state;
    product.c_stride = slice.state_stride;
    product.rows = width;
    product.cols = slice.count;
    product.depth = part_end - j;
    Multiply(product);
    j = part_end;
  }
}

void Fold(const RecurrenceBlock& block, const RecurrenceSlice& slice) {
  for (int64_t first = 0; first < block.key_dim; first += kKeyChunk) {
    const int64_t width = Least(kKeyChunk, block.key_dim - first);
    for (int64_t row = 0; row < block.grid; row += kSubBlock) {
      FoldRows(block, slice, row, Least(row + kSubBlock, block.grid), first, width);
    }
  }
}

// out += score v for the rows [first, last) of one sub-block.
void AddWeightedValues(const RecurrenceBlock& block, const RecurrenceSlice& slice, int64_t first,
                       int64_t last) {
  for (int64_t j = 0; j < last;) {
    const int64_t part_end = block.values.EvenUntil(j, last);
    TileGemm<float> product;
    product.a = block.scores + (first - block.begin) * block.grid + j;
    product.a_row = block.grid;
    product.a_k = 1;
    product.b = block.values.row(j) + slice.column;
    product.b_stride = block.values.stride(j);
    product.c = slice.out + (first - block.begin) * slice.out_stride + slice.column;
    product.c_stride = slice.out_stride;
    product.rows = last - first;
    product.cols = slice.count;
    product.depth = part_end - j;
    Multiply(product);
    j = part_end;
  }
}

}  // namespace

void PrepareBlock(const RecurrenceBlock& block) {
  if (block.gated) return PrepareGated(block);
  if constexpr (kHasTiles) {
    if (!block.is_decode) return PrepareFixedOnTiles(block);
  }
  PrepareFixed(block);
}

void ApplyBlock(const RecurrenceBlock& original, const RecurrenceSlice& slice) {
  if constexpr (kHasTiles) {
    if (!original.is_decode) return ApplyBlockOnTiles(original, slice);
  }
  RecurrenceBlock block = original;
  const int64_t num_rows = block.end - block.begin;
  alignas(64) float values[kMaxGrid * kMaxSliceColumns];
  if (num_rows > kSubBlock) {
    for (int64_t r = 0; r < block.end; ++r) {
      const float* from = original.values.row(r) + slice.column;
      ForEachRowVector(slice.count, [&](int64_t c, const auto& access) {
        access.Write(access.Read(from + c), values + r * slice.count + c);
      });
    }
    block.values.cached = values - slice.column;
    block.values.cached_stride = slice.count;
    block.values.begin = block.end;
  }
  float* out = slice.out + slice.column;
  TileGemm<float> product;
  product.a = block.decayed_queries;
  product.a_row = block.key_dim;
  product.a_k = 1;
  product.b = slice.state + slice.column;
  product.b_stride = slice.state_stride;
  product.c = out;
  product.c_stride = slice.out_stride;
  product.rows = num_rows;
  product.cols = slice.count;
  product.depth = block.key_dim;
  product.add = false;
  Multiply(product);
  for (int64_t first = block.begin; first < block.end;) {
    const int64_t last = Least((first / kSubBlock + 1) * kSubBlock, block.end);
    AddWeightedValues(block, slice, first, last);
    first = last;
  }
  if (!block.complete()) return;
  if constexpr (kHasTiles) return FoldOnTiles(block, slice);
  Fold(block, slice);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
