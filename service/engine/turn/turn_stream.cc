// Implements the queue, counts its bytes and merges queued events.
#include "service/engine/turn/turn_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

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

// The client has more tokens than the turn.
absl::Status TooMany(size_t found, size_t expected) {
  return absl::FailedPreconditionError(absl::StrCat(
      "resume.token_ids[", expected, "]: the turn has ", expected, " tokens, found ", found));
}

absl::Status Differs(size_t index, int32_t expected, int32_t found) {
  return absl::FailedPreconditionError(absl::StrCat("resume.token_ids[", index, "]: the turn has ",
                                                    expected, " there, found ", found));
}

}  // namespace

void TurnStream::KeepAnswer() {
  absl::MutexLock lock(&mutex_);
  answer_ = growing_ = std::make_shared<Answer>();
}

void TurnStream::Replay(std::shared_ptr<const Answer> answer, TurnEnd end) {
  absl::MutexLock lock(&mutex_);
  answer_ = std::move(answer);
  end_ = std::move(end);
  reader_ = 0;
}

std::shared_ptr<const Answer> TurnStream::answer() const {
  absl::MutexLock lock(&mutex_);
  return answer_;
}

void TurnStream::Keep(TurnEvent event) {
  if (const auto* started = std::get_if<StartedEvent>(&event)) growing_->Start(*started);
  if (const auto* prefill = std::get_if<PrefillEvent>(&event)) prefill_ = *prefill;
  if (const auto* delta = std::get_if<DeltaEvent>(&event)) {
    growing_->Add(*delta);
    if (!awaited_.empty()) {
      // The reader has the delta already.
      const size_t size = std::min(awaited_.size(), delta->tokens.size());
      for (size_t i = 0; i < size && mismatch_.ok(); ++i) {
        if (awaited_[i] == delta->tokens[i]) continue;
        mismatch_ = Differs(awaited_begin_ + i, delta->tokens[i], awaited_[i]);
      }
      awaited_.erase(awaited_.begin(), awaited_.begin() + static_cast<std::ptrdiff_t>(size));
      awaited_begin_ += size;
      return;
    }
  }
  if (reader_ != 0) Enqueue(std::move(event));
}

absl::Status TurnStream::CheckPlace(const Place& place) const {
  if (answer_ == nullptr) {
    return absl::FailedPreconditionError("turn_id: the server does not keep the turn's answer");
  }
  const std::vector<int32_t>& tokens = answer_->tokens();
  for (size_t i = 0; i < place.tokens.size() && i < tokens.size(); ++i) {
    if (place.tokens[i] != tokens[i]) return Differs(i, tokens[i], place.tokens[i]);
  }
  if (growing_ == nullptr && place.tokens.size() > tokens.size()) {
    return TooMany(place.tokens.size(), tokens.size());
  }
  if (!answer_->started().has_value()) return absl::OkStatus();
  return CheckPosition(place, answer_->started()->position, answer_->started()->prompt_tokens);
}

absl::Status TurnStream::CheckPosition(const Place& place, uint64_t start, uint64_t prompt_tokens) {
  const size_t has = place.tokens.size();
  const uint64_t expected = has == 0 ? start : start + prompt_tokens + has;
  if (place.position == expected || (place.position == 0 && has == 0)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("resume.position: expected ", expected,
                                                    " after ", has, " token ids, found ",
                                                    place.position));
}

void TurnStream::QueueBehind(const Place& place) {
  if (answer_->started().has_value()) Enqueue(*answer_->started());
  if (prefill_.has_value()) Enqueue(*prefill_);
  if (answer_->lead().has_value() && place.position == 0) Enqueue(*answer_->lead());
  const size_t size = answer_->tokens().size();
  for (size_t i = place.tokens.size(); i < size; ++i) Enqueue(answer_->DeltaOf(i));
  awaited_.clear();
  awaited_begin_ = size;
  if (place.tokens.size() > size) {
    awaited_.assign(place.tokens.begin() + static_cast<std::ptrdiff_t>(size), place.tokens.end());
  }
}

void TurnStream::Dropped::Tell() const {
  if (wake && waits) wake();
  if (drained) drained();
}

