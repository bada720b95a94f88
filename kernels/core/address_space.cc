// Reads the limit and the size of the process.
#include "kernels/core/address_space.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace longstream {

uint64_t ReservableBytes(uint64_t limit, uint64_t used) {
  constexpr uint64_t kRoom = uint64_t{1} << 30;
  if (limit == RLIM_INFINITY) return std::numeric_limits<uint64_t>::max();
  const uint64_t left = limit - std::min(limit, used);
  return left - std::min(left / 2, kRoom);
}

uint64_t ReservableBytes() {
  rlimit limit{};
  uint64_t pages = 0;
  if (getrlimit(RLIMIT_AS, &limit) != 0) limit.rlim_cur = RLIM_INFINITY;
  // If the size cannot be read, nothing counts as used.
  std::ifstream("/proc/self/statm") >> pages;
  return ReservableBytes(limit.rlim_cur, pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace longstream
