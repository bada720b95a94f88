// Log-probabilities (kernels/ops/sampling/log_probs.h).
//
// Reads a row twice. The first pass finds the largest logits. The second pass sums the exponentials
// of the logits minus the largest one, in f32 within blocks and in f64 between blocks.
#include "kernels/ops/sampling/log_probs.h"

#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kBlock = 4096;  // number of logits that are summed in f32; a multiple of kLanes

// Loads sixteen logits from z + i on. Lanes from index `count` on are -inf.
LONGSTREAM_INLINE F32x16 LoadLogits(const float* z, int64_t i, int64_t count) {
  if (i + kLanes <= count) return Load(z + i);
  const F32x16 absent = Broadcast(-kInfinity);
  return Select(Iota(0) < Broadcast(static_cast<int32_t>(count - i)), LoadPartial(z + i, count - i),
                absent);
}

// The largest of `count` logits, or NaN if one is NaN.
float Largest(const float* z, int64_t count) {
  F32x16 largest = Broadcast(-kInfinity);
  I32x16 nan = Broadcast(0);
  for (int64_t i = 0; i < count; i += kLanes) {
    const F32x16 v = LoadLogits(z, i, count);
    largest = Max(v, largest);
    nan = nan | (v != v);
  }
  return Bits(nan) != 0 ? kNaN : MaxLane(largest);
}

// log(sum(exp(z))); NaN if a logit is NaN or +inf, or if all are -inf.
double LogSumExp(const float* z, int64_t count) {
  const float largest = Largest(z, count);
  double total = 0.0;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t last = first + kBlock < count ? first + kBlock : count;
    F32x16 sum = Zero();
    for (int64_t i = first; i < last; i += kLanes) {
      sum = sum + Exp(LoadLogits(z, i, last) - Broadcast(largest));
    }
    total += Sum(sum);
  }
  return largest + __builtin_log(total);
}

// Writes the num_top largest logits to `top`, from large to small, equal ones in the order of ids.
void FindTop(const float* z, int64_t count, int32_t num_top, TopToken* top) {
  for (int32_t n = 0; n < num_top; ++n) top[n] = {-1, -kInfinity};
  if (num_top == 0) return;
  for (int64_t i = 0; i < count; i += kLanes) {
    const F32x16 v = LoadLogits(z, i, count);
    uint32_t larger = Bits(v > Broadcast(top[num_top - 1].log_prob));
    for (; larger != 0; larger &= larger - 1) {
      const int64_t id = i + __builtin_ctz(larger);
      if (!(z[id] > top[num_top - 1].log_prob)) continue;  // `top` has changed
      int32_t at = num_top - 1;
      for (; at > 0 && z[id] > top[at - 1].log_prob; --at) top[at] = top[at - 1];
      top[at] = {static_cast<int32_t>(id), z[id]};
    }
  }
}

void LogProbsOfRow(const LogProbsArgs& args, int32_t index) {
  const LogProbsRow& row = args.rows[index];
  const float* z = args.logits.f32_row(row.row);
  const double log_sum = LogSumExp(z, args.logits.cols);
  const int32_t target = row.sampled != nullptr ? *row.sampled : row.target;
  args.log_probs[index] = target < 0 ? kNaN : static_cast<float>(z[target] - log_sum);

  TopToken* top = args.top + int64_t{index} * args.top_stride;
  FindTop(z, args.logits.cols, row.num_top, top);
  for (int32_t n = 0; n < row.num_top; ++n) {
    if (log_sum != log_sum) top[n].token = -1;
    top[n].log_prob = static_cast<float>(top[n].log_prob - log_sum);
  }
}

}  // namespace

void LogProbs(Stream& stream, const LogProbsArgs& args) {
  if (!stream.ok()) return;
  ParallelFor(stream.executor, static_cast<uint32_t>(args.num_rows),
              [&](uint32_t index) { LogProbsOfRow(args, static_cast<int32_t>(index)); });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
