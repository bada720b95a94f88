// A queue, and threads that run its entries.
#include "service/server/text_threads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

// A text of up to this many bytes counts as short. A tokenizer takes 1 ms for such a text, 20 ms at
// worst.
constexpr size_t kShortText = 16 << 10;
// The memory that a queued call takes in addition to its text.
constexpr uint64_t kCallBytes = 4 << 10;

}  // namespace

TextThreads::TextThreads(int num_threads, uint64_t max_waiting_bytes)
    : max_waiting_bytes_(max_waiting_bytes) {
  try {
    for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Serve(); });
  } catch (...) {
    Stop();
    throw;
  }
}

TextThreads::~TextThreads() { Stop(); }

void TextThreads::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status TextThreads::Run(size_t text_bytes, uint64_t held_bytes, std::function<void()> work) {
  if (text_bytes <= kShortText) {
    work();
    return absl::OkStatus();
  }
  const uint64_t bytes = held_bytes + kCallBytes;
  absl::MutexLock lock(&mutex_);
  if (!queue_.empty() &&
      bytes > max_waiting_bytes_ - std::min(max_waiting_bytes_, waiting_bytes_)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("input: ", bytes, " bytes, but long texts of ", waiting_bytes_,
                     " bytes already wait to be read; the limit is ", max_waiting_bytes_));
  }
  waiting_bytes_ += bytes;
  queue_.push_back({bytes, std::move(work)});
  return absl::OkStatus();
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
      work = std::move(queue_.front().work);
      waiting_bytes_ -= queue_.front().bytes;
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace longstream
