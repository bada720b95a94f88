// Adds, takes and drops turns.
#include "service/shadow/shadow_queue.h"

#include <utility>

namespace longstream {

std::string_view NameOf(ShadowDrop reason) {
  switch (reason) {
    case ShadowDrop::kFull:
      return "full";
    case ShadowDrop::kModel:
      return "model";
    case ShadowDrop::kTokenizer:
      return "tokenizer";
    case ShadowDrop::kTooLong:
      return "too_long";
    case ShadowDrop::kMemory:
      return "memory";
    case ShadowDrop::kFailed:
      return "failed";
    case ShadowDrop::kStopped:
      return "stopped";
  }
  return "";
}

class ShadowQueue::Tap final : public AnswerTap {
 public:
  Tap(std::shared_ptr<ShadowQueue> queue, std::string shadow)
      : queue_(std::move(queue)), shadow_(std::move(shadow)) {}

  void Answered(const AnsweredTurn& turn) override { queue_->Push(turn, shadow_); }

 private:
  const std::shared_ptr<ShadowQueue> queue_;
  const std::string shadow_;
};

ShadowQueue::ShadowQueue(const Limits& limits, ShadowMetrics* metrics)
    : limits_(limits), metrics_(metrics) {}

std::shared_ptr<AnswerTap> ShadowQueue::TapFor(std::string shadow) {
  return std::make_shared<Tap>(shared_from_this(), std::move(shadow));
}

std::optional<ShadowDrop> ShadowQueue::Refusal(uint64_t bytes) const {
  if (closed_) return ShadowDrop::kStopped;
  if (bytes > limits_.bytes) return ShadowDrop::kTooLong;
  if (turns_.size() >= limits_.turns || bytes > limits_.bytes - bytes_) return ShadowDrop::kFull;
  return std::nullopt;
}

void ShadowQueue::Push(const AnsweredTurn& turn, const std::string& shadow) {
  ShadowTurn added{std::string(turn.model), shadow, {}, turn.answer_begin};
  const uint64_t bytes = turn.tokens.size_bytes();
  std::optional<ShadowDrop> refusal;
  {
    absl::MutexLock lock(&mutex_);
    refusal = Refusal(bytes);
    if (!refusal.has_value()) {
      added.tokens.assign(turn.tokens.begin(), turn.tokens.end());
      turns_.push_back(std::move(added));
      bytes_ += bytes;
      Publish();
      return;
    }
  }
  CountDrop(added, *refusal);
}

std::optional<ShadowTurn> ShadowQueue::Pop() {
  absl::MutexLock lock(&mutex_);
  const auto has_news = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return closed_ || !turns_.empty();
  };
  mutex_.Await(absl::Condition(&has_news));
  if (closed_) return std::nullopt;
  ShadowTurn turn = std::move(turns_.front());
  turns_.pop_front();
  bytes_ -= turn.bytes();
  Publish();
  return turn;
}

void ShadowQueue::Close() {
  std::deque<ShadowTurn> dropped;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    dropped.swap(turns_);
    bytes_ = 0;
    Publish();
  }
  for (const ShadowTurn& turn : dropped) CountDrop(turn, ShadowDrop::kStopped);
}

void ShadowQueue::CountDrop(const ShadowTurn& turn, ShadowDrop reason) {
  metrics_->CountDrop(turn.model, turn.shadow, NameOf(reason));
}

void ShadowQueue::Publish() { metrics_->SetQueue(turns_.size(), bytes_); }

}  // namespace longstream
