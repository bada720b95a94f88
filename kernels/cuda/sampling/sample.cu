// Sampling: several thread blocks compute a row, without a sort. Up to 64 rows at a time go through
// four kernels. Each kernel reads from the workspace what earlier kernels have written:
//
// - adjust, a block for each part of a row: adjusted logits divided by the temperature (-infinity
//   if a token is not allowed), the part's greatest rank (row_reduce.cuh) before the division;
// - count, a block for each part, if top-k or top-p cut: the row's bins (sample_cut.cuh);
// - select, a block for each part: candidates for the end of the kept tokens, and the greatest
//   score of the tokens that are kept in any case;
// - finish, a block for each row: the end among the candidates, the greatest score of all.
//
// No result depends on the parts: ranks are unique, and sums are of integers.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/core/philox.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/row_reduce.cuh"
#include "kernels/cuda/primitives/shared.cuh"
#include "kernels/cuda/sampling/sample_cut.cuh"
#include "kernels/ops/sampling/sample.h"

namespace longstream::cuda {
namespace {

// A part has 1024 tokens. It has more if otherwise not all parts would run at once; each SM runs
// four blocks at once. One row of 151936 tokens has 149 parts; 64 such rows have 8 parts each.
constexpr int kMaxParts = 256;
constexpr int kLeastPartSize = 1024;
constexpr int kBlocks = 512;
constexpr int kPartThreads = 256;
constexpr int kPartLoads = 4;  // tokens that a thread loads at once

constexpr int kFinishThreads = 512;
constexpr int kMaxListed = 8192;  // candidates in shared memory

// The rank of a part with a NaN. It is greater than any rank.
constexpr Word64 kNaNRank = ~Word64{0};

// Results about a row that one kernel leaves for later ones.
struct alignas(64) Notes {
  Word64 masses[kSampleBins];
  unsigned counts[kSampleBins];
  Word64 first[kMaxParts];  // the part's greatest rank, or kNaNRank
  Word64 best[kMaxParts];   // rank of the best token kept in any case, by score; 0: none
  // The number of candidates. Their ids begin at the part's first place in `ids`.
  unsigned candidates[kMaxParts];
  CandidateBins bins;
};
static_assert(sizeof(Notes) == kSampleNotesBytes);

// Rows that are drawn in one round of kernels.
struct Draw {
  Matrix logits;
  const SamplingRow* rows = nullptr;
  int32_t* sampled = nullptr;
  std::byte* workspace = nullptr;  // for each row z [vocabulary] f32, ids [vocabulary] i32
  size_t row_bytes = 0;
  Notes* notes = nullptr;  // one for each row
  int32_t vocabulary = 0;
  int32_t parts = 0;
  int32_t part_size = 0;  // tokens of each part but the last
  float mass_of_one = 0.0f;
};

// One of the rows of a Draw.
struct Row {
  const SamplingRow sampling;
  const float* const logits;
  float* const z;      // adjusted logits, divided by the temperature
  int32_t* const ids;  // ids of candidates
  Notes& notes;
  const Cuts cuts;

  __device__ Row(const Draw& draw, int32_t index)
      : sampling(draw.rows[index]),
        logits(static_cast<const float*>(draw.logits.data) + sampling.row * draw.logits.stride),
        z(reinterpret_cast<float*>(draw.workspace + index * draw.row_bytes)),
        ids(reinterpret_cast<int32_t*>(z + draw.vocabulary)),
        notes(draw.notes[index]),
        cuts(sampling.top_k, sampling.top_p, draw.vocabulary) {}

