// Tells on which nodes of the machine the page at an address will be allocated.
#ifndef LONGSTREAM_TESTS_KERNELS_CORE_MEMORY_POLICY_H_
#define LONGSTREAM_TESTS_KERNELS_CORE_MEMORY_POLICY_H_

#include <vector>

namespace longstream {

// A policy for pages that are not allocated yet.
struct MemoryPolicy {
  int mode = 0;  // MPOL_* of <linux/mempolicy.h>; negative: an error number
  std::vector<int> nodes;
  bool operator==(const MemoryPolicy&) const = default;
};

MemoryPolicy PolicyAt(const void* address);

// The nodes of this machine over which memory can be spread. If there are none, the result is the
// first node, so that a machine of one node shows the policy too.
std::vector<int> NodesForTest();

// Whether the system lets this process set memory policies. Prints what the test then checks: that
// memory is spread, or that it keeps its policy.
bool MayChoosePolicy(const std::vector<int>& nodes);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_CORE_MEMORY_POLICY_H_
