// Finds the end of the tokens that top-k and top-p keep. They are a prefix of a row's tokens in
// falling order of rank (row_reduce.cuh), cut by count, by mass of probability, or by both.
//
// The end is found by histograms of 256 bins. The bin of a token says how far its logit is below
// the row's largest logit, in eighths. This spreads a vocabulary over many bins. Tokens in higher
// bins than the end's are kept, tokens in lower bins are not, and the tokens of the end's bin are
// the candidates. With both cuts, top-p's end depends on the tokens that top-k keeps of its last
// bin. The candidates are then the tokens from top-k's bin up to the highest bin that may contain
// top-p's end. Among the candidates, the end is found digit by digit of their ranks.
//
// Masses are integers, so their sums do not depend on the order of additions.
#ifndef LONGSTREAM_KERNELS_CUDA_SAMPLING_SAMPLE_CUT_CUH_
#define LONGSTREAM_KERNELS_CUDA_SAMPLING_SAMPLE_CUT_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/primitives/row_reduce.cuh"
#include "kernels/cuda/primitives/warp.cuh"

namespace longstream::cuda {

inline constexpr int kSampleBins = 256;

// The mass that stands for probability 1: 2^44, or less if the vocabulary is larger than 2^19. So
// the masses of all tokens of a vocabulary add up to at most 2^63.
inline float MassOfOne(int64_t vocabulary) {
  const int bits = std::bit_width(static_cast<uint64_t>(vocabulary));
  return std::ldexp(1.0f, std::min(44, 63 - bits));
}

// The largest logit of a row. Weights, masses and bins of other logits are relative to it.
struct LargestLogit {
  float logit = 0.0f;
  float mass_of_one = 0.0f;

  // The probability of a token divided by that of the largest logit's token.
  __device__ float Weight(float z) const { return z == logit ? 1.0f : expf(z - logit); }
  __device__ Word64 Mass(float z) const { return static_cast<Word64>(Weight(z) * mass_of_one); }
  // The bin of a logit; a smaller logit never has a higher bin.
  __device__ int Bin(float z) const {
    constexpr float kBinsPerNat = 8.0f;
    if (z == logit) return kSampleBins - 1;
    const float bins = (logit - z) * kBinsPerNat;
    return bins < static_cast<float>(kSampleBins - 1) ? kSampleBins - 1 - static_cast<int>(bins)
                                                      : 0;
  }
};

// A sum in shared memory that threads add to. It has two halves, because no instruction adds 64
// bits there: atomicAdd would be a loop with a round for each lane that adds to the same sum.
struct SharedSum {
  unsigned low;
  unsigned high;

  __device__ void Clear() { low = high = 0; }
  __device__ void Add(Word64 amount) {
    const auto to_low = static_cast<unsigned>(amount);
    const unsigned carry = atomicAdd(&low, to_low) > ~to_low ? 1 : 0;
    const unsigned to_high = static_cast<unsigned>(amount >> 32) + carry;
    if (to_high > 0) atomicAdd(&high, to_high);
  }
  __device__ Word64 value() const { return Word64{high} << 32 | low; }
};

// --- bins: a warp sums them from the last bin down, and each lane has eight bins

// The sum over the lanes up to and including this one.
template <typename T>
__device__ T SumThroughLane(T value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int lanes = 1; lanes < kWarp; lanes *= 2) {
    const T of_lower = __shfl_up_sync(kAllLanes, value, static_cast<unsigned>(lanes));
    if (lane >= lanes) value += of_lower;
  }
  return value;
}

struct BinAndBefore {
  int bin = 0;
  Word64 before = 0;  // the amount in higher bins
};

// The bin in which the sum of amounts, from the last bin down and beginning with `before`, reaches
// `target`. REQUIRES: the sum of all bins reaches it.
template <typename Amount>
__device__ BinAndBefore FindBin(const Amount& amount, Word64 before, Word64 target) {
  constexpr int kBinsOfLane = kSampleBins / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int last = kSampleBins - 1 - lane * kBinsOfLane;
  Word64 amounts[kBinsOfLane];
  Word64 sum = 0;
#pragma unroll
  for (int i = 0; i < kBinsOfLane; ++i) {
    amounts[i] = amount(last - i);
    sum += amounts[i];
  }
  const Word64 through = SumThroughLane(sum);
  BinAndBefore found = {last, before + through - sum};
#pragma unroll
  for (int i = 0; i < kBinsOfLane - 1; ++i) {
    if (found.bin == last - i && found.before + amounts[i] < target) {
      found.before += amounts[i];
      --found.bin;
    }
  }
  const unsigned reached = __ballot_sync(kAllLanes, before + through >= target ? 1 : 0);
  const int lane_of_it = reached == 0 ? kWarp - 1 : __ffs(static_cast<int>(reached)) - 1;
  return {__shfl_sync(kAllLanes, found.bin, lane_of_it),
          __shfl_sync(kAllLanes, found.before, lane_of_it)};
}

// The amount in the bins from `first` on.
template <typename Amount>
__device__ Word64 AmountFrom(const Amount& amount, int first) {
  Word64 sum = 0;
#pragma unroll
  for (int i = 0; i < kSampleBins / kWarp; ++i) {
    const int bin = static_cast<int>(threadIdx.x) % kWarp + i * kWarp;
    if (bin >= first) sum += amount(bin);
  }
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, lanes);
  }
  return sum;
}

// --- cuts: the bins of a row give the candidates

