// The host's memory: how much there is, and how much is left.
#ifndef LONGSTREAM_KERNELS_CORE_PHYSICAL_MEMORY_H_
#define LONGSTREAM_KERNELS_CORE_PHYSICAL_MEMORY_H_

#include <cstdint>
#include <string>

namespace longstream {

// Bytes of memory that this process may use: the machine's, or the limit of its control group
// (cgroup v2, as containers set it) if that is less.
uint64_t PhysicalMemory();

// Bytes of these that are available, including swap and the file cache that the system would give
// up. Not a promise: other processes may take them.
uint64_t AvailableMemory();

// The least memory.max of a control group and its parents. own_groups: a file like
// /proc/self/cgroup; mount: where cgroup v2 is mounted. UINT64_MAX: no limit, or a file cannot be
// read.
uint64_t ControlGroupLimit(const std::string& own_groups, const std::string& mount);
// The least of limit minus use over these groups. UINT64_MAX: no limit.
uint64_t ControlGroupLeft(const std::string& own_groups, const std::string& mount);

// MemAvailable + SwapFree of a file like /proc/meminfo, in bytes. UINT64_MAX: it has neither.
uint64_t MachineLeft(const std::string& meminfo);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_PHYSICAL_MEMORY_H_
