// A queue ordered by time, and the thread that empties it.
#include "service/clock/timers.h"

#include <algorithm>

#include "absl/time/time.h"

namespace longstream {

Timers::Timers() : thread_([this] { Run(); }) {}

Timers::~Timers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Timers::Id Timers::Set(MonotonicTime time, std::function<void()> call) {
  bool is_first = false;
  Id id = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    id = ++last_;
    timers_.emplace(id, Timer{time, std::move(call)});
    order_.emplace(time, id);
    is_first = order_.begin()->second == id;
  }
  if (is_first) changed_.notify_one();
  return id;
}

void Timers::Cancel(Id timer) {
  std::function<void()> call;  // destroyed without the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = timers_.find(timer);
  if (found == timers_.end()) return;
  call = std::move(found->second.call);
  order_.erase({found->second.time, timer});
  timers_.erase(found);
}

void Timers::CallBy(MonotonicTime time) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    order_.clear();
    for (auto& [id, timer] : timers_) {
      timer.time = std::min(timer.time, time);
      order_.emplace(timer.time, id);
    }
  }
  changed_.notify_one();
}

void Timers::Run() {
  // A longer wait could overflow the clock's numbers.
  constexpr absl::Duration kLongestWait = absl::Hours(1);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (order_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto [time, id] = *order_.begin();
    const absl::Duration left = time - MonotonicTime::Now();
    if (left > absl::ZeroDuration()) {
      changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(left, kLongestWait)));
      continue;
    }
    std::function<void()> call = std::move(timers_.at(id).call);
    timers_.erase(id);
    order_.erase(order_.begin());
    lock.unlock();
    call();
    call = nullptr;  // frees its captures without the lock
    lock.lock();
  }
}

}  // namespace longstream
