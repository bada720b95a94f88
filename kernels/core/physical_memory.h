// How much memory the host has, and how much of it is left.
#ifndef LONGSTREAM_KERNELS_CORE_PHYSICAL_MEMORY_H_
#define LONGSTREAM_KERNELS_CORE_PHYSICAL_MEMORY_H_

#include <cstdint>
#include <string>

namespace longstream {

// Bytes of memory that this process may use: the machine's, or the limit of the process's control
// group (cgroup v2, as containers set it) where that is less.
uint64_t PhysicalMemory();

// Of these, bytes that could still be had: swap and what the system would give up of its cache of
// files among them. What other processes do next is not known, so that it is no promise.
uint64_t AvailableMemory();

// The least memory.max of a control group and the groups that it is in. `own_groups` is a file like
// /proc/self/cgroup, `mount` where cgroup v2 is mounted. UINT64_MAX where nothing is limited, which
// is what a file that cannot be read means.
uint64_t ControlGroupLimit(const std::string& own_groups, const std::string& mount);
// The least that such a group's limit leaves beside what is used in it.
uint64_t ControlGroupLeft(const std::string& own_groups, const std::string& mount);

// MemAvailable and SwapFree of a file like /proc/meminfo, in bytes; UINT64_MAX where it has
// neither.
uint64_t MachineLeft(const std::string& meminfo);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_PHYSICAL_MEMORY_H_
