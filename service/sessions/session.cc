// Implements the view, the closing and the lease of a session.
#include "service/sessions/session.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace longstream {
namespace {

// The blocks of a session's state, without its conversation, which has its own charges.
uint64_t StateBytes(const SessionState& state) {
  // The names of all members are here so that this does not compile if a member is added.
  const auto& [tokens, generated, feed, recompute, tail, conversation] = state;
  return BlockBytes(tokens) + BlockBytes(generated) + BlockBytes(feed.block()) +
         BlockBytes(tail.bytes);
}

// The memory of every session: the session, its entries in the table and in the engine's list, and
// the backend's sequence without its caches.
constexpr uint64_t kFixedBytes = sizeof(Session) + 512;

}  // namespace

Session::Session(SessionId id, std::string model, uint64_t context_limit,
                 absl::Duration idle_timeout, HostMemory* host_memory,
                 std::shared_ptr<Tenant> tenant)
    : tenant_(std::move(tenant)),
      key_{tenant_ == nullptr ? "" : tenant_->name(), id},
      model_(std::move(model)),
      context_limit_(context_limit),
      cache_charge_(tenant_),
      host_charge_(host_memory) {
  absl::MutexLock lock(&mutex_);
  view_.id = key_.id;
  view_.model = model_;
  view_.context_limit = context_limit;
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
  if (closed_) return NoSession(key_.id);
  if (leased_) {
    return absl::AbortedError(
        absl::StrCat("session ", key_.id.ToString(),
                     " is being opened or forked, or runs another turn; one writer at a time"));
  }
  if (expected_position && *expected_position != view_.position) {
    return absl::FailedPreconditionError(
        absl::StrCat("expected_position: session ", key_.id.ToString(), " is at position ",
                     view_.position, ", the request expects ", *expected_position));
  }
  leased_ = true;
  MarkUse();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> Session::CopyTokens() {
  absl::MutexLock lock(&mutex_);
  if (closed_) return NoSession(key_.id);
  if (leased_) {
    return absl::AbortedError(absl::StrCat(
        "session ", key_.id.ToString(),
        " is being opened or forked, or runs a turn; its tokens can be read when this has ended"));
  }
  MarkUse();
  // Nobody changes the state without the lease, and nobody takes the lease without the mutex.
  return state_.tokens;
}

void Session::set_alias(std::string alias) {
  alias_ = std::move(alias);
  absl::MutexLock lock(&mutex_);
  view_.alias = alias_;
}

void Session::set_routing(std::shared_ptr<const RouteDecision> routing) {
  routing_ = std::move(routing);
  absl::MutexLock lock(&mutex_);
  view_.routing = routing_;
}

void Session::MoveTo(const void* engine, uint64_t context_limit) {
  home_.store(engine);
  context_limit_.store(context_limit);
  absl::MutexLock lock(&mutex_);
  view_.context_limit = context_limit;
}

absl::Status Session::CheckHome(const void* engine) const {
  const void* const home = home_.load();
  return home == nullptr || home == engine ? absl::OkStatus() : HasMoved();
}

absl::Status Session::HasMoved() const {
  return absl::AbortedError(absl::StrCat("session ", key_.id.ToString(),
                                         " has just moved to another version of its model; send "
                                         "the request again"));
}

bool Session::TakeUnused() {
  absl::MutexLock lock(&mutex_);
  if (closed_ || leased_ || awaited_by_ > 0) return false;
  leased_ = true;
  return true;
}

void Session::ReturnTurn(bool is_use) {
  absl::MutexLock lock(&mutex_);
  if (is_use) MarkUse();
  leased_ = false;
}

absl::Status Session::ChargeNew(const SessionState* source) {
  uint64_t bytes = kFixedBytes + StateBytes(state_) + NameBytes();
  if (source != nullptr) {
    bytes += BlockBytes(source->tokens.size() * sizeof(int32_t)) +
             BlockBytes(source->generated.size() / CHAR_BIT) +
             BlockBytes(source->feed.block().size() * sizeof(uint64_t));
  }
  return host_charge_.Add(bytes);
}

uint64_t Session::NameBytes() const {
  // view_ has the alias too.
  const uint64_t bytes = BlockBytes(origin_) + 2 * BlockBytes(alias_);
  return routing_ == nullptr ? bytes : bytes + BlockBytes(BytesOf(*routing_));
}

void Session::CountHost() {
  // The names of all members are here so that this does not compile if a member is added.
  const auto& [sequence, computed_tokens, recompute_reason, evicted, restored, lowest_rewind,
               restored_at, return_points, prefill_tokens, decode_tokens, span_ends,
               stored_position, unchanged, peer_position, other_kernels] = caches_;
  host_charge_.Set(kFixedBytes + StateBytes(state_) + NameBytes() + BlockBytes(recompute_reason) +
                   BlockBytes(return_points) + BlockBytes(span_ends) + BlockBytes(other_kernels));
}

SessionBytes Session::Bytes() const {
  SessionBytes bytes;
  bytes.host = host_charge_.bytes() + turn_bytes_.load(std::memory_order_relaxed);
  if (state_.conversation != nullptr) bytes.host += state_.conversation->bytes;
  if (!caches_.sequence.valid()) return bytes;
  const ls_sequence_bytes held = caches_.sequence.bytes();
  bytes.kv = held.kv;
  bytes.window = held.window;
  bytes.state = held.state;
  return bytes;
}

void Session::ChargeCaches() {
  if (!cache_charge_.counts()) return;
  const Sequence& sequence = caches_.sequence;
  const ls_sequence_bytes held = sequence.valid() ? sequence.bytes() : ls_sequence_bytes{};
  cache_charge_.Set(held.kv + held.window + held.state + held.checkpoint);
}

uint64_t Session::RecomputeTokens() const {
  const uint64_t cached = caches_.sequence.valid() ? caches_.sequence.position() : 0;
  const uint64_t there = std::max(cached, caches_.stored_position);
  return caches_.computed_tokens - std::min(caches_.computed_tokens, there);
}

void Session::Publish() {
  CountHost();
  const SessionBytes bytes = Bytes();
  const uint64_t recompute_tokens = RecomputeTokens();
  absl::MutexLock lock(&mutex_);
  view_.position = state_.tokens.size();
  view_.bytes = bytes;
  view_.recompute_tokens = recompute_tokens;
}

void Session::PublishEviction() {
  absl::MutexLock lock(&mutex_);
  view_.bytes.kv = view_.bytes.window = view_.bytes.state = 0;
  view_.recompute_tokens = RecomputeTokens();
}

absl::Status Session::TakePlace() {
  if (tenant_ == nullptr) return absl::OkStatus();
  absl::Status status = tenant_->TakeSession();
  if (status.ok()) has_place_.store(true);
  return status;
}

void Session::GivePlaceBack() {
  if (has_place_.exchange(false)) tenant_->ReturnSession();
}

void Session::LeavePlaceToStore() {
  if (has_place_.exchange(false)) tenant_->MoveSessionToStore();
}

Session::Use Session::LastUse() const {
  absl::MutexLock lock(&mutex_);
  return {leased_, last_use_};
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

void Session::Await() {
  absl::MutexLock lock(&mutex_);
  ++awaited_by_;
}

void Session::EndAwait() {
  absl::MutexLock lock(&mutex_);
  --awaited_by_;
}

bool Session::ExpiredLocked(MonotonicTime now, absl::Duration most_idle) const {
  return !leased_ && awaited_by_ == 0 && now - last_use_ > std::min(view_.idle_timeout, most_idle);
}

bool Session::Expired(MonotonicTime now, absl::Duration most_idle) const {
  absl::MutexLock lock(&mutex_);
  return ExpiredLocked(now, most_idle);
}

bool Session::CloseIfExpired(MonotonicTime now, absl::Duration most_idle) {
  absl::MutexLock lock(&mutex_);
  return ExpiredLocked(now, most_idle) && !std::exchange(closed_, true);
}

void Session::SetDurable() {
  absl::MutexLock lock(&mutex_);
  view_.durable = true;
}

void Session::SetRestored(absl::Time create_time, absl::Time last_use_time,
                          std::optional<SessionId> forked_from) {
  absl::MutexLock lock(&mutex_);
  view_.durable = true;
  view_.create_time = create_time;
  view_.last_use_time = last_use_time;
  view_.forked_from = forked_from;
}

void Session::set_forked_from(SessionId source) {
  absl::MutexLock lock(&mutex_);
  view_.forked_from = source;
}

}  // namespace longstream
