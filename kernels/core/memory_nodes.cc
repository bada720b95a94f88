// The nodes of a machine's memory. The system calls are made directly, because libnuma would only
// wrap them.
#include "kernels/core/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>

namespace longstream {
namespace {

constexpr size_t kMaxNodes = 1024;  // the most that Linux can have
constexpr size_t kWordBits = 8 * sizeof(unsigned long);
using NodeMask = std::array<unsigned long, kMaxNodes / kWordBits>;

// Reads the list of numbers that follows `name` in the first line that begins with it. Without a
// name, reads the file's first line.
std::vector<int> ReadList(const std::string& path, std::string_view name = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::string_view list = line;
    list.remove_prefix(name.size());
    return ParseNumberList(list.substr(std::min(list.find_first_not_of(" \t"), list.size())))
        .value_or(std::vector<int>());
  }
  return {};
}

std::vector<int> Common(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  return common;
}

// Whether the program that started this process (such as numactl) has chosen a memory policy for
// it.
bool HasPolicy() {
  int mode = MPOL_DEFAULT;
  return syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, nullptr, 0UL) == 0 && mode != MPOL_DEFAULT;
}

}  // namespace

std::optional<std::vector<int>> ParseNumberList(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\n");
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  const auto read = [&](int* number) {
    const auto [behind, error] = std::from_chars(at, end, *number);
    at = behind;
    return error == std::errc() && *number >= 0 && *number < 1 << 20;
  };
  while (at != end) {
    int first = 0;
    if (!read(&first)) return std::nullopt;
    int behind = first;
    if (at != end && *at == '-') {
      ++at;
      if (!read(&behind)) return std::nullopt;
    }
    if (behind < first || (!numbers.empty() && first <= numbers.back())) return std::nullopt;
    for (int number = first; number <= behind; ++number) numbers.push_back(number);
    if (at == end) break;
    if (*at != ',' || at + 1 == end) return std::nullopt;
    ++at;
  }
  return numbers;
}

std::vector<int> NodesOfProcess(const std::string& nodes_directory,
                                const std::string& status_file) {
  std::vector<int> nodes = Common(ReadList(nodes_directory + "/has_memory"),
                                  ReadList(status_file, "Mems_allowed_list:"));
  const std::vector<int> processors = ReadList(status_file, "Cpus_allowed_list:");
  std::erase_if(nodes, [&](int node) {
    return Common(ReadList(nodes_directory + "/node" + std::to_string(node) + "/cpulist"),
                  processors)
        .empty();
  });
  return nodes;
}

const std::vector<int>& NodesToSpreadOver() {
  static const std::vector<int> nodes = [] {
    std::vector<int> of_process = NodesOfProcess("/sys/devices/system/node", "/proc/self/status");
    if (of_process.size() < 2 || HasPolicy()) of_process.clear();
    return of_process;
  }();
  return nodes;
}

bool Interleave(void* data, size_t size, const std::vector<int>& nodes) {
  if (nodes.empty()) return true;
  NodeMask mask = {};
  for (const int node : nodes) {
    const auto bit = static_cast<size_t>(node);
    if (bit >= kMaxNodes) return false;
    mask[bit / kWordBits] |= 1UL << bit % kWordBits;
  }
  // The system reads one bit less than the number of bits that it is given.
  return syscall(SYS_mbind, data, size, static_cast<unsigned long>(MPOL_INTERLEAVE), mask.data(),
                 kMaxNodes + 1, 0UL) == 0;
}

}  // namespace longstream
