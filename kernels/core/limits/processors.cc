// Counts processors, as far as affinity and quota allow them.
#include "kernels/core/limits/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "kernels/core/limits/control_groups.h"

namespace longstream {
namespace {

// The number of processors on which the calling thread may run.
uint32_t AllowedProcessors() {
  // The mask must have a bit for each processor that the system could have, or the call fails.
  constexpr size_t kMostProcessors = size_t{1} << 20;
  for (size_t processors = CPU_SETSIZE; processors <= kMostProcessors; processors *= 2) {
    std::vector<cpu_set_t> mask(processors / CPU_SETSIZE);
    const size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) == 0) {
      return static_cast<uint32_t>(CPU_COUNT_S(bytes, mask.data()));
    }
  }
  return std::thread::hardware_concurrency();
}

}  // namespace

uint32_t ThreadsFor(uint32_t processors, double quota) {
  const double threads = std::min(static_cast<double>(processors), std::floor(quota));
  return static_cast<uint32_t>(std::max(1.0, threads));
}

uint32_t UsableProcessors() {
  return ThreadsFor(AllowedProcessors(), ControlGroups().ProcessorQuota());
}

double ProcessorLimit() {
  return std::min(static_cast<double>(AllowedProcessors()), ControlGroups().ProcessorQuota());
}

}  // namespace longstream
