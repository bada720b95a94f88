// Implements the view, the closing and the lease of a session.
#include "service/sessions/session.h"

#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace longstream {
namespace {

// The blocks of a session's state, without its conversation, which has its own charges.
uint64_t StateBytes(const SessionState& state) {
  // The names of all members are here so that this does not compile if a member is added.
  const auto& [tokens, generated, tail, conversation] = state;
  return BlockBytes(tokens) + BlockBytes(generated) + BlockBytes(tail.bytes);
}

// The memory of every session: the session, its entries in the table and in the engine's list, and
// the backend's sequence without its caches.
constexpr uint64_t kFixedBytes = sizeof(Session) + 512;

}  // namespace

Session::Session(SessionId id, std::string model, uint64_t context_limit,
                 absl::Duration idle_timeout, HostMemory* host_memory)
    : id_(id), model_(std::move(model)), context_limit_(context_limit), host_charge_(host_memory) {
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

absl::Status Session::ChargeNew(const SessionState* source) {
  uint64_t bytes = kFixedBytes + StateBytes(state_);
  if (source != nullptr) {
    bytes += BlockBytes(source->tokens.size() * sizeof(int32_t)) +
             BlockBytes(source->generated.size() / CHAR_BIT);
  }
  return host_charge_.Add(bytes);
}

void Session::CountHost() {
  // The names of all members are here so that this does not compile if a member is added.
  const auto& [sequence, computed_tokens, recompute_reason] = caches_;
  host_charge_.Set(kFixedBytes + StateBytes(state_) + BlockBytes(recompute_reason));
}

SessionBytes Session::Bytes() const {
  SessionBytes bytes;
  bytes.host = host_charge_.bytes();
  if (state_.conversation != nullptr) bytes.host += state_.conversation->bytes;
  if (!caches_.sequence.valid()) return bytes;
  const ls_sequence_bytes held = caches_.sequence.bytes();
  bytes.kv = held.kv;
  bytes.window = held.window;
  bytes.state = held.state;
  return bytes;
}

void Session::Publish() {
  CountHost();
  const SessionBytes bytes = Bytes();
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
