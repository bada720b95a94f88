// Implements the view, the closing and the lease of a session.
#include "service/sessions/session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace longstream {

Session::Session(SessionId id, std::string model, uint64_t context_limit,
                 absl::Duration idle_timeout)
    : id_(id), model_(std::move(model)), context_limit_(context_limit) {
  absl::MutexLock lock(&mutex_);
  view_.id = id_;
  view_.model = model_;
  view_.context_limit = context_limit_;
  MarkUse();
  view_.create_time = view_.last_use_time;
  view_.idle_timeout = idle_timeout;
}

SessionView Session::View() const {
  absl::MutexLock lock(&mutex_);
  SessionView view = view_;
  view.turn_running = leased_;
  return view;
}

absl::Status Session::TakeTurn(std::optional<uint64_t> expected_position) {
  absl::MutexLock lock(&mutex_);
  if (closed_) {
    return absl::NotFoundError(absl::StrCat("session_id: no session ", id_.ToString()));
  }
  if (leased_) {
    return absl::AbortedError(
        absl::StrCat("session ", id_.ToString(),
                     " is being opened or forked, or runs another turn; one writer at a time"));
  }
  if (expected_position && *expected_position != view_.position) {
    return absl::FailedPreconditionError(
        absl::StrCat("expected_position: session ", id_.ToString(), " is at position ",
                     view_.position, ", the request expects ", *expected_position));
  }
  leased_ = true;
  MarkUse();
  return absl::OkStatus();
}

void Session::ReturnTurn() {
  absl::MutexLock lock(&mutex_);
  MarkUse();
  leased_ = false;
}

void Session::Publish() {
  SessionBytes bytes;
  if (caches_.sequence.valid()) {
    const ls_sequence_bytes held = caches_.sequence.bytes();
    bytes = SessionBytes{held.kv, held.window, held.state};
  }
  absl::MutexLock lock(&mutex_);
  view_.position = state_.tokens.size();
  view_.bytes = bytes;
}

void Session::MarkUse() {
  last_use_ = MonotonicTime::Now();
  view_.last_use_time = absl::Now();
}

bool Session::Close() {
  absl::MutexLock lock(&mutex_);
  return !std::exchange(closed_, true);
}

bool Session::closed() const {
  absl::MutexLock lock(&mutex_);
  return closed_;
}

bool Session::ExpiredLocked(MonotonicTime now) const {
  return !leased_ && now - last_use_ > view_.idle_timeout;
}

bool Session::Expired(MonotonicTime now) const {
  absl::MutexLock lock(&mutex_);
  return ExpiredLocked(now);
}

bool Session::CloseIfExpired(MonotonicTime now) {
  absl::MutexLock lock(&mutex_);
  return ExpiredLocked(now) && !std::exchange(closed_, true);
}

void Session::set_forked_from(SessionId source) {
  absl::MutexLock lock(&mutex_);
  view_.forked_from = source;
}

}  // namespace longstream