  // Whether the token of rank `first`, the greatest of the row, is drawn without noise: the
  // temperature is 0, or the division by it overflows.
  __device__ bool IsGreedy(Word64 first) const {
    return sampling.temperature == 0 || std::isinf(LargestQuotient(first));
  }
  // The greatest logit divided by the temperature, which must not be 0.
  __device__ float LargestQuotient(Word64 first) const {
    return __fdiv_rn(LogitOf(first), sampling.temperature);
  }
  // Whether penalties change logits. Hosts give a history even if no penalty does.
  __device__ bool has_penalties() const {
    return sampling.num_history > 0 &&
           (sampling.repetition_penalty != 1.0f || sampling.presence_penalty != 0.0f ||
            sampling.frequency_penalty != 0.0f);
  }
  // from[id], or -infinity if the token is not allowed. A NaN among the row's logits stays NaN.
  __device__ float Masked(const float* from, int32_t id) const {
    const float logit = from[id];
    const bool stays = IsAllowed(sampling.allowed, id) || (from == logits && logit != logit);
    return stays ? logit : -INFINITY;
  }
};

// The part of a row that a thread block computes.
struct Part {
  int32_t row = 0;
  int32_t index = 0;  // number of the part in the row
  int32_t begin = 0;
  int32_t size = 0;

  __device__ explicit Part(const Draw& draw) {
    const auto parts = static_cast<unsigned>(draw.parts);
    row = static_cast<int32_t>(blockIdx.x / parts);
    index = static_cast<int32_t>(blockIdx.x % parts);
    begin = index * draw.part_size;
    size = min(draw.part_size, draw.vocabulary - begin);
  }
};

// The greatest of the parts' numbers. Each warp computes it for itself.
__device__ Word64 GreatestOfParts(const Word64* of_parts, int32_t parts) {
  Word64 greatest = 0;
#pragma unroll
  for (int i = 0; i < kMaxParts / kWarp; ++i) {
    const int part = static_cast<int>(threadIdx.x) % kWarp + i * kWarp;
    if (part < parts) greatest = max(greatest, of_parts[part]);
  }
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    greatest = max(greatest, __shfl_xor_sync(kAllLanes, greatest, lanes));
  }
  return greatest;
}

// Whether a token can be drawn from a row with this greatest rank.
__device__ bool IsDrawable(Word64 first) {
  return first != kNaNRank && LogitOf(first) != -INFINITY;
}

// --- adjust

// Does steps 1 to 3 of sampling (ls_sampling in backends/api/backend.h) for a row with penalties or
// bias, and writes the result to z. Returns whether a logit is NaN.
__device__ bool AddPenaltiesAndBias(const Row& row, const Part& part) {
  const SamplingRow& sampling = row.sampling;
  float* z = row.z + part.begin;
  int nan = 0;
  ForRow<kPartLoads>(
      part.size, [&](int i) { return row.logits[part.begin + i]; },
      [&](int i, float logit) {
        nan |= logit != logit ? 1 : 0;
        z[i] = logit;
      });
  nan = __syncthreads_or(nan);
  ForRow<kPartLoads>(
      row.has_penalties() ? sampling.num_history : 0, [&](int i) { return sampling.history[i]; },
      [&](int, const TokenCount& seen) {
        const int32_t i = seen.token - part.begin;
        if (i < 0 || i >= part.size) return;
        float logit = z[i];
        if (seen.total > 0) {
          logit = logit > 0 ? __fdiv_rn(logit, sampling.repetition_penalty)
                            : __fmul_rn(logit, sampling.repetition_penalty);
        }
        const float presence = seen.generated > 0 ? sampling.presence_penalty : 0.0f;
        const float frequency =
            __fmul_rn(sampling.frequency_penalty, static_cast<float>(seen.generated));
        z[i] = __fsub_rn(logit, __fadd_rn(presence, frequency));
      });
  __syncthreads();
  ForRow<kPartLoads>(
      sampling.num_bias, [&](int i) { return sampling.bias[i]; },
      [&](int, const LogitBias& bias) {
        const int32_t i = bias.token - part.begin;
        if (i < 0 || i >= part.size) return;
        z[i] = bias.bias == -INFINITY ? -INFINITY : __fadd_rn(z[i], bias.bias);
      });
  __syncthreads();
  return nan != 0;
}

// Shared memory: [threads / 32] Word64.
__global__ void __launch_bounds__(kPartThreads) AdjustKernel(Draw draw) {
  BeginKernel();
  const Part part(draw);
  const Row row(draw, part.row);
  if (part.index == 0) {
    for (int i = static_cast<int>(threadIdx.x); i < kSampleBins;
         i += static_cast<int>(blockDim.x)) {
      row.notes.counts[i] = 0;
      row.notes.masses[i] = 0;
    }
  }
  const float* from = row.logits;
  Word64 first = 0;
  if (row.has_penalties() || row.sampling.num_bias > 0) {
    if (AddPenaltiesAndBias(row, part)) first = kNaNRank;
    from = row.z;
  }
  ForRow<kPartLoads>(
      part.size, [&](int i) { return row.Masked(from, part.begin + i); },
      [&](int i, float logit) {
        first = max(first, logit != logit ? kNaNRank : RankOf(logit, part.begin + i));
        if (row.sampling.temperature == 0) return;
        row.z[part.begin + i] = __fdiv_rn(logit, row.sampling.temperature);
      });
  first = RowMax(first, SharedMemory<Word64>());
  if (threadIdx.x == 0) row.notes.first[part.index] = first;
}

// --- count

struct CountShared {
  SharedSum masses[kSampleBins];
  unsigned counts[kSampleBins];
};

// Shared memory: CountShared.
__global__ void __launch_bounds__(kPartThreads) CountKernel(Draw draw) {
  BeginKernel();
  const Part part(draw);
  const Row row(draw, part.row);
  if (!row.cuts.any()) return;
  const Word64 first = GreatestOfParts(row.notes.first, draw.parts);
  if (!IsDrawable(first) || row.IsGreedy(first)) return;
  const LargestLogit largest = {row.LargestQuotient(first), draw.mass_of_one};
  auto* shared = SharedMemory<CountShared>();
  const auto thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < kSampleBins; i += threads) {
    shared->counts[i] = 0;
    shared->masses[i].Clear();
  }
  __syncthreads();
  ForRow<kPartLoads>(
      part.size, [&](int i) { return row.z[part.begin + i]; },
      [&](int, float z) {
        const int bin = largest.Bin(z);
        if (row.cuts.by_count) atomicAdd(&shared->counts[bin], 1u);
        const Word64 mass = row.cuts.by_mass ? largest.Mass(z) : 0;
        if (mass > 0) shared->masses[bin].Add(mass);
      });
  __syncthreads();
  for (int i = thread; i < kSampleBins; i += threads) {
    if (shared->counts[i] > 0) atomicAdd(&row.notes.counts[i], shared->counts[i]);
    const Word64 mass = shared->masses[i].value();
    if (mass > 0) atomicAdd(&row.notes.masses[i], mass);
  }
}

