// A queue of tasks, and the thread that empties it.
#include "service/fleet/event_thread.h"

#include <utility>

namespace longstream::fleet {

bool EventThread::Post(Task task) {
  const absl::MutexLock lock(&mutex_);
  if (stopping_) return false;
  tasks_.push_back(std::move(task));
  return true;
}

void EventThread::Stop(Task last) {
  {
    const absl::MutexLock lock(&mutex_);
    if (!stopping_ && last) tasks_.push_back(std::move(last));
    stopping_ = true;
  }
  const absl::MutexLock lock(&join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void EventThread::Run() {
  const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !tasks_.empty();
  };
  while (true) {
    Task task;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace longstream::fleet
