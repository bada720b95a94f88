// Sampling: a block a row, and no sort.
//
// Top-k and top-p both keep a prefix of the tokens in falling order of rank (row_reduce.cuh). Its
// end is found digit by digit: a histogram of counts and masses over 256 bins, the bin in which the
// count or mass is reached, then the same within that bin. The first digit is the distance from the
// largest logit in eighths, which spreads a vocabulary over many bins; the others are the bytes of
// the rank. Masses are integers, probabilities relative to the largest in units of 2^-44 (of more
// where a vocabulary is larger than 2^19), so that their sums do not depend on the order of the
// atomic additions.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/core/philox.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/overlap.cuh"
#include "kernels/cuda/row_reduce.cuh"
#include "kernels/cuda/shared.cuh"
#include "kernels/ops/sample.h"

namespace longstream::cuda {
namespace {

constexpr int kBins = 256;
constexpr float kBinsPerNat = 8.0f;

// The mass of probability 1. As many tokens as there are of it add up to at most 2^63.
float MassOfOne(int64_t vocabulary) {
  const int bits = std::bit_width(static_cast<uint64_t>(vocabulary));
  return std::ldexp(1.0f, std::min(44, 63 - bits));
}

struct SampleShared {
  Word64 scratch[kMaxRowThreads / kWarp];
  unsigned counts[kBins];
  Word64 masses[kBins];
  int bin;         // where the target is reached
  unsigned count;  // in that bin
  Word64 before;   // count or mass of all that ranks before the bin
};

// A row of adjusted logits, seen by the block.
class Row {
 public:
  __device__ Row(float* logits, int64_t vocabulary, float mass_of_one, SampleShared* shared)
      : z_(logits), vocabulary_(vocabulary), mass_of_one_(mass_of_one), shared_(shared) {}

  // Finds the largest logit; false where there is a NaN or nothing above -infinity.
  __device__ bool Begin() {
    int nan = 0;
    float largest = -INFINITY;
    ForEach([&](int, float z) {
      nan |= z != z ? 1 : 0;
      largest = fmaxf(largest, z);
    });
    nan = __syncthreads_or(nan);
    largest_ = RowMax(largest, reinterpret_cast<float*>(shared_->scratch));
    return nan == 0 && largest_ != -INFINITY;
  }

  // Probability relative to that of the largest logit.
  __device__ float Weight(float z) const { return z == largest_ ? 1.0f : expf(z - largest_); }

  // Keeps the first `count` tokens.
  __device__ void KeepFirst(int64_t count) {
    if (count < vocabulary_) lowest_ = FindEnd<false>(static_cast<Word64>(count));
  }

  // Of the kept tokens, keeps the fewest that together have `share` of their mass.
  __device__ void KeepMass(float share) {
    Word64 mass = 0;
    ForEachKept([&](float z, Word64) { mass += MassOf(z); });
    const Word64 total = RowSum(mass, shared_->scratch);
    const double target = ceil(static_cast<double>(share) * static_cast<double>(total));
    lowest_ = FindEnd<true>(static_cast<Word64>(target));
  }

  // The kept token with the greatest score(z, id); the lowest id among equals.
  template <typename Score>
  __device__ int32_t Best(const Score& score) const {
    Word64 best = 0;
    ForEachKept([&](float z, Word64 rank) {
      const int32_t id = IdOf(rank);
      const float value = score(z, id);
      if (value != value) return;
      const Word64 scored = RankOf(value, id);
      if (scored > best) best = scored;
    });
    best = RowMax(best, shared_->scratch);
    return best == 0 ? -1 : IdOf(best);
  }

 private:
  __device__ Word64 MassOf(float z) const { return static_cast<Word64>(Weight(z) * mass_of_one_); }

  __device__ int DistanceBin(float z) const {
    if (z == largest_) return kBins - 1;
    const float bins = (largest_ - z) * kBinsPerNat;
    return bins < static_cast<float>(kBins - 1) ? kBins - 1 - static_cast<int>(bins) : 0;
  }

