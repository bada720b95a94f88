// How much memory there is for stores that grow until a budget stops them.
#ifndef LONGSTREAM_BACKENDS_COMMON_CACHE_PHYSICAL_MEMORY_H_
#define LONGSTREAM_BACKENDS_COMMON_CACHE_PHYSICAL_MEMORY_H_

#include <cstdint>
#include <string>

namespace longstream {

// Bytes of memory that this process may use: the machine's, or the limit of the process's control
// group (cgroup v2, as containers set it) where that is less.
uint64_t PhysicalMemory();

// The least memory.max of a control group and the groups that it is in. `own_groups` is a file like
// /proc/self/cgroup, `mount` where cgroup v2 is mounted. UINT64_MAX where nothing is limited, which
// is what a file that cannot be read means.
uint64_t ControlGroupLimit(const std::string& own_groups, const std::string& mount);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_COMMON_CACHE_PHYSICAL_MEMORY_H_
