// The machine's memory and the limits of control groups.
#include "kernels/core/physical_memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include "kernels/core/limits/control_groups.h"
#include "kernels/core/limits/numbered_lines.h"

namespace longstream {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

uint64_t PageBytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

uint64_t MachineLeft(const std::string& meminfo) {
  constexpr std::array<std::string_view, 2> kWords = {"MemAvailable:", "SwapFree:"};
  const std::optional<uint64_t> kib = SumOfNumbers(meminfo, kWords);
  return kib ? *kib * 1024 : kUnlimited;
}

uint64_t PhysicalMemory() {
  const uint64_t machine = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * PageBytes();
  return std::min(machine, ControlGroups().MemoryLimit());
}

uint64_t AvailableMemory() {
  return std::min(MachineLeft("/proc/meminfo"), ControlGroups().MemoryLeft());
}

uint64_t AnonymousMemory() {
  uint64_t size = 0, resident = 0, of_files = 0;  // in pages
  if (!(std::ifstream("/proc/self/statm") >> size >> resident >> of_files)) return 0;
  return (resident - std::min(resident, of_files)) * PageBytes();
}

}  // namespace longstream
