// Goes from the last span to the first.
#include "service/engine/policy/join_spans.h"

namespace longstream {

size_t SpansToKeep(std::span<const uint64_t> ends, uint64_t end, size_t most) {
  if (ends.size() < most) return ends.size();
  size_t kept = ends.size() - 1;
  const auto is_short = [&](size_t last) {
    const uint64_t begin = last > 0 ? ends[last - 1] : 0;
    return ends[last] - begin <= end - ends[last];
  };
  while (kept > 0 && is_short(kept - 1)) --kept;
  return kept;
}

}  // namespace longstream
