// The addresses to which the clients connect.
#ifndef LONGSTREAM_TESTS_CHAOS_FRONTS_H_
#define LONGSTREAM_TESTS_CHAOS_FRONTS_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/chaos/replica.h"
#include "tests/processes/dropping_proxy.h"

namespace longstream::chaos {

// Several ports, so that not all clients share one connection. They all lead to Envoy. Without
// Envoy each one leads to some replica, and to another one when that has gone: so sessions move
// more often than they would with a proxy that knows them. Thread-safe.
class Fronts {
 public:
  // `envoy_port`: 0: there is no Envoy. The replicas are borrowed.
  Fronts(int envoy_port, std::vector<Replica*> replicas, uint64_t seed);
  ~Fronts();
  Fronts(const Fronts&) = delete;
  Fronts& operator=(const Fronts&) = delete;

  std::string address(size_t client) const { return fronts_[client % fronts_.size()]->address(); }
  // Cuts the connections of some clients. Without Envoy, they come back on another replica.
  void CutOne();

 private:
  void Balance();
  // A replica that is up, at random; `otherwise` if there is none.
  size_t ReplicaThatIsUp(size_t otherwise);
  void Lead(size_t front, size_t replica);

  const bool has_envoy_;
  const std::vector<Replica*> replicas_;
  std::vector<std::unique_ptr<DroppingProxy>> fronts_;
  std::mutex mutex_;  // guards the next two
  std::mt19937_64 random_;
  std::vector<size_t> targets_;  // of each front without Envoy
  std::atomic<bool> stopping_{false};
  std::thread balancer_;
};

}  // namespace longstream::chaos

#endif  // LONGSTREAM_TESTS_CHAOS_FRONTS_H_
