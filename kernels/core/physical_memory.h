// The host's memory: how much there is, and how much is left.
#ifndef LONGSTREAM_KERNELS_CORE_PHYSICAL_MEMORY_H_
#define LONGSTREAM_KERNELS_CORE_PHYSICAL_MEMORY_H_

#include <cstdint>
#include <string>

namespace longstream {

// Bytes of memory that this process may use: the memory of the machine or, if it is less, the limit
// of the process's control groups (limits/control_groups.h).
uint64_t PhysicalMemory();

// Bytes of PhysicalMemory() that are available. Swap counts, and so does the file cache that the
// system would give up. Other processes may take these bytes at any time.
uint64_t AvailableMemory();

// Bytes that this process holds now, without pages of files, which the system can give up.
uint64_t AnonymousMemory();

// MemAvailable + SwapFree of a file like /proc/meminfo, in bytes. UINT64_MAX: the file has neither.
uint64_t MachineLeft(const std::string& meminfo);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_PHYSICAL_MEMORY_H_
