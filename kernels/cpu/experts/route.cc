// Routing (kernels/ops/experts/route.h).
#include "kernels/ops/experts/route.h"

#include <limits>

#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kLeastSum = 1e-20f;  // of sigmoids
// The number of rows of a task. A task has several rows, because one row costs less than waking a
// thread.
constexpr int64_t kTaskRows = 8;

// The chosen experts of one row, and a number for each: its score, later its weight.
struct Choice {
  int32_t* experts;  // [k]
  float* numbers;    // [k]
};

// Puts the experts of 16 scores, the first of which is expert `first`, into the choice, which has
// `*size` experts. The choice is in the order of falling scores.
LONGSTREAM_INLINE void Insert(const float* scores, int64_t first, int64_t count, int64_t k,
                              const Choice& choice, int64_t* size) {
  for (int64_t lane = 0; lane < count; ++lane) {
    const float score = scores[lane];
    if (*size == k && !(score > choice.numbers[k - 1])) continue;
    int64_t at = *size == k ? k - 1 : (*size)++;
    for (; at > 0 && score > choice.numbers[at - 1]; --at) {
      choice.experts[at] = choice.experts[at - 1];
      choice.numbers[at] = choice.numbers[at - 1];
    }
    choice.experts[at] = static_cast<int32_t>(first + lane);
    choice.numbers[at] = score;
  }
}

// Chooses k of `num_experts` experts. Returns whether a logit is NaN.
bool Choose(const RouteArgs& args, const float* logits, int64_t num_experts, const Choice& choice) {
  I32x16 nan = Broadcast(0);
  int64_t size = 0;
  ForEachRowVector(num_experts, [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
    F32x16 score = access.Read(logits + i);
    nan = nan | (score != score);
    if (args.score == RouterScore::kSigmoid) {
      score = Sigmoid(score);
      if (args.choice_bias != nullptr) score = score + access.Read(args.choice_bias + i);
    }
    alignas(64) float scores[kLanes];
    Store(score, scores);
    const int64_t left = num_experts - i;
    Insert(scores, i, left < kLanes ? left : kLanes, args.num_chosen, choice, &size);
  });
  return Bits(nan) != 0;
}

// exp(logits - top), summed over all experts.
float SumOfAll(const float* logits, int64_t num_experts, float top) {
  F32x16 sum = Zero();
  ForEachRowVector(num_experts, [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
    const F32x16 p = Exp(access.Read(logits + i) - Broadcast(top));
    const auto left = static_cast<int32_t>(num_experts - i);
    sum = sum + Select(Iota(0) < Broadcast(left), p, Zero());
  });
  return Sum(sum);
}

// Replaces the numbers of a choice by its weights.
void SetWeights(const RouteArgs& args, const float* logits, int64_t num_experts, bool is_nan,
                const Choice& choice) {
  const int64_t k = args.num_chosen;
  const bool softmax = args.score == RouterScore::kSoftmax;
  const float top = softmax ? choice.numbers[0] : 0.0f;
  float sum = softmax ? 0.0f : kLeastSum;
  for (int64_t first = 0; first < k; first += kLanes) {
    alignas(64) float chosen[kLanes] = {};
    const int64_t count = k - first < kLanes ? k - first : kLanes;
    for (int64_t i = 0; i < count; ++i) chosen[i] = logits[choice.experts[first + i]];
    const F32x16 x = Load(chosen);
    Store(softmax ? Exp(x - Broadcast(top)) : Sigmoid(x), chosen);
    for (int64_t i = 0; i < count; ++i) {
      choice.numbers[first + i] = chosen[i];
      sum = sum + chosen[i];
    }
  }
  if (!args.normalise) sum = softmax ? SumOfAll(logits, num_experts, top) : 1.0f;
  if (is_nan) sum = kNaN;
  for (int64_t i = 0; i < k; ++i) choice.numbers[i] = args.scale * (choice.numbers[i] / sum);
}

// The weight of the shared expert in a row.
float SharedWeight(const RouteArgs& args, const float* logits, int64_t num_experts) {
  if (args.shared == SharedExpert::kPlain) return 1.0f;
  alignas(64) float weight[kLanes];
  Store(Sigmoid(Broadcast(logits[num_experts])), weight);
  return weight[0];
}

// Groups the chosen experts of all rows by expert. all: the choice of row 0; the next row's follow
// after k experts.
void Group(const RouteArgs& args, int64_t num_experts, const Choice& all) {
  const Routes& routes = args.routes;
  const int64_t num_chosen = routes.num_rows * args.num_chosen;
  for (int64_t e = 0; e <= routes.num_experts; ++e) routes.first[e] = 0;
  for (int64_t i = 0; i < num_chosen; ++i) ++routes.first[all.experts[i] + 1];
  for (int64_t e = 0; e < num_experts; ++e) routes.first[e + 1] += routes.first[e];
  // While routes are placed, first[e] is the next place of expert e.
  for (int64_t i = 0; i < num_chosen; ++i) {
    const int64_t place = routes.first[all.experts[i]]++;
    routes.rows[place] = static_cast<int32_t>(i / args.num_chosen);
    routes.weights[place] = all.numbers[i];
  }
  for (int64_t e = num_experts; e > 0; --e) routes.first[e] = routes.first[e - 1];
  routes.first[0] = 0;
  if (args.shared == SharedExpert::kNone) return;
  for (int64_t r = 0; r < routes.num_rows; ++r) {
    routes.rows[num_chosen + r] = static_cast<int32_t>(r);
    routes.weights[num_chosen + r] = SharedWeight(args, args.logits.f32_row(r), num_experts);
  }
  routes.first[num_experts] = num_chosen;
  routes.first[num_experts + 1] = num_chosen + routes.num_rows;
}

}  // namespace

void Route(Stream& stream, const RouteArgs& args) {
  if (!stream.ok()) return;
  const int64_t num_rows = args.routes.num_rows;
  if (stream.workspace_bytes < RouteWorkspace(num_rows, args.num_chosen)) {
    return stream.Fail(OpStatus::kUnsupported);
  }
  const bool shared = args.shared != SharedExpert::kNone;
  const int64_t num_experts = args.routes.num_experts - (shared ? 1 : 0);
  auto* experts = reinterpret_cast<int32_t*>(stream.workspace);
  const Choice all = {experts, reinterpret_cast<float*>(experts + num_rows * args.num_chosen)};
  const int64_t num_tasks = (num_rows + kTaskRows - 1) / kTaskRows;
  ParallelFor(stream.executor, static_cast<uint32_t>(num_tasks), [&](uint32_t task) {
    const int64_t first = task * kTaskRows;
    const int64_t last = first + kTaskRows < num_rows ? first + kTaskRows : num_rows;
    for (int64_t r = first; r < last; ++r) {
      const float* logits = args.logits.f32_row(r);
      const Choice choice = {all.experts + r * args.num_chosen, all.numbers + r * args.num_chosen};
      const bool is_nan = Choose(args, logits, num_experts, choice);
      SetWeights(args, logits, num_experts, is_nan, choice);
    }
  });
  Group(args, num_experts, all);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
