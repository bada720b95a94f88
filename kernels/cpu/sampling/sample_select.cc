// Selection of the largest logits by count (top-k) or by probability (top-p).
//
// Every token has a weight: 1 for top-k, its probability for top-p. Both look for the shortest
// prefix, in falling order of logits, whose weights reach a target. FindCut finds it by three
// passes of a radix histogram, in time linear in the number of candidates. Before that, a vector
// pass drops candidates that cannot be in the prefix, so FindCut usually sees only a few hundred.
#include "kernels/cpu/sampling/sample_select.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// An unsigned number; such numbers sort as the floats do.
LONGSTREAM_INLINE uint32_t KeyOf(float z) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, z);
  return bits ^ (bits >> 31 != 0 ? 0xffffffffu : 0x80000000u);
}
LONGSTREAM_INLINE float FromKey(uint32_t key) {
  return __builtin_bit_cast(float, key ^ (key >> 31 != 0 ? 0x80000000u : 0xffffffffu));
}

struct CountWeight {
  LONGSTREAM_INLINE F32x16 operator()(const F32x16&) const { return Broadcast(1.0f); }
};

// The lanes of tokens that can be drawn: their logits are above -inf.
LONGSTREAM_INLINE I32x16 CanBeDrawn(const F32x16& z) {
  return z >= Broadcast(std::numeric_limits<float>::lowest());
}

// The probability of a token divided by the probability of the largest logit's token.
struct ProbabilityWeight {
  float largest;
  LONGSTREAM_INLINE F32x16 operator()(const F32x16& z) const {
    const F32x16 top = Broadcast(largest);
    // Exp is several times slower if a result underflows, so it gets 0 in place of -inf. Masked
    // rows have many such lanes.
    const I32x16 drawable = CanBeDrawn(z);
    const F32x16 weight = Select(drawable, Exp(Select(drawable, z - top, Zero())), Zero());
    return Select(z == top, Broadcast(1.0f), weight);  // inf - inf would be NaN
  }
};

// Loads sixteen logits from z + i on. Lanes from index `count` on are -inf.
LONGSTREAM_INLINE F32x16 LoadLogits(const float* z, int64_t i, int64_t count) {
  if (i + kLanes <= count) return Load(z + i);
  const F32x16 banned = Broadcast(-std::numeric_limits<float>::infinity());
  return Select(Iota(0) < Broadcast(static_cast<int32_t>(count - i)), LoadPartial(z + i, count - i),
                banned);
}

// A prefix in falling order: all keys above `key`, and the first `ties` keys equal to it.
struct Cut {
  uint32_t key = 0;
  int64_t ties = 0;
};

// Sums the weights of keys into num_bins bins. The bits of a key from bit `shift` on choose its
// bin. Only keys that equal `prefix` under `mask` count.
constexpr int kBins = 2048;
template <typename Weight>
void Histogram(const float* z, int64_t count, const Weight& weight, uint32_t prefix, uint32_t mask,
               int shift, uint32_t num_bins, double* bins) {
  for (uint32_t b = 0; b < num_bins; ++b) bins[b] = 0.0;
  for (int64_t i = 0; i < count; i += kLanes) {
    float weights[kLanes];
    Store(weight(LoadLogits(z, i, count)), weights);
    const int64_t last = count - i < kLanes ? count - i : kLanes;
    for (int64_t lane = 0; lane < last; ++lane) {
      const uint32_t key = KeyOf(z[i + lane]);
      if ((key & mask) == prefix) bins[(key >> shift) & (num_bins - 1)] += weights[lane];
    }
  }
}

// The shortest prefix whose weights sum to at least `target`. If rounding keeps the sum of all
// weights below `target`, it is the whole order.
template <typename Weight>
Cut FindCut(const float* z, int64_t count, const Weight& weight, double target) {
  constexpr int kShifts[] = {21, 10, 0};
  double bins[kBins];
  double above = 0.0;   // weight of the keys above the chosen bin
  double inside = 0.0;  // weight of the chosen bin
  uint32_t prefix = 0;
  uint32_t mask = 0;
  for (const int shift : kShifts) {
    const int num_bins = shift == 0 ? 1024 : kBins;
    Histogram(z, count, weight, prefix, mask, shift, static_cast<uint32_t>(num_bins), bins);
    int chosen = -1;
    double before_chosen = above;
    for (int b = num_bins - 1; b >= 0 && (chosen < 0 || above < target); --b) {
      if (bins[b] == 0.0) continue;
      chosen = b;
      before_chosen = above;
      above += bins[b];
    }
    above = before_chosen;
    inside = bins[chosen];
    prefix |= static_cast<uint32_t>(chosen) << shift;
    mask |= static_cast<uint32_t>(num_bins - 1) << shift;
  }
  float one[kLanes];
  Store(weight(Broadcast(FromKey(prefix))), one);
  const double ties = __builtin_ceil((target - above) / one[0]);
  const double most = __builtin_ceil(inside / one[0]);
  return {prefix, static_cast<int64_t>(ties < 1.0 ? 1.0 : ties < most ? ties : most)};
}

