// A queue and the threads that empty it.
#include "service/server/text_threads.h"

#include <utility>

namespace longstream {
namespace {

// A tokenizer takes a millisecond for as much, 20 at the worst.
constexpr size_t kShortText = 16 << 10;

}  // namespace

TextThreads::TextThreads(int num_threads) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Serve(); });
}

TextThreads::~TextThreads() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void TextThreads::Run(size_t text_bytes, std::function<void()> work) {
  if (text_bytes <= kShortText) return work();
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(work));
}

void TextThreads::Serve() {
  const auto has_news = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queue_.empty();
  };
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_news));
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace longstream
