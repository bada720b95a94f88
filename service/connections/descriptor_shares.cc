// Divides the descriptors of the process.
#include "service/connections/descriptor_shares.h"

#include <sys/resource.h>

#include <algorithm>

namespace longstream {
namespace {

constexpr uint64_t kOwnFiles = 128;
// The default limit. Containers may allow a process a thousand million descriptors. That says
// nothing about the memory for as many connections.
constexpr uint64_t kDefaultConnections = 10000;

}  // namespace

uint64_t DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

DescriptorShares ShareDescriptors(uint64_t limit) {
  const uint64_t own = std::min(kOwnFiles, limit / 2);
  return {.calls = std::max<size_t>(limit - own, 1), .scrapes = std::max<size_t>(own / 4, 1)};
}

size_t MaxConnections(uint64_t configured, uint64_t limit) {
  const uint64_t wanted = configured == 0 ? kDefaultConnections : configured;
  return std::min<size_t>(wanted, ShareDescriptors(limit).calls);
}

}  // namespace longstream