void Apply(Candidates& candidates, const Cut& cut) {
  int64_t kept = 0;
  int64_t ties = cut.ties;
  for (int64_t i = 0; i < candidates.count; ++i) {
    const uint32_t key = KeyOf(candidates.z[i]);
    if (key < cut.key || (key == cut.key && ties-- <= 0)) continue;
    candidates.ids[kept] = candidates.id(i);
    candidates.z[kept] = candidates.z[i];
    ++kept;
  }
  candidates.count = kept;
  candidates.all = false;
}

// Of the 16 candidates from i on, appends those whose bit in `selected` is 1 to the first `kept`
// candidates. Returns the new number of kept ones. REQUIRES: kept <= i.
LONGSTREAM_INLINE int64_t Append(Candidates& candidates, int64_t i, uint32_t selected,
                                 int64_t kept) {
  for (; selected != 0; selected &= selected - 1) {
    const int64_t from = i + __builtin_ctz(selected);
    candidates.ids[kept] = candidates.id(from);
    candidates.z[kept] = candidates.z[from];
    ++kept;
  }
  return kept;
}

}  // namespace

void KeepTopK(Candidates& candidates, int64_t k) {
  if (k >= candidates.count) return;
  // Collects the candidates that exceed a bound. Whenever `limit` of them have been collected, only
  // the k largest stay, and the smallest of these is the new bound. A later candidate that equals
  // it has a higher id, so it is not needed.
  const int64_t limit = 2 * k + 1024;
  float smallest = -std::numeric_limits<float>::infinity();
  Candidates kept{candidates.z, candidates.ids, 0, false};
  for (int64_t i = 0; i < candidates.count; i += kLanes) {
    const F32x16 z = LoadLogits(candidates.z, i, candidates.count);
    const uint32_t selected = Bits(z > Broadcast(smallest));
    if (selected == 0) continue;
    kept.count = Append(candidates, i, selected, kept.count);
    if (kept.count >= limit) {
      const Cut cut = FindCut(kept.z, kept.count, CountWeight{}, static_cast<double>(k));
      Apply(kept, cut);
      smallest = FromKey(cut.key);
    }
  }
  if (kept.count > k) {
    Apply(kept, FindCut(kept.z, kept.count, CountWeight{}, static_cast<double>(k)));
  }
  candidates = kept;
}

void KeepTopP(Candidates& candidates, float p, float largest) {
  // near[d] is the probability mass of the logits at most kDistance[d] below the largest. The
  // prefix lies within the first distance whose mass reaches the target.
  constexpr int kDistances = 4;
  constexpr float kDistance[kDistances] = {3.0f, 6.0f, 12.0f, 24.0f};
  constexpr int64_t kBlock = 4096;  // f32 sums within a block, f64 between blocks
  const ProbabilityWeight weight{largest};
  double total = 0.0;
  double near[kDistances] = {};
  for (int64_t first = 0; first < candidates.count; first += kBlock) {
    const int64_t left = candidates.count - first;
    const int64_t count = first + (left < kBlock ? left : kBlock);
    F32x16 block_total = Zero();
    F32x16 block_near[kDistances] = {Zero(), Zero(), Zero(), Zero()};
    for (int64_t i = first; i < count; i += kLanes) {
      const F32x16 z = LoadLogits(candidates.z, i, count);
      if (Bits(CanBeDrawn(z)) == 0) continue;
      const F32x16 mass = weight(z);
      block_total = block_total + mass;
      for (int d = 0; d < kDistances; ++d) {
        const I32x16 is_near = z >= Broadcast(largest - kDistance[d]);
        block_near[d] = block_near[d] + Select(is_near, mass, Zero());
      }
    }
    total += Sum(block_total);
    for (int d = 0; d < kDistances; ++d) near[d] += Sum(block_near[d]);
  }
  const double target = p * total;
  for (int d = 0; d < kDistances; ++d) {
    if (near[d] < target * (1 + 1e-5)) continue;  // a margin for rounding
    int64_t kept = 0;
    for (int64_t i = 0; i < candidates.count; i += kLanes) {
      const F32x16 z = LoadLogits(candidates.z, i, candidates.count);
      kept = Append(candidates, i, Bits(z >= Broadcast(largest - kDistance[d])), kept);
    }
    candidates.count = kept;
    candidates.all = false;
    break;
  }
  Apply(candidates, FindCut(candidates.z, candidates.count, weight, target));
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
