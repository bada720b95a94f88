// Threads for calls that read the store, so that a disk that hangs holds none of gRPC's threads.
#ifndef LONGSTREAM_SERVICE_SERVING_STORE_READS_H_
#define LONGSTREAM_SERVICE_SERVING_STORE_READS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace longstream {

// Thread-safe.
class StoreReads {
 public:
  // Throws std::system_error if the system gives no thread.
  explicit StoreReads(int num_threads) {
    for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Serve(); });
  }
  ~StoreReads() { Stop(); }
  StoreReads(const StoreReads&) = delete;
  StoreReads& operator=(const StoreReads&) = delete;

  // Runs `work` on one of the threads, in the order of the calls; after Stop, on this thread.
  // UNAVAILABLE: too much work waits already. Then `work` is not run.
  absl::Status Run(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (!stopping_) {
        if (queue_.size() >= kMostWaiting) {
          return absl::UnavailableError(absl::StrCat(
              "store: ", kMostWaiting, " calls wait to read it; send the request again"));
        }
        queue_.push_back(std::move(work));
        return absl::OkStatus();
      }
    }
    work();
    return absl::OkStatus();
  }

  // Runs all work that was given, and ends the threads. May be called again.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  static constexpr size_t kMostWaiting = 4096;

  void Serve() ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return stopping_ || !queue_.empty();
    };
    while (true) {
      std::function<void()> work;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(&has_work));
        if (queue_.empty()) return;
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      work();
    }
  }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_STORE_READS_H_
