// Leads connections to Envoy, or to replicas.
#include "tests/chaos/fronts.h"

#include <utility>

#include "tests/processes/free_port.h"

namespace longstream::chaos {
namespace {

constexpr size_t kFronts = 8;
// A replica that hangs keeps its clients for this long.
constexpr seconds kHangPatience{1};

}  // namespace

Fronts::Fronts(int envoy_port, std::vector<Replica*> replicas, uint64_t seed)
    : has_envoy_(envoy_port != 0), replicas_(std::move(replicas)), random_(seed) {
  for (size_t i = 0; i < kFronts; ++i) {
    const size_t target = i % replicas_.size();
    targets_.push_back(target);
    fronts_.push_back(std::make_unique<DroppingProxy>(
        has_envoy_ ? envoy_port : replicas_[target]->port(), FreePort()));
  }
  if (!has_envoy_) balancer_ = std::thread([this] { Balance(); });
}

Fronts::~Fronts() {
  stopping_ = true;
  if (balancer_.joinable()) balancer_.join();
}

void Fronts::CutOne() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t front = random_() % fronts_.size();
  if (!has_envoy_) Lead(front, ReplicaThatIsUp(targets_[front]));
  fronts_[front]->Drop();
}

size_t Fronts::ReplicaThatIsUp(size_t otherwise) {
  std::vector<size_t> up;
  for (size_t i = 0; i < replicas_.size(); ++i) {
    if (replicas_[i]->state() == Replica::State::kUp) up.push_back(i);
  }
  return up.empty() ? otherwise : up[random_() % up.size()];
}

void Fronts::Lead(size_t front, size_t replica) {
  targets_[front] = replica;
  fronts_[front]->set_target(replicas_[replica]->port());
}

void Fronts::Balance() {
  std::vector<Clock::time_point> up_at(fronts_.size(), Clock::now());
  while (!stopping_) {
    std::this_thread::sleep_for(milliseconds(50));
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t front = 0; front < fronts_.size(); ++front) {
      const Replica::State state = replicas_[targets_[front]]->state();
      if (state == Replica::State::kUp) {
        up_at[front] = Clock::now();
        continue;
      }
      if (state == Replica::State::kPaused && Clock::now() < up_at[front] + kHangPatience) continue;
      const size_t target = ReplicaThatIsUp(targets_[front]);
      if (target == targets_[front]) continue;
      Lead(front, target);
      if (state == Replica::State::kPaused) fronts_[front]->Drop();
    }
  }
}

}  // namespace longstream::chaos
