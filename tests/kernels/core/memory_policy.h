// Which nodes of a machine the memory at an address will come from.
#ifndef LONGSTREAM_TESTS_KERNELS_CORE_MEMORY_POLICY_H_
#define LONGSTREAM_TESTS_KERNELS_CORE_MEMORY_POLICY_H_

#include <vector>

namespace longstream {

// Of pages that are not there yet.
struct MemoryPolicy {
  int mode = 0;  // MPOL_* of <linux/mempolicy.h>; negative: an error number
  std::vector<int> nodes;
  bool operator==(const MemoryPolicy&) const = default;
};

MemoryPolicy PolicyAt(const void* address);

// Nodes to spread memory over, the first of the machine at least, so that a machine of one node
// shows the policy too.
std::vector<int> NodesForTest();

// Whether the system lets this process choose. Says on standard output what is checked: that memory
// is spread, or that it is left as it is.
bool MayChoosePolicy(const std::vector<int>& nodes);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_CORE_MEMORY_POLICY_H_
