// Goes from the end to the beginning, and leaves out a place if its neighbours are close together.
#include "service/engine/policy/thin_places.h"

namespace longstream {

std::vector<size_t> ThinPlaces(std::vector<uint64_t> positions) {
  constexpr size_t kLast = 4;
  std::vector<size_t> dropped;
  if (positions.size() <= kLast) return dropped;
  const uint64_t end = positions.back();
  for (size_t i = positions.size() - kLast; i-- > 1;) {
    const uint64_t before = end - positions[i - 1];
    const uint64_t after = end - positions[i + 1];
    if (before >= 2 * after) continue;
    positions.erase(positions.begin() + static_cast<std::ptrdiff_t>(i));
    dropped.push_back(i);
  }
  return dropped;
}

}  // namespace longstream
