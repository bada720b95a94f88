// The current read bandwidth of memory: the yardstick for measurements that memory limits.
#ifndef LONGSTREAM_TESTS_BENCH_READ_BANDWIDTH_H_
#define LONGSTREAM_TESTS_BENCH_READ_BANDWIDTH_H_

#include <cstddef>
#include <memory>
#include <new>

#include "kernels/core/executor.h"
#include "tests/bench/probe.h"

namespace longstream {

// The probe of the instruction set that the ops use on this machine.
Probe DeviceProbe();

// Uninitialised memory, in huge pages if the machine has them, like weights and caches.
inline constexpr size_t kHugePage = size_t{2} << 20;
struct MemoryDeleter {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{kHugePage}); }
};
using Memory = std::unique_ptr<std::byte, MemoryDeleter>;
Memory Allocate(size_t bytes);

// The size of memory that is too large for any processor cache.
inline constexpr size_t kProbeBytes = size_t{512} << 20;

class ReadBandwidth {
 public:
  // `executor`, whose threads read, must outlive this. `bytes`: a multiple of 256 KiB.
  explicit ReadBandwidth(const Executor& executor, size_t bytes = kProbeBytes);

  // Reads the whole memory once.
  void Read() const;
  size_t bytes() const { return bytes_; }
  // Returns bytes per second, the median of three passes. The passes take some 30 ms.
  double Measure() const;

 private:
  const Executor executor_;
  const Probe probe_;
  const size_t bytes_;
  const Memory memory_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_READ_BANDWIDTH_H_
