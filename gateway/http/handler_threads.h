// Threads for requests, each of which waits for the answer of a model.
#ifndef LONGSTREAM_GATEWAY_HTTP_HANDLER_THREADS_H_
#define LONGSTREAM_GATEWAY_HTTP_HANDLER_THREADS_H_

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace longstream::gateway {

// Begins a thread when work comes and all threads are busy. Thread-safe.
class HandlerThreads {
 public:
  explicit HandlerThreads(size_t most) : most_(most) {}
  // Waits until all work has ended.
  ~HandlerThreads();
  HandlerThreads(const HandlerThreads&) = delete;
  HandlerThreads& operator=(const HandlerThreads&) = delete;

  // Runs `work` on a thread. False: as much work as allowed is running, or the system gives no
  // further thread.
  bool Run(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until no work is running. False: some is, after this time.
  bool WaitUntilIdle(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Serve() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !work_.empty() || ending_; }
  bool IsIdle() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return running_ == 0; }

  const size_t most_;
  absl::Mutex mutex_;
  std::vector<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);  // a thread is free for each
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;                       // with those in work_
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_HTTP_HANDLER_THREADS_H_
