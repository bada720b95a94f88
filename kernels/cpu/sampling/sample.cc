// Sampling (kernels/ops/sampling/sample.h).
//
// Without top-k, top-p and min-p, a row is read once. With one of them, the row's logits are copied
// and truncated by selection (sample_select.h). Then the noise is computed only for the tokens that
// are left. Penalties, bias and a mask of allowed tokens need one copy more. The mask is applied in
// that copy, before penalties and bias, which then skip the other tokens.
#include "kernels/ops/sampling/sample.h"

#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/sampling/gumbel.h"
#include "kernels/cpu/sampling/sample_select.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// The floor of all tokens that can be drawn. Most blocks of a masked row are below it.
constexpr float kLowest = std::numeric_limits<float>::lowest();

// Sixteen elements from i on. Beyond `count`, z is -inf and the id is unspecified.
struct Block {
  F32x16 z;
  I32x16 ids;
};
LONGSTREAM_INLINE Block LoadBlock(const float* z, const int32_t* ids, int64_t i, int64_t count) {
  const I32x16 indices = Iota(static_cast<int32_t>(i));
  if (i + kLanes <= count) return {Load(z + i), ids != nullptr ? Load(ids + i) : indices};
  const int64_t left = count - i;
  int32_t last_ids[kLanes] = {};
  for (int64_t lane = 0; lane < left; ++lane) {
    last_ids[lane] = ids != nullptr ? ids[i + lane] : static_cast<int32_t>(i + lane);
  }
  const I32x16 in_range = indices < Broadcast(static_cast<int32_t>(count));
  return {Select(in_range, LoadPartial(z + i, left), Broadcast(-kInfinity)), Load(last_ids)};
}

// The running argmax of each lane. Ids rise within a lane, so the first of equal scores has the
// lowest id.
struct Best {
  F32x16 score = Broadcast(-kInfinity);
  I32x16 ids = Broadcast(-1);
  I32x16 nan = Broadcast(0);

  LONGSTREAM_INLINE void Add(const F32x16& new_score, const I32x16& new_ids) {
    const I32x16 better = new_score > score;
    score = Select(better, new_score, score);
    ids = Select(better, new_ids, ids);
    nan = nan | (new_score != new_score);
  }

  // Whether the largest score is infinite. A NaN does not count.
  LONGSTREAM_INLINE bool IsInfinite() const {
    const float largest = MaxLane(score);
    return largest == kInfinity || largest == -kInfinity;
  }

  // The id with the largest score; of equal scores, the lowest id. It is -1 if a score was NaN or
  // all were -inf.
  LONGSTREAM_INLINE int32_t Token() const {
    if (Bits(nan) != 0) return -1;
    float scores[kLanes];
    int32_t tokens[kLanes];
    Store(score, scores);
    Store(ids, tokens);
    int best = 0;
    for (int lane = 1; lane < kLanes; ++lane) {
      const bool equal = scores[lane] == scores[best];
      const bool lower = static_cast<uint32_t>(tokens[lane]) < static_cast<uint32_t>(tokens[best]);
      if (scores[lane] > scores[best] || (equal && lower)) best = lane;
    }
    return tokens[best];
  }
};

int32_t Argmax(const float* z, int64_t count) {
  Best best;
  for (int64_t i = 0; i < count; i += kLanes) {
    const Block block = LoadBlock(z, nullptr, i, count);
    best.Add(block.z, block.ids);
  }
  return best.Token();
}

// The argmax of z / temperature + Gumbel noise over the tokens with z >= `floor`.
Best GumbelArgmax(const SamplingRow& row, const float* z, const int32_t* ids, int64_t count,
                  float temperature, float floor) {
  Best best;
  for (int64_t i = 0; i < count; i += kLanes) {
    const Block block = LoadBlock(z, ids, i, count);
    const I32x16 below = block.z < Broadcast(floor);
    if (Bits(below) == 0xffffu) continue;
    const F32x16 noise = Gumbel(row.seed, row.position, block.ids);
    const F32x16 score = block.z / Broadcast(temperature) + noise;
    best.Add(Select(below, Broadcast(-kInfinity), score), block.ids);
  }
  return best;
}

// Copies logits, with -inf for tokens that are not allowed. Returns false if a logit is NaN, even
// if its token is not allowed.
bool CopyAllowed(const float* from, const uint32_t* allowed, int64_t count, float* to) {
  I32x16 nan = Broadcast(0);
  for (int64_t i = 0; i < count; i += kLanes) {
    F32x16 z = LoadBlock(from, nullptr, i, count).z;
    nan = nan | (z != z);
    if (allowed != nullptr) {
      z = Select(LanesOf(allowed[i / 32] >> (i % 32)), z, Broadcast(-kInfinity));
    }
    if (i + kLanes <= count) {
      Store(z, to + i);
    } else {
      StorePartial(z, to + i, count - i);
    }
  }
  return Bits(nan) == 0;
}

