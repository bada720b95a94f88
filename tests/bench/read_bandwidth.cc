// Reads memory on all threads of an executor.
#include "tests/bench/read_bandwidth.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/ops/op_table.h"
#include "tests/bench/timing.h"

namespace longstream {

Probe DeviceProbe() {
  const std::string_view isa = DeviceOps().name;
  if (isa == "avx512" || isa == "amx") return cpu::avx512::GetProbe();
  if (isa == "avx512_f32") return cpu::avx512_f32::GetProbe();
  if (isa == "avx2") return cpu::avx2::GetProbe();
  return cpu::baseline::GetProbe();
}

Memory Allocate(size_t bytes) {
  void* data = ::operator new (bytes, std::align_val_t{kHugePage});
  madvise(data, bytes, MADV_HUGEPAGE);
  return Memory(static_cast<std::byte*>(data));
}

ReadBandwidth::ReadBandwidth(const Executor& executor, size_t bytes)
    : executor_(executor), probe_(DeviceProbe()), bytes_(bytes), memory_(Allocate(bytes)) {
  std::memset(memory_.get(), 0, bytes);
}

void ReadBandwidth::Read() const {
  constexpr uint32_t kTasks = 256;
  const size_t task_bytes = bytes_ / kTasks;
  ParallelFor(executor_, kTasks, [&](uint32_t i) {
    const float sum = probe_.read(memory_.get() + i * task_bytes, task_bytes);
    asm volatile("" : : "x"(sum));  // else the compiler removes the read
  });
}

double ReadBandwidth::Measure() const {
  std::vector<double> passes(3);
  for (double& seconds : passes) seconds = SecondsOf([this] { Read(); });
  return static_cast<double>(bytes_) / Median(std::move(passes));
}

}  // namespace longstream
