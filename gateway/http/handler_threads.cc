// The threads' loop.
#include "gateway/http/handler_threads.h"

#include <system_error>
#include <utility>

namespace longstream::gateway {

HandlerThreads::~HandlerThreads() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

bool HandlerThreads::Run(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  if (running_ >= most_) return false;
  if (running_ >= threads_.size()) {
    try {
      threads_.emplace_back([this] { Serve(); });
    } catch (const std::system_error&) {
      return false;
    }
  }
  work_.push_back(std::move(work));
  ++running_;
  return true;
}

bool HandlerThreads::WaitUntilIdle(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(this, &HandlerThreads::IsIdle), timeout);
}

void HandlerThreads::Serve() {
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &HandlerThreads::HasWork));
      if (work_.empty()) return;
      work = std::move(work_.back());
      work_.pop_back();
    }
    work();
    work = nullptr;  // what it holds goes before the work counts as ended
    absl::MutexLock lock(&mutex_);
    --running_;
  }
}

}  // namespace longstream::gateway
