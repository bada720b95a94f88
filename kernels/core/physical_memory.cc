// The machine's memory and the limits of control groups.
#include "kernels/core/physical_memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>

namespace longstream {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr const char* kOwnGroups = "/proc/self/cgroup";
constexpr const char* kMount = "/sys/fs/cgroup";

// The path of the process's control group, which is in the line "0::<path>". Other lines are of
// cgroup v1.
std::string OwnGroup(const std::string& own_groups) {
  constexpr std::string_view kPrefix = "0::";
  std::ifstream file(own_groups);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kPrefix)) return line.substr(kPrefix.size());
  }
  return "/";
}

// Reads a file that holds a number or "max", which means no limit.
uint64_t ReadLimit(const std::string& file) {
  uint64_t limit = kUnlimited;
  return std::ifstream(file) >> limit ? limit : kUnlimited;
}

// Adds the numbers of the lines that begin with one of these words. nullopt: there is no such line.
std::optional<uint64_t> SumOf(const std::string& file, std::span<const std::string_view> words) {
  std::ifstream lines(file);
  std::optional<uint64_t> sum;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream text(line);
    std::string word;
    uint64_t number = 0;
    if (!(text >> word >> number)) continue;
    if (std::find(words.begin(), words.end(), word) == words.end()) continue;
    sum = sum.value_or(0) + number;
  }
  return sum;
}

// Bytes that a control group could still use. Its files are in `folder`.
uint64_t LeftIn(const std::string& folder) {
  constexpr std::array<std::string_view, 2> kFiles = {"active_file", "inactive_file"};
  const uint64_t limit = ReadLimit(folder + "/memory.max");
  uint64_t used = 0;
  if (limit == kUnlimited || !(std::ifstream(folder + "/memory.current") >> used)) return limit;
  used -= std::min(used, SumOf(folder + "/memory.stat", kFiles).value_or(0));
  return limit - std::min(limit, used);
}

// Calls of_group with the folder of a group and with those of all its parents. Returns the least
// result.
template <typename OfGroup>
uint64_t LeastOfGroups(const std::string& own_groups, const std::string& mount,
                       const OfGroup& of_group) {
  uint64_t least = kUnlimited;
  std::string group = OwnGroup(own_groups);
  while (true) {
    if (group.ends_with('/')) group.pop_back();
    least = std::min(least, of_group(mount + group));
    if (group.empty()) return least;
    group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

uint64_t ControlGroupLimit(const std::string& own_groups, const std::string& mount) {
  return LeastOfGroups(own_groups, mount,
                       [](const std::string& folder) { return ReadLimit(folder + "/memory.max"); });
}

uint64_t ControlGroupLeft(const std::string& own_groups, const std::string& mount) {
  return LeastOfGroups(own_groups, mount, LeftIn);
}

uint64_t MachineLeft(const std::string& meminfo) {
  constexpr std::array<std::string_view, 2> kWords = {"MemAvailable:", "SwapFree:"};
  const std::optional<uint64_t> kib = SumOf(meminfo, kWords);
  return kib ? *kib * 1024 : kUnlimited;
}

uint64_t PhysicalMemory() {
  const uint64_t machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(machine, ControlGroupLimit(kOwnGroups, kMount));
}

uint64_t AvailableMemory() {
  return std::min(MachineLeft("/proc/meminfo"), ControlGroupLeft(kOwnGroups, kMount));
}

}  // namespace longstream
