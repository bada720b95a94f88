// Eviction: frees the caches of idle sessions when a turn, an open or a fork needs memory.
#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/engine.h"
#include "service/engine/policy/eviction.h"
#include "service/engine/policy/turn_demand.h"
#include "service/engine/turn/turn_history.h"

namespace longstream {
namespace {

uint64_t Total(const ls_sequence_bytes& bytes) {
  return bytes.kv + bytes.window + bytes.state + bytes.checkpoint;
}

// The snapshot of the session that is in the store, and the tokens behind it.
std::optional<RestoreOption> StoredOption(Session& session, const ls_model_info& info) {
  const StoredCaches* const stored = session.stored_caches();
  const uint64_t position = stored == nullptr ? 0 : stored->LastPosition();
  if (position == 0) return std::nullopt;
  const uint64_t end = session.caches().sequence.position();
  return RestoreOption{TurnDemand::CacheBytes(info, position), {end - std::min(end, position), 0}};
}

}  // namespace

Engine::IdleCaches Engine::FindIdle(const Session* except) const {
  const MonotonicTime now = MonotonicTime::Now();
  const ls_memory memory = model_->backend().memory();
  const uint64_t held = memory.pages + memory.rings + memory.states + memory.checkpoints;
  uint64_t kept = 0;  // by all others. Pages that they share count several times
  std::unordered_set<const Session*> running;
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    if (turn->ended()) continue;
    running.insert(&turn->session());
    kept += turn->BytesHeld();
  }
  IdleCaches idle;
  uint64_t alone = 0;  // what the evictions free even if all shared pages stay
  for (const std::shared_ptr<Session>& session : open_sessions_) {
    const SessionCaches& caches = session->caches();
    if (!caches.sequence.valid() || running.contains(session.get())) continue;
    const bool is_safe = IsSafe(caches.restored_at, now);
    if (is_safe || session.get() == except) {
      const uint64_t bytes = Total(caches.sequence.bytes());
      kept += bytes;
      if (is_safe) idle.safe_bytes += bytes;
      continue;
    }
    const Session::Use use = session->LastUse();
    const uint64_t freed = caches.sequence.bytes_alone();
    idle.sessions.push_back(session.get());
    idle.candidates.push_back({freed,
                               {caches.prefill_tokens, caches.decode_tokens},
                               use.leased,
                               use.last,
                               StoredOption(*session, model_->backend().info())});
    alone += freed;
  }
  kept += snapshot_bytes_;
  idle.safe_bytes += snapshot_bytes_;
  if (!idle.sessions.empty()) idle.bytes = std::max(alone, held - std::min(held, kept));
  return idle;
}

void Engine::Evict(Session& session, const char* reason) {
  SessionCaches& caches = session.caches();
  caches.lowest_rewind = std::max(caches.lowest_rewind, LowestRewind(caches.sequence));
  caches.Free();
  caches.evicted = true;
  session.ChargeCaches();
  NoteStored(session);
  session.PublishEviction();
  metrics_->CountEviction(reason);
}

absl::Status Engine::WithRoom(uint64_t wanted, const Session* except, const char* reason,
                              absl::FunctionRef<absl::Status()> attempt) {
  absl::Status status = absl::ResourceExhaustedError("");
  if (FreeBytes() < wanted) YieldIdleWork();
  MakeRoom(wanted);
  if (FreeBytes() >= wanted) status = attempt();
  // A page that a return point shares must be copied before it is written.
  while (absl::IsResourceExhausted(status) && FreeOldestReturnPoint()) {
    if (FreeBytes() >= wanted) status = attempt();
  }
  if (!absl::IsResourceExhausted(status)) return status;
  const IdleCaches idle = FindIdle(except);
  if (idle.bytes < wanted - std::min(wanted, FreeBytes())) return status;
  for (const uint32_t i : EvictionOrder(idle.candidates, Costs())) {
    Evict(*idle.sessions[i], reason);
    if (FreeBytes() < wanted) continue;
    status = attempt();
    if (!absl::IsResourceExhausted(status)) return status;
  }
  return status;
}

