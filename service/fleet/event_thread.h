// A thread that runs tasks one after the other.
#ifndef LONGSTREAM_SERVICE_FLEET_EVENT_THREAD_H_
#define LONGSTREAM_SERVICE_FLEET_EVENT_THREAD_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace longstream::fleet {

// Thread-safe. Post never blocks.
class EventThread {
 public:
  using Task = std::function<void()>;

  // Throws std::system_error if the system gives no thread.
  EventThread() : thread_([this] { Run(); }) {}
  ~EventThread() { Stop(); }
  EventThread(const EventThread&) = delete;
  EventThread& operator=(const EventThread&) = delete;

  // Tasks run in the order in which they were posted. False: Stop was called, and the task is not
  // run.
  [[nodiscard]] bool Post(Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs the tasks that wait, and `last` after them; then the thread ends. Only the first call has
  // an effect; each call waits for the end. Not to be called by a task.
  void Stop(Task last = nullptr) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Mutex join_mutex_;  // held while waiting for the thread
  std::thread thread_;      // last, so that it starts after the other members
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_FLEET_EVENT_THREAD_H_
