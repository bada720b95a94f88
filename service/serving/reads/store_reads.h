// Threads for calls that read the store, so that a disk that hangs holds none of gRPC's threads.
#ifndef LONGSTREAM_SERVICE_SERVING_READS_STORE_READS_H_
#define LONGSTREAM_SERVICE_SERVING_READS_STORE_READS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/serving/reads/read_queue.h"

namespace longstream {

// Thread-safe.
class StoreReads {
 public:
  // Makes a thread that calls a function. Throws std::system_error if the system gives none.
  using MakeThread = std::function<std::thread(std::function<void()>)>;

  // If the system gives fewer threads: ends those that run, and throws std::system_error, which
  // names the thread that is missing. Tests give a `make_thread` that fails.
  StoreReads(int num_threads, const ReadQueue::Limits& limits,
             const MakeThread& make_thread = &MakeSystemThread)
      : queue_(limits) {
    threads_.reserve(static_cast<size_t>(num_threads));
    try {
      for (int i = 0; i < num_threads; ++i) threads_.push_back(make_thread([this] { Serve(); }));
    } catch (const std::system_error& error) {
      Stop();  // destroying a thread that runs would end the process
      throw std::system_error(error.code(), absl::StrCat("thread ", threads_.size() + 1, " of the ",
                                                         num_threads, " that read the store"));
    } catch (...) {
      Stop();
      throw;
    }
  }
  ~StoreReads() { Stop(); }
  StoreReads(const StoreReads&) = delete;
  StoreReads& operator=(const StoreReads&) = delete;

  // Runs `work` on one of the threads, in the order of the queue; after Stop, on this thread.
  // Errors as for ReadQueue::Add. Then `work` is not run.
  absl::Status Run(const ReadOf& of, uint32_t weight, ReadQueue::Work work)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (!stopping_) return queue_.Add(of, weight, std::move(work));
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
  static std::thread MakeSystemThread(std::function<void()> run) {
    return std::thread(std::move(run));
  }

  void Serve() ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto has_news = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return queue_.can_take() || (stopping_ && queue_.empty());
    };
    std::optional<ReadOf> ended;
    while (true) {
      ReadQueue::Read read;
      {
        absl::MutexLock lock(&mutex_);
        if (ended.has_value()) queue_.End(*ended);
        mutex_.Await(absl::Condition(&has_news));
        if (!queue_.can_take()) return;
        read = queue_.Take();
      }
      read.work();
      ended = std::move(read.of);
    }
  }

  absl::Mutex mutex_;
  ReadQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_READS_STORE_READS_H_
