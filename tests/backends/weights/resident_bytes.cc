// How much of a file is in this process's memory.
#include "tests/backends/weights/resident_bytes.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace longstream {
namespace {

constexpr uint64_t kKiB = 1024;

}  // namespace

uint64_t ResidentBytesOf(std::string_view path) {
  std::ifstream maps("/proc/self/smaps");
  uint64_t resident = 0;
  bool is_of_file = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (!first.ends_with(':')) {
      is_of_file = line.ends_with(path);
    } else if (is_of_file && first == "Rss:") {
      uint64_t kib = 0;
      words >> kib;
      resident += kib * kKiB;
    }
  }
  return resident;
}

uint64_t StatusBytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kib = 0;
    if (word == std::string(name) + ":" && status >> kib) return kib * kKiB;
  }
  throw std::runtime_error("/proc/self/status has no " + std::string(name));
}

}  // namespace longstream
