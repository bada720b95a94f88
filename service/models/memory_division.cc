// Divides memory among models in stages.
#include "service/models/memory_division.h"

#include <algorithm>
#include <numeric>

#include "service/models/saturating.h"

namespace longstream {
namespace {

// The bytes that raise each share to `level`, or to its goal if that is less.
uint64_t Missing(std::span<const uint64_t> goals, std::span<const uint64_t> shares,
                 uint64_t level) {
  uint64_t missing = 0;
  for (size_t i = 0; i < goals.size(); ++i) {
    const uint64_t to = std::min(goals[i], level);
    missing = SumOf(missing, to - std::min(to, shares[i]));
  }
  return missing;
}

// Raises the shares to the highest common level for which *bytes suffice, but none above its goal.
void Raise(std::span<const uint64_t> goals, std::vector<uint64_t>& shares, uint64_t* bytes) {
  uint64_t level = 0;
  for (uint64_t step = uint64_t{1} << 63; step > 0; step /= 2) {
    if (Missing(goals, shares, level + step) <= *bytes) level += step;
  }
  *bytes -= Missing(goals, shares, level);
  for (size_t i = 0; i < goals.size(); ++i) {
    shares[i] = std::max(shares[i], std::min(goals[i], level));
  }
}

std::vector<uint64_t> InStages(uint64_t bytes, std::span<const CacheNeed> needs) {
  std::vector<uint64_t> shares(needs.size()), goals(needs.size());
  for (uint64_t CacheNeed::*goal : {&CacheNeed::least, &CacheNeed::session, &CacheNeed::batch}) {
    for (size_t i = 0; i < needs.size(); ++i) goals[i] = needs[i].*goal;
    Raise(goals, shares, &bytes);
  }
  double sum = 0;
  for (const CacheNeed& need : needs) sum += static_cast<double>(need.batch);
  uint64_t left = bytes;
  for (size_t i = 0; i < needs.size() && sum > 0; ++i) {
    const double part = static_cast<double>(bytes) * (static_cast<double>(needs[i].batch) / sum);
    const uint64_t more = std::min(left, static_cast<uint64_t>(part));
    shares[i] += more;
    left -= more;
  }
  return shares;
}

}  // namespace

CacheNeed CacheNeed::Of(const ls_model_info& info, uint32_t max_batch_sequences) {
  const uint64_t fixed = SumOf(SumOf(info.window_bytes_per_sequence, info.state_bytes_per_sequence),
                               info.checkpoint_bytes_per_sequence);
  const auto with_pages = [&](uint64_t tokens) {
    if (info.page_tokens == 0) return fixed;
    const uint64_t pages = tokens / info.page_tokens + (tokens % info.page_tokens != 0);
    return SumOf(fixed, ProductOf(ProductOf(pages, info.page_tokens), info.kv_bytes_per_token));
  };
  CacheNeed need;
  need.least = with_pages(1);
  need.session = with_pages(info.context_limit);
  need.batch = ProductOf(need.session, max_batch_sequences);
  return need;
}

MemoryShares DivideMemory(uint64_t bytes, std::span<const CacheNeed> needs) {
  MemoryShares shares;
  shares.bytes.assign(needs.size(), 0);
  std::vector<size_t> others(needs.size());  // the models that get what the division gives them
  std::iota(others.begin(), others.end(), size_t{0});
  while (true) {
    std::vector<CacheNeed> of_others;
    of_others.reserve(others.size());
    for (const size_t i : others) of_others.push_back(needs[i]);
    const std::vector<uint64_t> divided = InStages(bytes, of_others);
    std::vector<size_t> rest;
    uint64_t kept = 0;
    for (size_t i = 0; i < others.size(); ++i) {
      const uint64_t held = of_others[i].held;
      shares.bytes[others[i]] = std::max(divided[i], held);
      if (held > divided[i]) {
        kept = SumOf(kept, held);
      } else {
        rest.push_back(others[i]);
      }
    }
    if (rest.size() == others.size()) return shares;
    shares.settled = false;
    bytes -= std::min(bytes, kept);
    others = std::move(rest);
  }
}

}  // namespace longstream
