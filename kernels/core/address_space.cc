// Reads the limit and the size of the process.
#include "kernels/core/address_space.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace longstream {

static_assert(RLIM_INFINITY == std::numeric_limits<uint64_t>::max());

uint64_t AddressSpaceLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

uint64_t ReservableBytes(uint64_t limit, uint64_t used) {
  constexpr uint64_t kMostRoom = uint64_t{512} << 20;
  constexpr uint64_t kMostForLater = uint64_t{512} << 20;
  if (limit == RLIM_INFINITY) return std::numeric_limits<uint64_t>::max();
  const uint64_t usable = limit - std::min(limit / 4, kMostRoom);
  const uint64_t left = usable - std::min(usable, used);
  return left - std::min(left / 2, kMostForLater);
}

uint64_t ReservableBytes() {
  uint64_t pages = 0;
  // If the size cannot be read, nothing counts as used.
  std::ifstream("/proc/self/statm") >> pages;
  return ReservableBytes(AddressSpaceLimit(), pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace longstream
