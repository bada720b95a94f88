// Reads the memory policies of this process from the system.
#include "tests/kernels/core/memory_policy.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <iostream>

#include "kernels/core/memory_nodes.h"

namespace longstream {

MemoryPolicy PolicyAt(const void* address) {
  constexpr unsigned long kNodes = 1024;
  constexpr size_t kWordBits = 64;
  std::array<unsigned long, kNodes / kWordBits> mask = {};
  MemoryPolicy policy;
  if (syscall(SYS_get_mempolicy, &policy.mode, mask.data(), kNodes + 1, address,
              static_cast<unsigned long>(MPOL_F_ADDR)) != 0) {
    policy.mode = -errno;
    return policy;
  }
  for (size_t node = 0; node < kNodes; ++node) {
    if ((mask[node / kWordBits] >> node % kWordBits & 1) == 0) continue;
    policy.nodes.push_back(static_cast<int>(node));
  }
  return policy;
}

std::vector<int> NodesForTest() {
  std::vector<int> nodes = NodesOfProcess("/sys/devices/system/node", "/proc/self/status");
  if (nodes.empty()) nodes.push_back(0);
  return nodes;
}

bool MayChoosePolicy(const std::vector<int>& nodes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* data = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool may = Interleave(data, page, nodes);
  munmap(data, page);
  std::cout << "[          ] " << nodes.size() << " node(s), policies "
            << (may ? "kept" : "refused by the system") << "\n";
  return may;
}

}  // namespace longstream
