// How fast memory is read at this moment: what a measurement is held against that memory limits.
#ifndef LONGSTREAM_TESTS_BENCH_READ_BANDWIDTH_H_
#define LONGSTREAM_TESTS_BENCH_READ_BANDWIDTH_H_

#include <cstddef>
#include <memory>
#include <new>

#include "kernels/core/executor.h"
#include "tests/bench/probe.h"

namespace longstream {

// Of the instruction set that the ops use here.
Probe DeviceProbe();

// Uninitialised memory, in huge pages where the machine has them, as weights and caches are.
inline constexpr size_t kHugePage = size_t{2} << 20;
struct MemoryDeleter {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{kHugePage}); }
};
using Memory = std::unique_ptr<std::byte, MemoryDeleter>;
Memory Allocate(size_t bytes);

// Memory that no cache holds.
inline constexpr size_t kProbeBytes = size_t{512} << 20;

class ReadBandwidth {
 public:
  // `executor`, whose threads read, must outlive it. `bytes`: a multiple of 256 KiB.
  explicit ReadBandwidth(const Executor& executor, size_t bytes = kProbeBytes);

  // One pass over the memory.
  void Read() const;
  size_t bytes() const { return bytes_; }
  // Bytes per second, the median of three passes: some 30 ms.
  double Measure() const;

 private:
  const Executor executor_;
  const Probe probe_;
  const size_t bytes_;
  const Memory memory_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_READ_BANDWIDTH_H_
