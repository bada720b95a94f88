// The host's memory: how much there is, and how much is left.
#ifndef LONGSTREAM_KERNELS_CORE_PHYSICAL_MEMORY_H_
#define LONGSTREAM_KERNELS_CORE_PHYSICAL_MEMORY_H_

#include <cstdint>
#include <string>

namespace longstream {

// Bytes of memory that this process may use: the memory of the machine or, if it is less, the limit
// of the process's control group (cgroup v2, as containers set it).
uint64_t PhysicalMemory();

// Bytes of PhysicalMemory() that are available. Swap counts, and so does the file cache that the
// system would give up. Other processes may take these bytes at any time.
uint64_t AvailableMemory();

// The least memory.max of a control group and its parents; UINT64_MAX if there is no limit or a
// file cannot be read. own_groups: a file like /proc/self/cgroup; mount: where cgroup v2 is
// mounted.
uint64_t ControlGroupLimit(const std::string& own_groups, const std::string& mount);
// The least number of bytes that a control group or one of its parents may still use: its limit
// minus its use. UINT64_MAX: none of them has a limit.
uint64_t ControlGroupLeft(const std::string& own_groups, const std::string& mount);

// MemAvailable + SwapFree of a file like /proc/meminfo, in bytes. UINT64_MAX: the file has neither.
uint64_t MachineLeft(const std::string& meminfo);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_PHYSICAL_MEMORY_H_
