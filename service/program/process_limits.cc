// Limits malloc's arenas and what they keep, and tries whether threads can be started.
#include "service/program/process_limits.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <latch>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "kernels/core/address_space.h"
#include "service/program/http/server_http.h"

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

size_t NeededThreads(const ServerConfig& config) {
  // As gRPC counts processors, with those that this process may not use.
  const auto processors = static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  const size_t of_executors = 4 * processors;  // two executors
  const size_t of_calls = std::clamp<size_t>(processors / 2, 2, 16);
  const size_t of_events = std::clamp<size_t>(processors, 2, 32);
  constexpr size_t kOfOthers = 8;  // timers, and calls of the standard services
  const size_t of_grpc = of_executors + of_calls + of_events + kOfOthers;
  constexpr size_t kOfPorts = 3;  // they accept connections for gRPC, metrics and the cluster
  const size_t of_http = ServerHttp::MostThreads(config.http);
  // Loading, expiry of sessions, timers, long texts, the store and reads of it, snapshots, the
  // meter of the load, certificates, costs of models, operations of operators and their port, and
  // shadows.
  constexpr size_t kOwn = 23;
  // Engines of models that operators load. If there are more, a load may be RESOURCE_EXHAUSTED.
  const size_t of_operators = config.admin_listen.empty() ? 0 : 16;
  // The driver, the lease, reads of rows, caches that come and go, calls of peers, and aliases.
  const size_t of_fleet = config.fleet.enabled() ? 24 : 0;
  return of_grpc + kOfPorts + of_http + kOwn + config.models.size() + of_operators + of_fleet;
}

}  // namespace longstream
