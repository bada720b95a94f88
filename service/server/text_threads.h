// Threads for work on long texts, so that gRPC's threads stay free for other calls.
#ifndef LONGSTREAM_SERVICE_SERVER_TEXT_THREADS_H_
#define LONGSTREAM_SERVICE_SERVER_TEXT_THREADS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace longstream {

// Thread-safe.
class TextThreads {
 public:
  // `max_waiting_bytes`: the limit for the sum of `held_bytes` of queued work.
  // Throws std::system_error if the system gives no further thread.
  TextThreads(int num_threads, uint64_t max_waiting_bytes);
  // Waits until all queued work has run.
  ~TextThreads();
  TextThreads(const TextThreads&) = delete;
  TextThreads& operator=(const TextThreads&) = delete;

  // Runs `work`, which handles a text of `text_bytes` bytes. If the text is short, runs it at once;
  // otherwise queues it for the threads, which take it in the order of the calls. While it is
  // queued, its request keeps `held_bytes` in memory. RESOURCE_EXHAUSTED: other work waits already,
  // and with this work the queue would exceed max_waiting_bytes. `work` is not run.
  absl::Status Run(size_t text_bytes, uint64_t held_bytes, std::function<void()> work)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Waits until all queued work has run, and ends the threads.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Serve() ABSL_LOCKS_EXCLUDED(mutex_);

  struct Item {
    uint64_t bytes = 0;
    std::function<void()> work;
  };

  const uint64_t max_waiting_bytes_;
  absl::Mutex mutex_;
  std::deque<Item> queue_ ABSL_GUARDED_BY(mutex_);
  uint64_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // the sum over queue_
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TEXT_THREADS_H_