// --- select

// Returns -log(-log(u)) for u = (x + 1/2) / 2^32, where x is a random number of 32 bits. Each
// logarithm has an argument that f32 holds to full precision: log of u if u < 1/2, otherwise log1p
// of -(1 - u).
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

// Score and id as a rank (RankOf); 0 if min-p drops the token.
__device__ Word64 Scored(const SamplingRow& row, const LargestLogit& largest, float z, int32_t id) {
  if (row.min_p > 0 && largest.Weight(z) < row.min_p) return 0;
  return RankOf(z + Gumbel(row, id), id);
}

struct SelectShared {
  Word64 scratch[kPartThreads / kWarp];
  unsigned candidates;
};

// Shared memory: SelectShared.
__global__ void __launch_bounds__(kPartThreads) SelectKernel(Draw draw) {
  BeginKernel();
  const Part part(draw);
  const Row row(draw, part.row);
  const Word64 first = GreatestOfParts(row.notes.first, draw.parts);
  if (!IsDrawable(first) || row.IsGreedy(first)) return;
  const LargestLogit largest = {row.LargestQuotient(first), draw.mass_of_one};
  CandidateBins bins;
  if (row.cuts.any()) bins = FindCandidates(row.cuts, row.notes.counts, row.notes.masses);
  auto* shared = SharedMemory<SelectShared>();
  if (threadIdx.x == 0) shared->candidates = 0;
  __syncthreads();
  Word64 best = 0;
  ForRow<kPartLoads>(
      part.size, [&](int i) { return row.z[part.begin + i]; },
      [&](int i, float z) {
        const int32_t id = part.begin + i;
        const int bin = largest.Bin(z);
        if (bin > bins.highest) {
          best = max(best, Scored(row.sampling, largest, z, id));
        } else if (bin >= bins.lowest) {
          row.ids[part.begin + static_cast<int>(atomicAdd(&shared->candidates, 1u))] = id;
        }
      });
  best = RowMax(best, shared->scratch);
  if (threadIdx.x != 0) return;
  row.notes.best[part.index] = best;
  row.notes.candidates[part.index] = shared->candidates;
  if (part.index == 0) row.notes.bins = bins;
}