TurnStream::Dropped TurnStream::DropReader() {
  Dropped dropped;
  dropped.wake = std::exchange(wake_, nullptr);
  dropped.waits = reader_ != 0 && std::exchange(reader_waits_, false);
  if (std::exchange(full_, false)) dropped.drained = drained_;
  reader_ = 0;
  events_.clear();
  queued_bytes_ = 0;
  mismatch_ = absl::OkStatus();
  awaited_.clear();
  return dropped;
}

absl::StatusOr<TurnStream::Reader> TurnStream::Attach(const Place& place,
                                                      std::function<void()> wake) {
  Dropped dropped;
  Reader reader;
  {
    absl::MutexLock lock(&mutex_);
    if (absl::Status status = CheckPlace(place); !status.ok()) return status;
    dropped = DropReader();
    reader = reader_ = ++last_reader_;
    wake_ = std::move(wake);
    reader_waits_ = false;
    QueueBehind(place);
  }
  dropped.Tell();
  return reader;
}

bool TurnStream::Leave(Reader reader) {
  Dropped dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (reader != reader_) return false;
    dropped = DropReader();
  }
  dropped.Tell();
  return true;
}

void TurnStream::Dismiss(absl::Status status) {
  Dropped dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (reader_ == 0) return;
    dismissed_ = reader_;
    dismissal_ = std::move(status);
    dropped = DropReader();
  }
  dropped.Tell();
}

void TurnStream::SetReader(std::function<void()> wake) {
  absl::MutexLock lock(&mutex_);
  wake_ = std::move(wake);
}

void TurnStream::Forget(Reader reader) {
  std::function<void()> wake;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  if (reader == reader_) wake = std::exchange(wake_, nullptr);
}

TurnStream::Item TurnStream::Next(Reader reader) {
  Dropped dropped;
  Item item;
  {
    absl::MutexLock lock(&mutex_);
    if (reader != reader_) {
      TurnEnd end;
      end.status =
          reader == dismissed_ ? dismissal_ : absl::AbortedError("another call reads the turn now");
      return end;
    }
    if (!mismatch_.ok()) {
      TurnEnd end;
      end.status = mismatch_;
      item = std::move(end);
      dropped = DropReader();
    } else if (events_.empty() || held_) {
      if (end_.has_value()) return *end_;
      reader_waits_ = true;
      return std::monostate();
    } else {
      queued_bytes_ -= BytesOf(events_.front());
      item = std::move(events_.front());
      events_.pop_front();
      if (full_ && queued_bytes_ <= limit_bytes_ / 2) {
        full_ = false;
        dropped.drained = drained_;
      }
    }
  }
  dropped.Tell();
  return item;
}

void TurnStream::Delivered(uint64_t position) {
  absl::MutexLock lock(&mutex_);
  // A reader that has lost the turn may still report what it has written.
  delivered_position_ = std::max(delivered_position_, position);
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
    } else if (growing_ != nullptr) {
      Keep(std::move(event));
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
    growing_ = nullptr;
    if (std::exchange(held_, false)) {
      events_.clear();
      queued_bytes_ = 0;
    }
    if (end_->status.ok() && !awaited_.empty()) {
      mismatch_ = TooMany(awaited_begin_ + awaited_.size(), awaited_begin_);
    }
    wake = TakeWake();
  }
  if (wake) wake();
}

std::function<void()> TurnStream::TakeWake() {
  if (reader_ == 0 || held_ || !std::exchange(reader_waits_, false)) return {};
  if (wakes_ == nullptr) return wake_;
  if (wake_) wakes_->Add(wake_);
  return {};
}

void TurnStream::Hold() {
  absl::MutexLock lock(&mutex_);
  held_ = true;
}

void TurnStream::Release() {
  std::function<void()> wake;
  {
    absl::MutexLock lock(&mutex_);
    held_ = false;
    const bool has_news = !events_.empty() || end_.has_value();
    if (has_news && reader_ != 0 && std::exchange(reader_waits_, false)) wake = wake_;
  }
  if (wake) wake();
}

bool TurnStream::Full() {
  absl::MutexLock lock(&mutex_);
  if (reader_ != 0 && queued_bytes_ > limit_bytes_) full_ = true;
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
