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
  int64_t mappings = 0;  // lines of /proc/self/maps; the kernel joins adjacent mappings of one kind
  int64_t address_bytes = 0;  // the size of all mappings, even if nothing was written to them
  int64_t resident_bytes = 0;
  int64_t heap_bytes = 0;  // allocated by malloc and not freed
};

ProcessUsage MeasureProcess();

// False if a sanitizer has replaced the allocator. Then the heap's size means nothing, and freed
// memory is not returned at once.
bool CanMeasureHeap();

// Measures the growth over `rounds` calls of round(). First calls round() so that it allocates
// everything that it allocates only once. Then measures several times and returns the smallest
// growth of each quantity. A leak occurs in every measurement. The allocator's caches per thread
// fill up slowly and count as allocated, but they do not grow in every measurement.
ProcessUsage MeasureGrowth(int rounds, const std::function<void()>& round);

// Whether the file is mapped into this process.
bool IsMapped(const std::string& path);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_PROCESS_USAGE_H_