absl::Status Engine::WithRoomOrReason(uint64_t wanted, const Session* except, const char* reason,
                                      absl::FunctionRef<absl::Status()> attempt) {
  absl::Status status = WithRoom(wanted, except, reason, attempt);
  return absl::IsResourceExhausted(status) && status.message().empty() ? attempt() : status;
}

void Engine::TakeInput(ActiveTurn& turn) {
  turn.TakeInput([this, &turn](uint64_t wanted, absl::FunctionRef<absl::Status()> attempt) {
    absl::Status charged = ChargeCaches(turn.session().tenant(), &turn.session(),
                                        turn.cache_charge(), turn.cache_charge().bytes() + wanted);
    if (!charged.ok()) return charged;
    return WithRoomOrReason(wanted, &turn.session(), "turn", attempt);
  });
}

void Engine::EvictToBudget() {
  const auto is_over = [this] {
    const ls_memory memory = model_->backend().memory();
    return memory.reserved > memory.budget;
  };
  if (is_over()) background_.EndHolders();
  if (is_over()) YieldIdleWork();
  while (is_over() && FreeOldestReturnPoint()) {
  }
  if (!is_over()) return;
  const IdleCaches idle = FindIdle(nullptr);
  for (const uint32_t i : EvictionOrder(idle.candidates, Costs())) {
    Evict(*idle.sessions[i], "budget");
    if (!is_over()) return;
  }
}

absl::Status Engine::MakeCaches(Session& session, const char* reason) {
  if (session.closed()) return absl::CancelledError("the session was closed meanwhile");
  if (session.caches().sequence.valid()) return absl::OkStatus();
  const auto create = [&]() -> absl::Status {
    absl::StatusOr<Sequence> sequence = model_->backend().CreateSequence();
    if (!sequence.ok()) return sequence.status();
    session.caches().sequence = *std::move(sequence);
    return absl::OkStatus();
  };
  const uint64_t bytes = TurnDemand::SlotBytes(model_->backend().info());
  absl::Status status = ChargeCaches(session.tenant(), &session, session.cache_charge(), bytes);
  if (status.ok()) status = WithRoomOrReason(bytes, &session, reason, create);
  session.ChargeCaches();
  return status;
}

absl::Status Engine::CopyCaches(Session& source, Session& target) {
  const SessionCaches& caches = source.caches();
  SessionCaches& copy = target.caches();
  if (caches.sequence.valid()) {
    const auto fork = [&]() -> absl::Status {
      absl::StatusOr<Sequence> sequence = model_->backend().ForkSequence(caches.sequence);
      if (!sequence.ok()) return sequence.status();
      copy.sequence = *std::move(sequence);
      return absl::OkStatus();
    };
    const uint64_t wanted = TurnDemand::SlotBytes(model_->backend().info());
    absl::Status status = ChargeCaches(target.tenant(), &source, target.cache_charge(),
                                       Total(caches.sequence.bytes()));
    if (status.ok()) status = WithRoomOrReason(wanted, &source, "fork", fork);
    target.ChargeCaches();
    if (!status.ok()) return status;
  }
  copy.computed_tokens = caches.computed_tokens;
  copy.recompute_reason = caches.recompute_reason;
  copy.evicted = caches.evicted;
  copy.lowest_rewind = caches.lowest_rewind;
  copy.prefill_tokens = caches.prefill_tokens;
  copy.decode_tokens = caches.decode_tokens;
  copy.span_ends = caches.span_ends;
  copy.other_kernels = caches.other_kernels;
  return absl::OkStatus();
}

absl::Status Engine::CopySession(TurnLease& source, TurnLease& target) {
  Session& from = *source.session();
  Session& to = *target.session();
  if (to.closed()) return absl::CancelledError("the new session was closed meanwhile");
  if (from.closed()) return NoSession(from.id());
  if (model_->backend().closed()) return CheckOpen();
  // A source without caches gives its tokens and their feed. The next turn of the copy computes the
  // caches.
  if (absl::Status status = CopyCaches(from, to); !status.ok()) return status;
  target.state() = source.state();
  if (from.stored_caches() != nullptr && to.stored_caches() != nullptr) {
    to.stored_caches()->CopyKeys(*from.stored_caches());
    to.caches().unchanged = from.caches().unchanged;
  }
  NoteStored(to);
  return absl::OkStatus();
}

}  // namespace longstream