// The mass of a share of `total`; at most `total` if the share is below 1.
__device__ inline Word64 TargetMass(float share, Word64 total) {
  return static_cast<Word64>(ceil(static_cast<double>(share) * static_cast<double>(total)));
}

struct Cuts {
  bool by_count = false;
  bool by_mass = false;
  int32_t count = 0;
  float share = 0.0f;

  __device__ Cuts(int32_t top_k, float top_p, int32_t vocabulary)
      : by_count(top_k > 0 && top_k < vocabulary), by_mass(top_p < 1), count(top_k), share(top_p) {}
  __device__ bool any() const { return by_count || by_mass; }
};

// The candidates are the tokens of bins lowest to highest. If highest < lowest there are none.
struct CandidateBins {
  int lowest = 0;
  int highest = -1;
  Word64 count_before = 0;  // count of the tokens in higher bins
  Word64 mass_before = 0;   // mass of these tokens
  Word64 total = 0;         // mass of the row, if it is not cut by count
};

// Finds the candidates from a row's bins. REQUIRES: cuts.any(). Each warp computes it for itself.
__device__ inline CandidateBins FindCandidates(const Cuts& cuts, const unsigned* counts,
                                               const Word64* masses) {
  const auto count = [&](int bin) { return Word64{counts[bin]}; };
  const auto mass = [&](int bin) { return masses[bin]; };
  CandidateBins found;
  if (cuts.by_count) {
    const BinAndBefore end = FindBin(count, 0, static_cast<Word64>(cuts.count));
    found.lowest = end.bin;
    found.highest = end.bin;
    found.count_before = end.before;
  }
  if (cuts.by_mass) {
    // The tokens that are kept by count have at least the mass of the higher bins.
    found.total = AmountFrom(mass, cuts.by_count ? found.lowest + 1 : 0);
    const BinAndBefore end = FindBin(mass, 0, TargetMass(cuts.share, found.total));
    found.highest = end.bin;
    found.mass_before = end.before;
    if (cuts.by_count) {
      found.count_before = AmountFrom(count, end.bin + 1);
    } else {
      found.lowest = end.bin;
    }
  }
  return found;
}

// --- the end: a block finds it among the candidates

struct CutShared {
  Word64 scratch[kMaxRowThreads / kWarp];
  SharedSum masses[kSampleBins];
  unsigned counts[kSampleBins];
};

// The end of the shortest prefix whose count (or mass), beginning with `before`, is at least
// `target`. The end is a number: the ranks of the prefix are at least as large, all other ranks are
// smaller. candidates.ForEach(visit) calls visit(rank). Only ranks from `lowest` on count.
template <bool kByMass, typename Candidates>
__device__ Word64 FindEnd(const Candidates& candidates, const LargestLogit& largest, Word64 lowest,
                          Word64 before, Word64 target, CutShared* shared) {
  Word64 least = ~Word64{0}, greatest = 0;
  candidates.ForEach([&](Word64 rank) {
    if (rank < lowest) return;
    least = min(least, rank);
    greatest = max(greatest, rank);
  });
  greatest = RowMax(greatest, shared->scratch);
  least = ReduceRow(least, shared->scratch, [](Word64 x, Word64 y) { return x < y ? x : y; });
  constexpr int kDigit = 8;
  Word64 span = greatest - least;  // the end is in [least, least + span]
  int shift = max(64 - __clzll(static_cast<int64_t>(span)) - kDigit, 0);
  while (true) {
    for (int i = static_cast<int>(threadIdx.x); i < kSampleBins;
         i += static_cast<int>(blockDim.x)) {
      shared->counts[i] = 0;
      shared->masses[i].Clear();
    }
    __syncthreads();
    candidates.ForEach([&](Word64 rank) {
      if (rank < least || rank - least > span) return;
      const int bin = static_cast<int>((rank - least) >> shift);
      atomicAdd(&shared->counts[bin], 1u);
      if constexpr (kByMass) shared->masses[bin].Add(largest.Mass(LogitOf(rank)));
    });
    __syncthreads();
    const BinAndBefore end = FindBin(
        [&](int bin) {
          return kByMass ? shared->masses[bin].value() : Word64{shared->counts[bin]};
        },
        before, target);
    const unsigned count = shared->counts[end.bin];
    __syncthreads();
    before = end.before;
    least += static_cast<Word64>(end.bin) << shift;
    if (shift == 0 || count == 1) return least;
    span = (Word64{1} << shift) - 1;
    shift = max(shift - kDigit, 0);
  }
}

// The end of the candidates that the cuts keep, as the other FindEnd returns it.
template <typename Candidates>
__device__ Word64 FindEnd(const Candidates& candidates, const LargestLogit& largest,
                          const Cuts& cuts, const CandidateBins& bins, CutShared* shared) {
  Word64 lowest = 0;
  if (cuts.by_count) {
    lowest = FindEnd<false>(candidates, largest, 0, bins.count_before,
                            static_cast<Word64>(cuts.count), shared);
  }
  if (cuts.by_mass) {
    Word64 total = bins.total;
    if (cuts.by_count) {
      Word64 mass = 0;
      candidates.ForEach([&](Word64 rank) {
        if (rank >= lowest) mass += largest.Mass(LogitOf(rank));
      });
      total = bins.mass_before + RowSum(mass, shared->scratch);
    }
    lowest = FindEnd<true>(candidates, largest, lowest, bins.mass_before,
                           TargetMass(cuts.share, total), shared);
  }
  return lowest;
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_SAMPLING_SAMPLE_CUT_CUH_
