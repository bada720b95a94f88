// A queue of functions and the threads that run them.
#include "service/server/peer/caches/cache_threads.h"

#include <system_error>
#include <utility>

namespace longstream {

CacheThreads::CacheThreads(int num_threads) {
  try {
    for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Serve(); });
  } catch (const std::system_error&) {
    Stop();
    throw;
  }
}

CacheThreads::~CacheThreads() { Stop(); }

void CacheThreads::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void CacheThreads::Run(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(work));
}

void CacheThreads::Serve() {
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &CacheThreads::HasNews));
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace longstream
