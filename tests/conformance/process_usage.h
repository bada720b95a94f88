// The resources that this process holds, as the kernel and the allocator count them.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_PROCESS_USAGE_H_
#define LONGSTREAM_TESTS_CONFORMANCE_PROCESS_USAGE_H_

#include <cstdint>
#include <functional>
#include <string>

namespace longstream::conformance {

struct ProcessUsage {
  int64_t file_descriptors = 0;
  int64_t threads = 0;
  int64_t mappings = 0;       // lines of /proc/self/maps, which joins neighbours of one kind
  int64_t address_bytes = 0;  // of all mappings, written to or not
  int64_t resident_bytes = 0;
  int64_t heap_bytes = 0;  // allocated by malloc and not freed
};

ProcessUsage MeasureProcess();

// False if a sanitizer has replaced the allocator: then the heap's size means nothing, and memory
// is not returned at once.
bool CanMeasureHeap();

// Measures the growth over `rounds` calls of round(). First lets round() make what it makes only
// once. Then measures several times and returns the smallest growth of each quantity: every
// measurement contains a leak, but not every one contains growth of the allocator's caches per
// thread, which fill up slowly and count as allocated.
ProcessUsage MeasureGrowth(int rounds, const std::function<void()>& round);

// Whether the file is mapped into this process.
bool IsMapped(const std::string& path);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_PROCESS_USAGE_H_
