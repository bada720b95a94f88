// The processors that this process may use.
#ifndef LONGSTREAM_KERNELS_CORE_LIMITS_PROCESSORS_H_
#define LONGSTREAM_KERNELS_CORE_LIMITS_PROCESSORS_H_

#include <cstdint>

namespace longstream {

// The number of threads that may compute at the same time on `processors` processors with this
// quota (ControlGroups::ProcessorQuota): at least 1. A quota is rounded down. If more threads
// compute than the quota pays for, the system stops all of them for the rest of a period (100 ms),
// and every stream with them.
uint32_t ThreadsFor(uint32_t processors, double quota);

// ThreadsFor the processors on which the calling thread may run (taskset, a cpuset) and the quota
// of the process's control groups.
uint32_t UsableProcessors();

// The processor time per second that the process may use, in seconds: the number of processors on
// which the calling thread may run, or the quota if it is less.
double ProcessorLimit();

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_LIMITS_PROCESSORS_H_
