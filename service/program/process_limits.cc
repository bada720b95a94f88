// Limits malloc's arenas and what they keep, and tries whether threads can be started.
#include "service/program/process_limits.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <latch>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "kernels/core/address_space.h"

namespace longstream {

void LimitArenas() {
  const uint64_t limit = AddressSpaceLimit();
  if (limit == std::numeric_limits<uint64_t>::max()) return;
  const uint64_t usual = 8 * std::max(1u, std::thread::hardware_concurrency());
  mallopt(M_ARENA_MAX, static_cast<int>(std::clamp<uint64_t>(limit >> 30, 1, usual)));
}

void FixHeapThresholds() {
  constexpr int kBytes = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, kBytes);
  mallopt(M_TRIM_THRESHOLD, kBytes);
}

void TryThreads(size_t count) {
  // For what gRPC and the server allocate until the server listens.
  constexpr size_t kRoom = 32 << 20;
  void* const room =
      mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  const absl::Cleanup give_back = [room] { munmap(room, kRoom); };
  // Locks of Abseil allocate memory for each thread, and end the program if there is none.
  std::latch end(1);
  std::vector<std::jthread> threads;
  const absl::Cleanup release = [&end] { end.count_down(); };
  threads.reserve(count);
  while (threads.size() < count) {
    threads.emplace_back([&end] { end.wait(); });
  }
}

}  // namespace longstream
