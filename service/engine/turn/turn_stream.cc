// Implements the queue, counts its bytes and merges queued events.
#include "service/engine/turn/turn_stream.h"

#include <iterator>
#include <utility>

namespace longstream {
namespace {

size_t BytesOf(const std::vector<TokenLogProb>& tokens) {
  size_t bytes = tokens.size() * sizeof(TokenLogProb);
  for (const TokenLogProb& token : tokens) bytes += token.top.size() * sizeof(ls_top_token);
  return bytes;
}

size_t BytesOf(const TurnEvent& event) {
  size_t bytes = sizeof(TurnEvent);
  if (const auto* delta = std::get_if<DeltaEvent>(&event)) {
    bytes +=
        delta->text.size() + delta->tokens.size() * sizeof(int32_t) + BytesOf(delta->log_probs);
  } else if (const auto* score = std::get_if<ScoreEvent>(&event)) {
    bytes += BytesOf(score->tokens);
  }
  return bytes;
}

void Append(std::vector<TokenLogProb>& to, std::vector<TokenLogProb>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Counts the tokens and the tokens in their `top` lists.
size_t NamedTokens(const std::vector<TokenLogProb>& tokens) {
  size_t named = tokens.size();
  for (const TokenLogProb& token : tokens) named += token.top.size();
  return named;
}

size_t NamedTokens(const DeltaEvent& delta) {
  return delta.tokens.size() + NamedTokens(delta.log_probs);
}

// Splits `event` into events that name at most kMaxNamedTokens tokens. The rows keep their order.
std::vector<ScoreEvent> PiecesOf(ScoreEvent event) {
  std::vector<ScoreEvent> pieces;
  uint64_t index = event.first_index;
  size_t named = 0;
  for (TokenLogProb& token : event.tokens) {
    const size_t of_row = 1 + token.top.size();
    if (pieces.empty() || named + of_row > TurnStream::kMaxNamedTokens) {
      pieces.push_back(ScoreEvent{index, {}});
      named = 0;
    }
    named += of_row;
    ++index;
    pieces.back().tokens.push_back(std::move(token));
  }
  return pieces;
}

// Merges `next` into `last` if the reader loses no information by it. Returns whether it did.
bool Merge(TurnEvent& last, TurnEvent& next) {
  auto* last_delta = std::get_if<DeltaEvent>(&last);
  auto* next_delta = std::get_if<DeltaEvent>(&next);
  if (last_delta != nullptr && next_delta != nullptr &&
      NamedTokens(*last_delta) + NamedTokens(*next_delta) <= TurnStream::kMaxNamedTokens) {
    last_delta->text += next_delta->text;
    last_delta->tokens.insert(last_delta->tokens.end(), next_delta->tokens.begin(),
                              next_delta->tokens.end());
    last_delta->position = next_delta->position;
    Append(last_delta->log_probs, next_delta->log_probs);
    return true;
  }
  auto* last_prefill = std::get_if<PrefillEvent>(&last);
  auto* next_prefill = std::get_if<PrefillEvent>(&next);
  if (last_prefill != nullptr && next_prefill != nullptr) {
    *last_prefill = *next_prefill;
    return true;
  }
  return false;
}

}  // namespace

void TurnStream::SetReader(std::function<void()> wake) {
  absl::MutexLock lock(&mutex_);
  wake_ = std::move(wake);
}

TurnStream::Item TurnStream::Next() {
  std::function<void()> drained;
  TurnEvent event;
  {
    absl::MutexLock lock(&mutex_);
    if (events_.empty()) {
      if (end_.has_value()) return *end_;
      reader_waits_ = true;
      return std::monostate();
    }
    event = std::move(events_.front());
    events_.pop_front();
    queued_bytes_ -= BytesOf(event);
    if (full_ && queued_bytes_ <= limit_bytes_ / 2) {
      full_ = false;
      drained = drained_;
    }
  }
  if (drained) drained();
  return event;
}

void TurnStream::Delivered(uint64_t position) {
  absl::MutexLock lock(&mutex_);
  delivered_position_ = position;
}

void TurnStream::SetWriter(size_t limit_bytes, std::function<void()> drained, ReaderWakes* wakes) {
  absl::MutexLock lock(&mutex_);
  limit_bytes_ = limit_bytes;
  drained_ = std::move(drained);
  wakes_ = wakes;
}

void TurnStream::Push(TurnEvent event) {
  std::function<void()> wake;
  {
    absl::MutexLock lock(&mutex_);
    if (auto* score = std::get_if<ScoreEvent>(&event)) {
      for (ScoreEvent& piece : PiecesOf(std::move(*score))) Enqueue(std::move(piece));
    } else {
      Enqueue(std::move(event));
    }
    wake = TakeWake();
  }
  if (wake) wake();
}

void TurnStream::Enqueue(TurnEvent event) {
  const size_t before = events_.empty() ? 0 : BytesOf(events_.back());
  if (!events_.empty() && Merge(events_.back(), event)) {
    queued_bytes_ += BytesOf(events_.back()) - before;
  } else {
    queued_bytes_ += BytesOf(event);
    events_.push_back(std::move(event));
  }
}

void TurnStream::Finish(TurnEnd end) {
  std::function<void()> wake;
  {
    absl::MutexLock lock(&mutex_);
    end_ = std::move(end);
    wake = TakeWake();
  }
  if (wake) wake();
}

std::function<void()> TurnStream::TakeWake() {
  if (!std::exchange(reader_waits_, false)) return {};
  if (wakes_ == nullptr) return wake_;
  if (wake_) wakes_->Add(wake_);
  return {};
}

bool TurnStream::Full() {
  absl::MutexLock lock(&mutex_);
  if (queued_bytes_ > limit_bytes_) full_ = true;
  return full_;
}

size_t TurnStream::queued_bytes() const {
  absl::MutexLock lock(&mutex_);
  return queued_bytes_;
}

uint64_t TurnStream::delivered_position() const {
  absl::MutexLock lock(&mutex_);
  return delivered_position_;
}

}  // namespace longstream
