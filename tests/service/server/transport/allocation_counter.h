// Counts the bytes that the process has allocated. Link allocation_counter.cc into the program: it
// replaces malloc and free.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_ALLOCATION_COUNTER_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace longstream {

// The usable bytes of all blocks that exist.
int64_t AllocatedBytes();

// The highest AllocatedBytes() since the last ResetPeak.
int64_t PeakAllocatedBytes();
void ResetPeak();

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_ALLOCATION_COUNTER_H_