// to[i] = from[i] / temperature, with 0 in place of -0. `to` may be `from`. Returns the argmax of
// `from`; -1 if it holds a NaN or only -inf.
int32_t Scale(const float* from, int64_t count, float temperature, float* to) {
  Best best;
  for (int64_t i = 0; i < count; i += kLanes) {
    const Block block = LoadBlock(from, nullptr, i, count);
    best.Add(block.z, block.ids);
    const F32x16 z = block.z / Broadcast(temperature) + Zero();
    if (i + kLanes <= count) {
      Store(z, to + i);
    } else {
      StorePartial(z, to + i, count - i);
    }
  }
  return best.Token();
}

bool HasPenalty(const SamplingRow& row) {
  return row.num_history > 0 && (row.repetition_penalty != 1.0f || row.presence_penalty != 0.0f ||
                                 row.frequency_penalty != 0.0f);
}

// Leaves the logits of tokens that are not allowed unchanged.
void AddPenaltiesAndBias(const SamplingRow& row, float* z) {
  if (HasPenalty(row)) {
    for (int32_t i = 0; i < row.num_history; ++i) {
      const TokenCount& seen = row.history[i];
      if (!IsAllowed(row.allowed, seen.token)) continue;
      float& logit = z[seen.token];
      if (seen.total > 0) {
        logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
      }
      if (seen.generated > 0) {
        logit -= row.presence_penalty + row.frequency_penalty * static_cast<float>(seen.generated);
      }
    }
  }
  for (int32_t i = 0; i < row.num_bias; ++i) {
    const LogitBias& bias = row.bias[i];
    if (!IsAllowed(row.allowed, bias.token)) continue;
    z[bias.token] = bias.bias == -kInfinity ? -kInfinity : z[bias.token] + bias.bias;
  }
}

// Draws one row. z and ids are scratch for `vocabulary` elements each.
int32_t SampleRow(const SamplingRow& row, const float* logits, int64_t vocabulary, float* z,
                  int32_t* ids) {
  if (HasPenalty(row) || row.num_bias > 0 || row.allowed != nullptr) {
    if (!CopyAllowed(logits, row.allowed, vocabulary, z)) return -1;
    AddPenaltiesAndBias(row, z);
    logits = z;
  }
  if (row.temperature == 0.0f) return Argmax(logits, vocabulary);
  const bool top_k = row.top_k > 0 && row.top_k < vocabulary;
  const bool top_p = row.top_p < 1.0f;
  if (!top_k && !top_p && row.min_p <= 0.0f) {
    const Best best = GumbelArgmax(row, logits, nullptr, vocabulary, row.temperature, kLowest);
    return best.IsInfinite() ? Argmax(logits, vocabulary) : best.Token();
  }
  const int32_t first = Scale(logits, vocabulary, row.temperature, z);
  if (first < 0) return -1;  // a NaN, or only banned tokens
  const float largest = z[first];
  if (largest == kInfinity || largest == -kInfinity) return first;  // the division overflowed
  Candidates candidates{z, ids, vocabulary, true};
  if (top_k) KeepTopK(candidates, row.top_k);
  if (top_p) KeepTopP(candidates, row.top_p, largest);
  const float floor =
      row.min_p > 0.0f ? largest + static_cast<float>(__builtin_log(row.min_p)) : kLowest;
  return GumbelArgmax(row, z, candidates.all ? nullptr : ids, candidates.count, 1.0f, floor)
      .Token();
}

}  // namespace

void Sample(Stream& stream, const SampleArgs& args) {
  if (!stream.ok()) return;
  const int64_t vocabulary = args.logits.cols;
  const size_t row_bytes = SampleRowBytes(vocabulary);
  if (stream.workspace_bytes < SampleWorkspace(args.num_rows, vocabulary)) {
    return stream.Fail(OpStatus::kUnsupported);
  }
  ParallelFor(stream.executor, static_cast<uint32_t>(args.num_rows), [&](uint32_t i) {
    const SamplingRow& row = args.rows[i];
    float* z = reinterpret_cast<float*>(stream.workspace + i * row_bytes);
    int32_t* ids = reinterpret_cast<int32_t*>(z + vocabulary);
    args.sampled[i] = SampleRow(row, args.logits.f32_row(row.row), vocabulary, z, ids);
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