  template <typename Visit>
  __device__ void ForEach(const Visit& visit) const {
    ForRow(
        vocabulary_, [&](int i) { return z_[i]; }, visit);
  }
  template <typename Visit>
  __device__ void ForEachKept(const Visit& visit) const {
    ForEach([&](int i, float z) {
      const Word64 rank = RankOf(z, i);
      if (rank >= lowest_) visit(z, rank);
    });
  }

  // The rank of the last token of the shortest prefix of the kept ones whose count (or mass) is at
  // least `target`.
  template <bool kByMass>
  __device__ Word64 FindEnd(Word64 target) {
    constexpr int kDigits = 9;  // the distance, then the bytes of the rank
    Word64 before = 0;          // count or mass of what ranks before the current range
    int distance = 0;
    Word64 prefix = 0;
    for (int digit = 0; digit < kDigits; ++digit) {
      const int shift = 8 * (kDigits - 1 - digit);  // of the bits below those that are known
      ClearBins();
      ForEachKept([&](float z, Word64 rank) {
        const int bin_of_z = DistanceBin(z);
        if (digit == 0) return Count<kByMass>(bin_of_z, z);
        if (bin_of_z != distance) return;
        if (digit > 1 && (rank >> (shift + 8)) != prefix) return;
        Count<kByMass>(static_cast<int>(rank >> shift & (kBins - 1)), z);
      });
      __syncthreads();
      if (threadIdx.x == 0) FindBin<kByMass>(before, target);
      __syncthreads();
      before = shared_->before;
      if (digit == 0) {
        distance = shared_->bin;
      } else {
        prefix = prefix << 8 | static_cast<Word64>(shared_->bin);
      }
      if (shared_->count > 1) continue;
      // One token is left in the range; a pass finds it.
      Word64 rank_of_it = 0;
      ForEachKept([&](float z, Word64 rank) {
        if (DistanceBin(z) == distance && (digit == 0 || rank >> shift == prefix)) {
          rank_of_it = rank;
        }
      });
      return RowMax(rank_of_it, shared_->scratch);
    }
    return prefix;
  }

  __device__ void ClearBins() const {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kBins; i += static_cast<int>(blockDim.x)) {
      shared_->counts[i] = 0;
      shared_->masses[i] = 0;
    }
    __syncthreads();
  }

  template <bool kByMass>
  __device__ void Count(int bin, float z) const {
    atomicAdd(&shared_->counts[bin], 1u);
    if constexpr (kByMass) atomicAdd(&shared_->masses[bin], MassOf(z));
  }

  // From the greatest bin down. Where rounding keeps the target from being reached, the last bin
  // that is not empty.
  template <bool kByMass>
  __device__ void FindBin(Word64 before, Word64 target) const {
    for (int bin = kBins - 1; bin >= 0; --bin) {
      if (shared_->counts[bin] == 0) continue;
      const Word64 amount = kByMass ? shared_->masses[bin] : Word64{shared_->counts[bin]};
      shared_->bin = bin;
      shared_->count = shared_->counts[bin];
      shared_->before = before;
      before += amount;
      if (before >= target) return;
    }
  }

