// Threads for work on long texts, so that those of gRPC stay free for everybody else.
#ifndef LONGSTREAM_SERVICE_SERVER_TEXT_THREADS_H_
#define LONGSTREAM_SERVICE_SERVER_TEXT_THREADS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace longstream {

// Thread-safe.
class TextThreads {
 public:
  explicit TextThreads(int num_threads);
  // Runs what is queued first.
  ~TextThreads();
  TextThreads(const TextThreads&) = delete;
  TextThreads& operator=(const TextThreads&) = delete;

  // Runs `work`, which is on a text of so many bytes: here and now where that takes no time, else
  // on one of the threads, in the order of the calls.
  void Run(size_t text_bytes, std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Serve() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TEXT_THREADS_H_
