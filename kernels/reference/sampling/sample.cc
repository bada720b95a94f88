// Reference sampling, with a sort (kernels/ops/sampling/sample.h).
#include "kernels/ops/sampling/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/core/philox.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The logits after steps 1 to 4 of sampling (ls_sampling in backends/api/backend.h).
std::vector<float> AdjustedLogits(const SamplingRow& row, const float* logits, int64_t vocabulary) {
  std::vector<float> z(logits, logits + vocabulary);
  for (int32_t i = 0; i < row.num_history; ++i) {
    const TokenCount& seen = row.history[i];
    float& logit = z[static_cast<size_t>(seen.token)];
    if (seen.total > 0) {
      logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
    }
    const float penalty = (seen.generated > 0 ? row.presence_penalty : 0.0f) +
                          row.frequency_penalty * static_cast<float>(seen.generated);
    logit -= penalty;
  }
  for (int32_t i = 0; i < row.num_bias; ++i) {
    float& logit = z[static_cast<size_t>(row.bias[i].token)];
    logit = row.bias[i].bias == -kInfinity ? -kInfinity : logit + row.bias[i].bias;
  }
  for (int32_t token = 0; token < vocabulary; ++token) {
    if (!IsAllowed(row.allowed, token)) z[static_cast<size_t>(token)] = -kInfinity;
  }
  return z;
}

// The ids in falling order of z, equal ones in rising order.
std::vector<int32_t> FallingOrder(const std::vector<float>& z) {
  std::vector<int32_t> order(z.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return z[static_cast<size_t>(a)] > z[static_cast<size_t>(b)];
  });
  return order;
}

double Gumbel(const SamplingRow& row, int32_t id) {
  const uint64_t position = static_cast<uint64_t>(row.position);
  const uint32_t x =
      Philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                  static_cast<uint32_t>(id), 0},
                 {static_cast<uint32_t>(row.seed), static_cast<uint32_t>(row.seed >> 32)})[0];
  const double u = (x + 0.5) * 0x1p-32;  // exact
  return -std::log(-std::log(u));
}

int32_t SampleRow(const SamplingRow& row, const float* logits, int64_t vocabulary) {
  const auto is_nan = [](float logit) { return std::isnan(logit); };
  if (std::any_of(logits, logits + vocabulary, is_nan)) return -1;
  std::vector<float> z = AdjustedLogits(row, logits, vocabulary);
  if (std::any_of(z.begin(), z.end(), is_nan)) return -1;
  const int32_t first = FallingOrder(z)[0];
  if (z[static_cast<size_t>(first)] == -kInfinity) return -1;
  if (row.temperature == 0) return first;
  for (float& logit : z) logit /= row.temperature;
  const float largest = z[static_cast<size_t>(first)];
  if (std::isinf(largest)) return first;
  std::vector<int32_t> order = FallingOrder(z);

  // The probability of a token divided by the largest probability.
  const auto weight = [&](int32_t id) {
    const float logit = z[static_cast<size_t>(id)];
    return logit == largest ? 1.0 : std::exp(static_cast<double>(logit) - largest);
  };
  if (row.top_k > 0 && row.top_k < vocabulary) order.resize(static_cast<size_t>(row.top_k));
  if (row.top_p < 1) {
    double total = 0;
    for (int32_t id : order) total += weight(id);
    double sum = 0;
    size_t kept = 0;
    while (kept < order.size() && sum < row.top_p * total) sum += weight(order[kept++]);
    order.resize(kept);
  }
  if (row.min_p > 0) std::erase_if(order, [&](int32_t id) { return weight(id) < row.min_p; });

  std::sort(order.begin(), order.end());
  int32_t best = -1;
  double best_score = -kInfinity;
  for (int32_t id : order) {
    const double score = z[static_cast<size_t>(id)] + Gumbel(row, id);
    if (score > best_score) {
      best = id;
      best_score = score;
    }
  }
  return best;
}

}  // namespace

void Sample(Stream& stream, const SampleArgs& args) {
  if (!stream.ok()) return;
  for (int32_t i = 0; i < args.num_rows; ++i) {
    const SamplingRow& row = args.rows[i];
    args.sampled[i] = SampleRow(row, args.logits.f32_row(row.row), args.logits.cols);
  }
}

}  // namespace longstream::reference
