// Log-probabilities: a thread block computes a row. It finds the most probable tokens one after the
// other, without a sort: each is the token with the greatest rank below that of the token before.
// Each takes a pass over the row, which is in L2.
#include <cmath>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/row_reduce.cuh"
#include "kernels/cuda/primitives/shared.cuh"
#include "kernels/ops/sampling/log_probs.h"

namespace longstream::cuda {
namespace {

// log(sum(exp(logits))); NaN if a logit is NaN or +infinity, or if all are -infinity.
__device__ double LogSumExp(const float* logits, int64_t vocabulary, double* scratch) {
  int nan = 0;
  float largest = -INFINITY;
  const auto load = [&](int i) { return logits[i]; };
  ForRow(vocabulary, load, [&](int, float logit) {
    nan |= logit != logit ? 1 : 0;
    largest = fmaxf(largest, logit);
  });
  nan = __syncthreads_or(nan);
  largest = RowMax(largest, reinterpret_cast<float*>(scratch));
  if (nan != 0 || std::isinf(largest)) return NAN;
  double sum = 0.0;
  ForRow(vocabulary, load,
         [&](int, float logit) { sum += static_cast<double>(expf(logit - largest)); });
  return static_cast<double>(largest) + log(RowSum(sum, scratch));
}

// Shared memory: [threads / 32] f64.
__global__ void __launch_bounds__(kMaxRowThreads) LogProbsKernel(LogProbsArgs args) {
  BeginKernel();
  auto* scratch = SharedMemory<double>();
  const LogProbsRow row = args.rows[blockIdx.x];
  const int64_t vocabulary = args.logits.cols;
  const float* logits = static_cast<const float*>(args.logits.data) + row.row * args.logits.stride;
  const double log_sum = LogSumExp(logits, vocabulary, scratch);
  if (threadIdx.x == 0) {
    const int32_t target = row.sampled != nullptr ? *row.sampled : row.target;
    args.log_probs[blockIdx.x] =
        target < 0 ? NAN : static_cast<float>(static_cast<double>(logits[target]) - log_sum);
  }
  TopToken* top = args.top + int64_t{blockIdx.x} * args.top_stride;
  Word64 previous = ~Word64{0};
  for (int32_t n = 0; n < row.num_top; ++n) {
    Word64 best = 0;
    if (!std::isnan(log_sum) && previous != 0) {
      ForRow(
          vocabulary, [&](int i) { return logits[i]; },
          [&](int i, float logit) {
            const Word64 rank = RankOf(logit, i);
            if (rank < previous && rank > best && logit != -INFINITY) best = rank;
          });
      best = RowMax(best, reinterpret_cast<Word64*>(scratch));
    }
    previous = best;
    if (threadIdx.x != 0) continue;
    if (best == 0) {
      top[n] = {-1, static_cast<float>(-INFINITY - log_sum)};
    } else {
      top[n] = {IdOf(best), static_cast<float>(static_cast<double>(logits[IdOf(best)]) - log_sum)};
    }
  }
}

}  // namespace

void LogProbs(Stream& stream, const LogProbsArgs& args) {
  const unsigned threads = RowThreads(args.logits.cols);
  const LaunchShape shape = {static_cast<unsigned>(args.num_rows), threads,
                             threads / kWarp * sizeof(double)};
  Launch(stream, shape, LogProbsKernel, args);
}

}  // namespace longstream::cuda
