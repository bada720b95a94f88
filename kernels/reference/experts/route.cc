// Reference routing (kernels/ops/experts/route.h).
#include "kernels/ops/experts/route.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/reference/gemm/projection.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {
namespace {

constexpr double kLeastSum = 1e-20;

struct Choice {
  std::vector<int32_t> experts;
  std::vector<double> weights;
};

// C[r] of the op's equation.
std::vector<int32_t> Chosen(const RouteArgs& args, const float* logits, int64_t num_experts) {
  std::vector<float> scores(logits, logits + num_experts);
  if (args.score == RouterScore::kSigmoid) {
    for (size_t e = 0; e < scores.size(); ++e) {
      const float bias = args.choice_bias == nullptr ? 0.0f : args.choice_bias[e];
      scores[e] = static_cast<float>(Sigmoid(scores[e])) + bias;
    }
  }
  std::vector<int32_t> chosen;
  for (int64_t n = 0; n < args.num_chosen; ++n) {
    int32_t best = -1;
    for (int32_t e = 0; e < num_experts; ++e) {
      if (std::find(chosen.begin(), chosen.end(), e) != chosen.end()) continue;
      if (best < 0 || scores[static_cast<size_t>(e)] > scores[static_cast<size_t>(best)]) best = e;
    }
    chosen.push_back(best);
  }
  return chosen;
}

// Row r's experts and their weights.
Choice ChoiceOf(const RouteArgs& args, int64_t r, int64_t num_experts) {
  const float* logits = args.logits.f32_row(r);
  Choice choice;
  choice.experts = Chosen(args, logits, num_experts);
  std::vector<double> p(logits, logits + num_experts);
  const bool softmax = args.score == RouterScore::kSoftmax;
  const double max = *std::max_element(p.begin(), p.end());
  for (double& x : p) x = softmax ? std::exp(x - max) : Sigmoid(x);
  double sum = softmax ? 0.0 : kLeastSum;
  if (args.normalise) {
    for (const int32_t e : choice.experts) sum += p[static_cast<size_t>(e)];
  } else {
    sum = softmax ? std::accumulate(p.begin(), p.end(), 0.0) : 1.0;
  }
  if (std::any_of(logits, logits + num_experts, [](float x) { return std::isnan(x); })) {
    sum = std::numeric_limits<double>::quiet_NaN();
  }
  for (const int32_t e : choice.experts) {
    choice.weights.push_back(args.scale * p[static_cast<size_t>(e)] / sum);
  }
  if (args.shared == SharedExpert::kNone) return choice;
  choice.experts.push_back(static_cast<int32_t>(num_experts));
  const bool gated = args.shared == SharedExpert::kGated;
  choice.weights.push_back(gated ? Sigmoid(logits[num_experts]) : 1.0);
  return choice;
}

}  // namespace

void Route(Stream& stream, const RouteArgs& args) {
  if (!stream.ok()) return;
  const Routes& routes = args.routes;
  const int64_t num_chosen_from = routes.num_experts - (args.shared == SharedExpert::kNone ? 0 : 1);
  std::vector<Choice> choices;
  choices.reserve(static_cast<size_t>(routes.num_rows));
  for (int64_t r = 0; r < routes.num_rows; ++r) {
    choices.push_back(ChoiceOf(args, r, num_chosen_from));
  }
  int64_t route = 0;
  for (int32_t e = 0; e < routes.num_experts; ++e) {
    routes.first[e] = route;
    for (int64_t r = 0; r < routes.num_rows; ++r) {
      const Choice& choice = choices[static_cast<size_t>(r)];
      for (size_t n = 0; n < choice.experts.size(); ++n) {
        if (choice.experts[n] != e) continue;
        routes.rows[route] = static_cast<int32_t>(r);
        routes.weights[route++] = static_cast<float>(choice.weights[n]);
      }
    }
  }
  routes.first[routes.num_experts] = route;
}

}  // namespace longstream::reference