// --- finish

struct FinishShared {
  CutShared cut;
  unsigned candidates_before[kMaxParts + 1];  // the number of candidates in the parts before a part
};

// The candidates as a list in shared memory, if they fit there.
struct ListedCandidates {
  const Word64* ranks = nullptr;
  int count = 0;

  template <typename Visit>
  __device__ void ForEach(const Visit& visit) const {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      visit(ranks[i]);
    }
  }
};

// The candidates of a row, in any number, found by reading the row.
struct CandidatesOfRow {
  const float* z = nullptr;
  int32_t vocabulary = 0;
  LargestLogit largest;
  CandidateBins bins;

  template <typename Visit>
  __device__ void ForEach(const Visit& visit) const {
    ForRow<kPartLoads>(
        vocabulary, [&](int i) { return z[i]; },
        [&](int i, float logit) {
          const int bin = largest.Bin(logit);
          if (bin >= bins.lowest && bin <= bins.highest) visit(RankOf(logit, i));
        });
  }
};

// The number of the row's candidates. before: [kMaxParts + 1] in shared memory; receives for each
// part the number of candidates in the parts before it.
__device__ int SumCandidates(const Notes& notes, int32_t parts, unsigned* before) {
  constexpr int kPartsOfLane = kMaxParts / kWarp;
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < kWarp) {
    unsigned counts[kPartsOfLane];
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < kPartsOfLane; ++i) {
      const int part = lane * kPartsOfLane + i;
      counts[i] = part < parts ? notes.candidates[part] : 0;
      sum += counts[i];
    }
    const unsigned through = SumThroughLane(sum);
    unsigned sum_before = through - sum;
#pragma unroll
    for (int i = 0; i < kPartsOfLane; ++i) {
      before[lane * kPartsOfLane + i] = sum_before;
      sum_before += counts[i];
    }
    if (lane == kWarp - 1) before[kMaxParts] = through;
  }
  __syncthreads();
  return static_cast<int>(before[kMaxParts]);
}

// The place of candidate i of the row in its `ids`.
__device__ int PlaceOfCandidate(const Draw& draw, const unsigned* before, int i) {
  int part = 0;  // the last part with at most i candidates before it
#pragma unroll
  for (int step = kMaxParts / 2; step > 0; step /= 2) {
    if (before[part + step] <= static_cast<unsigned>(i)) part += step;
  }
  return part * draw.part_size + i - static_cast<int>(before[part]);
}

template <typename Candidates>
__device__ Word64 BestCandidate(const Candidates& candidates, const Row& row,
                                const LargestLogit& largest, const CandidateBins& bins,
                                CutShared* shared) {
  const Word64 end = FindEnd(candidates, largest, row.cuts, bins, shared);
  Word64 best = 0;
  candidates.ForEach([&](Word64 rank) {
    if (rank < end) return;
    best = max(best, Scored(row.sampling, largest, LogitOf(rank), IdOf(rank)));
  });
  return RowMax(best, shared->scratch);
}

__device__ Word64 BestOfRow(const Draw& draw, const Row& row, const LargestLogit& largest) {
  const Word64 best = GreatestOfParts(row.notes.best, draw.parts);
  if (!row.cuts.any()) return best;
  auto* shared = SharedMemory<FinishShared>();
  const CandidateBins bins = row.notes.bins;
  const int count = SumCandidates(row.notes, draw.parts, shared->candidates_before);
  if (count > kMaxListed) {
    const CandidatesOfRow candidates = {row.z, draw.vocabulary, largest, bins};
    return max(best, BestCandidate(candidates, row, largest, bins, &shared->cut));
  }
  auto* ranks = reinterpret_cast<Word64*>(shared + 1);
  ForRow<kPartLoads>(
      count,
      [&](int i) {
        const int32_t id = row.ids[PlaceOfCandidate(draw, shared->candidates_before, i)];
        return RankOf(row.z[id], id);
      },
      [&](int i, Word64 rank) { ranks[i] = rank; });
  __syncthreads();
  const ListedCandidates candidates = {ranks, count};
  return max(best, BestCandidate(candidates, row, largest, bins, &shared->cut));
}

