// The machine's memory and the limits of control groups.
#include "backends/common/cache/physical_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

namespace longstream {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// The path of the process's group: the line "0::<path>". Other lines are of cgroup v1.
std::string OwnGroup(const std::string& own_groups) {
  constexpr std::string_view kPrefix = "0::";
  std::ifstream file(own_groups);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kPrefix)) return line.substr(kPrefix.size());
  }
  return "/";
}

// A number, or "max".
uint64_t ReadLimit(const std::string& file) {
  uint64_t limit = kUnlimited;
  return std::ifstream(file) >> limit ? limit : kUnlimited;
}

}  // namespace

uint64_t ControlGroupLimit(const std::string& own_groups, const std::string& mount) {
  uint64_t limit = kUnlimited;
  std::string group = OwnGroup(own_groups);
  while (true) {
    if (group.ends_with('/')) group.pop_back();
    limit = std::min(limit, ReadLimit(mount + group + "/memory.max"));
    if (group.empty()) return limit;
    group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

uint64_t PhysicalMemory() {
  const uint64_t machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(machine, ControlGroupLimit("/proc/self/cgroup", "/sys/fs/cgroup"));
}

}  // namespace longstream
