// Counts the entries of /proc/self and asks malloc for its counts.
#include "tests/conformance/process_usage.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

namespace longstream::conformance {
namespace {

int64_t CountEntries(const char* directory) {
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

bool IsFlat(const ProcessUsage& growth) {
  return growth.file_descriptors <= 0 && growth.threads <= 0 && growth.mappings <= 0 &&
         growth.address_bytes <= 0 && growth.resident_bytes <= 0 && growth.heap_bytes <= 0;
}

}  // namespace

ProcessUsage MeasureProcess() {
  ProcessUsage usage;
  usage.heap_bytes = HeapBytes();  // measured first, because the code below allocates too
  usage.file_descriptors = CountEntries("/proc/self/fd");
  usage.threads = CountEntries("/proc/self/task");
  std::string line;
  for (std::ifstream maps("/proc/self/maps"); std::getline(maps, line);) ++usage.mappings;
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  usage.address_bytes = total_pages * sysconf(_SC_PAGESIZE);
  usage.resident_bytes = resident_pages * sysconf(_SC_PAGESIZE);
  return usage;
}

bool CanMeasureHeap() {
  const int64_t before = HeapBytes();
  void* block = std::malloc(100000);
  static_cast<volatile char*>(block)[0] = 1;
  const int64_t after = HeapBytes();
  std::free(block);
  return after >= before + 100000;
}

ProcessUsage MeasureGrowth(int rounds, const std::function<void()>& round) {
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  ProcessUsage growth = {kUnknown, kUnknown, kUnknown, kUnknown, kUnknown, kUnknown};
  for (int i = 0; i < 5; ++i) round();
  constexpr int kMostSpans = 10;
  for (int span = 0; span < kMostSpans && !IsFlat(growth); ++span) {
    const ProcessUsage before = MeasureProcess();
    for (int i = 0; i < rounds; ++i) round();
    const ProcessUsage after = MeasureProcess();
    const auto keep_least = [&](int64_t ProcessUsage::*quantity) {
      growth.*quantity = std::min(growth.*quantity, after.*quantity - before.*quantity);
    };
    keep_least(&ProcessUsage::file_descriptors);
    keep_least(&ProcessUsage::threads);
    keep_least(&ProcessUsage::mappings);
    keep_least(&ProcessUsage::address_bytes);
    keep_least(&ProcessUsage::resident_bytes);
    keep_least(&ProcessUsage::heap_bytes);
  }
  return growth;
}

bool IsMapped(const std::string& path) {
  const std::string absolute = std::filesystem::canonical(path).string();
  std::string line;
  for (std::ifstream maps("/proc/self/maps"); std::getline(maps, line);) {
    if (line.find(absolute) != std::string::npos) return true;
  }
  return false;
}

}  // namespace longstream::conformance
