// A list of tokens that grows, and whose reader may wait.
#include "service/engine/logits/followed_tokens.h"

#include <utility>

namespace longstream {

bool FollowedTokens::TakeWait() { return std::exchange(reader_waits_, false) && wake_ != nullptr; }

void FollowedTokens::Push(int32_t token) {
  bool wakes = false;
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return;
    tokens_.push_back(token);
    wakes = TakeWait();
  }
  if (wakes) wake_();
}

void FollowedTokens::Close() {
  bool wakes = false;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    wakes = TakeWait();
  }
  if (wakes) wake_();
}

bool FollowedTokens::Has(uint64_t index) {
  absl::MutexLock lock(&mutex_);
  if (index < tokens_.size()) return true;
  reader_waits_ = !closed_;
  return false;
}

int32_t FollowedTokens::At(uint64_t index) const {
  absl::MutexLock lock(&mutex_);
  return tokens_[index];
}

bool FollowedTokens::EndAt(uint64_t count) const {
  absl::MutexLock lock(&mutex_);
  return closed_ && tokens_.size() == count;
}

}  // namespace longstream
