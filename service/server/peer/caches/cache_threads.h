// Threads that read and write the caches of sessions, so that no thread of gRPC waits for a disk or
// a device.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_CACHES_CACHE_THREADS_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_CACHES_CACHE_THREADS_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace longstream {

// Thread-safe. A call queues one piece of work at a time, and calls are limited, so the queue is.
class CacheThreads {
 public:
  // Throws std::system_error if the system gives no further thread.
  explicit CacheThreads(int num_threads);
  // Waits until all queued work has run.
  ~CacheThreads();
  CacheThreads(const CacheThreads&) = delete;
  CacheThreads& operator=(const CacheThreads&) = delete;

  // Runs `work` on one of the threads, in the order of the calls.
  void Run(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Serve() ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queue_.empty();
  }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_CACHES_CACHE_THREADS_H_