  float* const z_;
  const int64_t vocabulary_;
  const float mass_of_one_;
  SampleShared* const shared_;
  float largest_ = 0.0f;
  Word64 lowest_ = 0;  // rank of the last kept token
};

// Steps 1 to 3, and the division of step 4, into z.
__device__ void Adjust(const SamplingRow& row, const float* logits, int64_t vocabulary, float* z) {
  const auto thread = static_cast<int32_t>(threadIdx.x), threads = static_cast<int32_t>(blockDim.x);
  ForRow(
      vocabulary, [&](int i) { return logits[i]; }, [&](int i, float logit) { z[i] = logit; });
  __syncthreads();
  for (int32_t i = thread; i < row.num_history; i += threads) {
    const TokenCount seen = row.history[i];
    float logit = z[seen.token];
    if (seen.total > 0) {
      logit = logit > 0 ? __fdiv_rn(logit, row.repetition_penalty)
                        : __fmul_rn(logit, row.repetition_penalty);
    }
    const float presence = seen.generated > 0 ? row.presence_penalty : 0.0f;
    const float frequency = __fmul_rn(row.frequency_penalty, static_cast<float>(seen.generated));
    z[seen.token] = __fsub_rn(logit, __fadd_rn(presence, frequency));
  }
  __syncthreads();
  for (int32_t i = thread; i < row.num_bias; i += threads) {
    const LogitBias bias = row.bias[i];
    z[bias.token] = bias.bias == -INFINITY ? -INFINITY : __fadd_rn(z[bias.token], bias.bias);
  }
  __syncthreads();
  if (row.temperature > 0) {
    ForRow(
        vocabulary, [&](int i) { return z[i]; },
        [&](int i, float logit) { z[i] = __fdiv_rn(logit, row.temperature); });
  }
  __syncthreads();
}

// -log(-log(u)), u = (x + 1/2) / 2^32, each logarithm where f32 holds its argument to full
// precision: of u below 1/2, of 1 - u by log1p above.
__device__ float Gumbel(const SamplingRow& row, int32_t id) {
  const auto position = static_cast<uint64_t>(row.position);
  const uint32_t x =
      Philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                  static_cast<uint32_t>(id), 0},
                 {static_cast<uint32_t>(row.seed), static_cast<uint32_t>(row.seed >> 32)})[0];
  const bool upper = (x & 0x80000000u) != 0;
  const float y = (static_cast<float>(upper ? ~x : x) + 0.5f) * 0x1p-32f;
  const float exponential = upper ? -log1pf(-y) : -logf(y);
  return -logf(exponential);
}

// Shared memory: SampleShared.
__global__ void __launch_bounds__(kMaxRowThreads)
    SampleKernel(SampleArgs args, float* workspace, int64_t stride, float mass_of_one) {
  BeginKernel();
  const SamplingRow row = args.rows[blockIdx.x];
  const int64_t vocabulary = args.logits.cols;
  const float* logits = static_cast<const float*>(args.logits.data) + row.row * args.logits.stride;
  float* z = workspace + blockIdx.x * stride;
  Adjust(row, logits, vocabulary, z);
  Row tokens(z, vocabulary, mass_of_one, SharedMemory<SampleShared>());
  int32_t sampled = -1;
  if (tokens.Begin()) {
    if (row.temperature == 0) {
      sampled = tokens.Best([](float logit, int32_t) { return logit; });
    } else {
      if (row.top_k > 0) tokens.KeepFirst(row.top_k);
      if (row.top_p < 1) tokens.KeepMass(row.top_p);
      sampled = tokens.Best([&](float logit, int32_t id) {
        if (row.min_p > 0 && tokens.Weight(logit) < row.min_p) return NAN;
        return logit + Gumbel(row, id);
      });
    }
  }
  if (threadIdx.x == 0) args.sampled[blockIdx.x] = sampled;
}

}  // namespace

void Sample(Stream& stream, const SampleArgs& args) {
  if (!stream.ok()) return;
  if (stream.workspace_bytes < SampleWorkspace(args.num_rows, args.logits.cols)) {
    stream.Fail(OpStatus::kUnsupported);
    return;
  }
  auto* workspace = reinterpret_cast<float*>(stream.workspace);
  const auto stride = static_cast<int64_t>(SampleWorkspace(1, args.logits.cols) / sizeof(float));
  const LaunchShape shape = {static_cast<unsigned>(args.num_rows), RowThreads(args.logits.cols),
                             sizeof(SampleShared)};
  Launch(stream, shape, SampleKernel, args, workspace, stride, MassOfOne(args.logits.cols));
}

}  // namespace longstream::cuda
