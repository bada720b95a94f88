// Weighted fair queueing: a virtual counter for each tenant, as in "Fairness in Serving Large
// Language Models" (Sheng et al., 2024).
#include "service/engine/policy/fair_share.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

namespace longstream {
namespace {

std::vector<double> OneOrMore(std::vector<double> weights) {
  if (weights.empty()) weights.push_back(1.0);
  return weights;
}

}  // namespace

void LevelToLeast(std::span<double> got, absl::FunctionRef<bool(size_t)> wants) {
  std::optional<double> least;
  for (size_t i = 0; i < got.size(); ++i) {
    if (wants(i)) least = std::min(least.value_or(got[i]), got[i]);
  }
  if (!least.has_value()) {
    std::fill(got.begin(), got.end(), 0.0);
    return;
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (!wants(i)) got[i] = std::max(got[i], *least);
    got[i] -= *least;  // small numbers are exact
  }
}

WorkShares::WorkShares(std::vector<double> weights)
    : weights_(OneOrMore(std::move(weights))),
      total_weight_(std::accumulate(weights_.begin(), weights_.end(), 0.0)),
      got_(weights_.size(), 0.0) {}

void WorkShares::Level(const std::vector<bool>& wants) {
  if (are_shared()) LevelToLeast(got_, [&wants](size_t tenant) { return wants[tenant]; });
}

size_t WorkShares::PartOf(size_t tenant, size_t total) const {
  const double part = static_cast<double>(total) * weights_[tenant] / total_weight_;
  return std::max<size_t>(1, static_cast<size_t>(part));
}

double WorkOfRows(uint64_t rows, bool is_decode, double decode_seconds, double token_seconds) {
  // The measured times vary; a row is never worth less than a token, nor a whole prompt.
  constexpr double kMost = 64.0;
  const bool is_known = decode_seconds > 0.0 && token_seconds > 0.0;
  const double ratio =
      is_decode && is_known ? std::clamp(decode_seconds / token_seconds, 1.0, kMost) : 1.0;
  return static_cast<double>(rows) * ratio;
}

std::vector<uint32_t> FairOrder(std::span<const WaitingTurn> turns, const WorkShares& shares) {
  // Each priority, and in it each tenant, has a run of this vector.
  std::vector<uint32_t> sorted(turns.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) {
    return std::make_pair(-turns[a].priority, turns[a].tenant) <
           std::make_pair(-turns[b].priority, turns[b].tenant);
  });
  std::vector<double> got(shares.weights().size());
  for (size_t i = 0; i < got.size(); ++i) got[i] = shares.got(i);
  // The first turn of a tenant that is not in the order yet. The tenant that has got least is on
  // top.
  struct Next {
    double got = 0.0;
    uint32_t tenant = 0;
    size_t place = 0;  // in `sorted`
    bool operator<(const Next& other) const {
      return std::make_pair(got, tenant) > std::make_pair(other.got, other.tenant);
    }
  };
  std::priority_queue<Next> nexts;
  std::vector<uint32_t> order;
  order.reserve(turns.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    const WaitingTurn& turn = turns[sorted[i]];
    const WaitingTurn* const before = i == 0 ? nullptr : &turns[sorted[i - 1]];
    const bool is_same = before != nullptr && before->priority == turn.priority;
    if (!is_same || before->tenant != turn.tenant) nexts.push({got[turn.tenant], turn.tenant, i});
    const bool is_last = i + 1 == sorted.size() || turns[sorted[i + 1]].priority != turn.priority;
    while (is_last && !nexts.empty()) {
      Next next = nexts.top();
      nexts.pop();
      const WaitingTurn& first = turns[sorted[next.place]];
      order.push_back(sorted[next.place]);
      got[next.tenant] += first.work / shares.weights()[next.tenant];
      const size_t place = next.place + 1;
      const bool has_more = place <= i && turns[sorted[place]].tenant == next.tenant;
      if (has_more) nexts.push({got[next.tenant], next.tenant, place});
    }
  }
  return order;
}

}  // namespace longstream
