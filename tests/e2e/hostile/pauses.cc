#include "tests/e2e/hostile/pauses.h"

#include <algorithm>
#include <utility>

namespace longstream {
namespace {

constexpr std::chrono::milliseconds kBetweenWakes{50};

}  // namespace

Pauses::Pauses() : thread_([this] { Watch(); }) {}

Pauses::~Pauses() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

double Pauses::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Note(Clock::now());
  return std::exchange(longest_, 0.0);
}

void Pauses::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ended_.wait_for(lock, kBetweenWakes, [this] { return ends_; })) Note(Clock::now());
}

void Pauses::Note(Clock::time_point now) {
  const std::chrono::duration<double> late = now - last_ - kBetweenWakes;
  longest_ = std::max(longest_, late.count());
  last_ = now;
}

}  // namespace longstream