// Shared memory: FinishShared, then [min(vocabulary, kMaxListed)] Word64.
__global__ void __launch_bounds__(kFinishThreads, 1) FinishKernel(Draw draw) {
  BeginKernel();
  const auto index = static_cast<int32_t>(blockIdx.x);
  const Row row(draw, index);
  const Word64 first = GreatestOfParts(row.notes.first, draw.parts);
  int32_t sampled = -1;
  if (IsDrawable(first) && row.IsGreedy(first)) {
    sampled = IdOf(first);
  } else if (IsDrawable(first)) {
    const LargestLogit largest = {row.LargestQuotient(first), draw.mass_of_one};
    sampled = IdOf(BestOfRow(draw, row, largest));
  }
  if (threadIdx.x == 0) draw.sampled[index] = sampled;
}

// --- launches

// The number of threads of a block that computes `size` tokens.
unsigned Threads(int64_t size, int loads, int most) {
  return std::min(CeilDiv(size, kWarp * loads) * kWarp, static_cast<unsigned>(most));
}

void DivideRows(int32_t rows, Draw* draw) {
  const int32_t most = std::min(kMaxParts, kBlocks / rows);
  const auto parts =
      std::min(CeilDiv(draw->vocabulary, kLeastPartSize), static_cast<unsigned>(most));
  draw->part_size = static_cast<int32_t>(CeilDiv(draw->vocabulary, parts * kWarp)) * kWarp;
  draw->parts = static_cast<int32_t>(CeilDiv(draw->vocabulary, draw->part_size));
}

void SampleRows(Stream& stream, int32_t rows, const Draw& draw) {
  const auto blocks = static_cast<unsigned>(rows * draw.parts);
  const unsigned threads = Threads(draw.part_size, kPartLoads, kPartThreads);
  Launch(stream, {blocks, threads, threads / kWarp * sizeof(Word64)}, AdjustKernel, draw);
  Launch(stream, {blocks, threads, sizeof(CountShared)}, CountKernel, draw);
  Launch(stream, {blocks, threads, sizeof(SelectShared)}, SelectKernel, draw);
  const auto listed = static_cast<size_t>(std::min(draw.vocabulary, kMaxListed));
  Launch(stream,
         {static_cast<unsigned>(rows), Threads(draw.vocabulary, kLoadsAtOnce, kFinishThreads),
          sizeof(FinishShared) + listed * sizeof(Word64)},
         FinishKernel, draw);
}

}  // namespace

void Sample(Stream& stream, const SampleArgs& args) {
  if (!stream.ok()) return;
  const int64_t vocabulary = args.logits.cols;
  if (stream.workspace_bytes < SampleWorkspace(args.num_rows, vocabulary)) {
    stream.Fail(OpStatus::kUnsupported);
    return;
  }
  Draw draw;
  draw.logits = args.logits;
  draw.row_bytes = SampleRowBytes(vocabulary);
  draw.notes = reinterpret_cast<Notes*>(stream.workspace);
  draw.vocabulary = static_cast<int32_t>(vocabulary);
  draw.mass_of_one = MassOfOne(vocabulary);
  for (int32_t done = 0; done < args.num_rows; done += kSampleRowsAtOnce) {
    const int32_t rows = std::min(args.num_rows - done, kSampleRowsAtOnce);
    draw.rows = args.rows + done;
    draw.sampled = args.sampled + done;
    draw.workspace = reinterpret_cast<std::byte*>(draw.notes + rows);
    DivideRows(rows, &draw);
    SampleRows(stream, rows, draw);
  }
}

}  // namespace longstream::cuda
