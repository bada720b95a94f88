// How much of a file is in this process's memory.
#ifndef LONGSTREAM_TESTS_BACKENDS_WEIGHTS_RESIDENT_BYTES_H_
#define LONGSTREAM_TESTS_BACKENDS_WEIGHTS_RESIDENT_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace longstream {

// Bytes of the mappings of the file of this path that are resident, by a walk of the page tables.
uint64_t ResidentBytesOf(std::string_view path);

// A line of /proc/self/status in kB, "VmHWM" say, in bytes.
uint64_t StatusBytes(std::string_view name);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_WEIGHTS_RESIDENT_BYTES_H_
