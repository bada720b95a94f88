// What this process holds of the machine, as the kernel and the allocator count it.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_PROCESS_USAGE_H_
#define LONGSTREAM_TESTS_CONFORMANCE_PROCESS_USAGE_H_

#include <cstdint>
#include <functional>
#include <string>

namespace longstream::conformance {

struct ProcessUsage {
  int64_t file_descriptors = 0;
  int64_t threads = 0;
  int64_t mappings = 0;       // lines of /proc/self/maps: neighbours of one kind are one
  int64_t address_bytes = 0;  // of all mappings, whether anything was written there or not
  int64_t resident_bytes = 0;
  int64_t heap_bytes = 0;  // handed out by malloc and not freed
};

ProcessUsage MeasureProcess();

// False where the allocator has been replaced (by a sanitizer), so that the heap's size says
// nothing and memory is not given back at once.
bool CanMeasureHeap();

// What `rounds` calls of round() leave behind, once what is made only once has been made: of
// several measurements the smallest, for each quantity. A leak is in all of them; what the
// allocator keeps for later (its caches per thread fill up by and by, and count as handed out) is
// not.
ProcessUsage MeasureGrowth(int rounds, const std::function<void()>& round);

// Whether the file is mapped into this process.
bool IsMapped(const std::string& path);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_PROCESS_USAGE_H_
