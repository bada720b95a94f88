// Orders sessions by the cost of having their caches back.
#include "service/engine/policy/eviction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

namespace longstream {
namespace {

// The power of two of the seconds per byte. The least number for caches that cost nothing, the
// greatest for caches that free nothing.
int CostLevel(const EvictionCandidate& candidate, const RestoreCosts& costs) {
  double seconds = SecondsFor(candidate.whole, costs.times);
  if (candidate.stored.has_value()) {
    seconds = std::min(seconds, costs.speed.SecondsFor(candidate.stored->bytes) +
                                    SecondsFor(candidate.stored->rest, costs.times));
  }
  if (candidate.bytes == 0) return std::numeric_limits<int>::max();
  if (seconds <= 0.0) return std::numeric_limits<int>::min();
  return std::ilogb(seconds / static_cast<double>(candidate.bytes));
}

}  // namespace

std::vector<uint32_t> EvictionOrder(std::span<const EvictionCandidate> candidates,
                                    const RestoreCosts& costs) {
  std::vector<int> levels;
  levels.reserve(candidates.size());
  for (const EvictionCandidate& candidate : candidates) {
    levels.push_back(CostLevel(candidate, costs));
  }
  std::vector<uint32_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto rank = [&](uint32_t i) {
      return std::make_tuple(candidates[i].is_leased, levels[i], candidates[i].last_use, i);
    };
    return rank(a) < rank(b);
  });
  return order;
}

}  // namespace longstream
