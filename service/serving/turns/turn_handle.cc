// Prepares and starts turns.
#include "service/serving/turns/turn_handle.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"

namespace longstream {

absl::StatusOr<NewTurn::How> NewTurn::Name(const TurnId& id, TurnKind kind,
                                           const std::string& digest) {
  if (!looked_.has_value() || looked_->id != id) {
    return absl::InternalError(absl::StrCat("turn ", id.ToString(), " was not looked up"));
  }
  // Before Begin, after which the call that runs the turn would find it taken.
  const bool only_attaches = use_ != nullptr && use_->attaches();
  const auto not_running = [&id] {
    return absl::UnavailableError(
        absl::StrCat("turn_id: turn ", id.ToString(),
                     " is about to run, or has just ended, in another call; send the request again "
                     "with the same turn_id"));
  };
  if (only_attaches && !turns_->IsRunningOrCommitted(id)) return not_running();
  absl::StatusOr<SessionTurns::Found> found = turns_->Begin(*looked_, kind, digest);
  if (!found.ok()) return found.status();
  if (only_attaches && found->entry != nullptr) return not_running();
  if (replays_only_ && !found->committed) {
    return absl::UnavailableError(
        absl::StrCat("turn_id: turn ", id.ToString(), " is not committed; send the request again"));
  }
  // A turn that runs has its own use; one that was committed needs none.
  const std::shared_ptr<fleet::SessionUse> use = std::exchange(use_, nullptr);
  entry_ = std::move(found->entry);
  if (entry_ != nullptr) entry_->SetUse(use);
  lost_ = std::move(found->lost);
  if (found->running != nullptr) {
    running_ = TurnHandle(engine_, std::move(found->running));
    return How::kAttached;
  }
  if (found->committed) {
    awaited_ = {};  // its answer needs turns_ only, so the session may expire or move
    return How::kReplayed;
  }
  return lost_.has_value() ? How::kLost : How::kNew;
}

std::function<absl::StatusOr<SessionTurns::Committed>()> NewTurn::AnswerReader() const {
  return [turns = turns_, id = looked_->id] { return turns->ReadCommitted(id); };
}

TurnHandle NewTurn::Replay(SessionTurns::Committed committed) const {
  TurnRequest request;
  request.kind = TurnKind::kGenerate;
  request.outlives_reader = true;
  auto replay = std::make_shared<Turn>(std::move(request));
  replay->stream.Replay(std::move(committed.answer), std::move(committed.end));
  return {engine_, std::move(replay)};
}

std::string NewTurn::Id(TurnKind kind) {
  BeginDrawn(kind);
  return entry_->id().ToString();
}

void NewTurn::BeginDrawn(TurnKind kind) {
  entry_ = drawn_id_.has_value() ? turns_->BeginDrawn(kind, *drawn_id_) : turns_->BeginDrawn(kind);
  entry_->SetUse(std::exchange(use_, nullptr));
}

absl::StatusOr<std::vector<int32_t>> NewTurn::CopyTokens() const {
  if (absl::Status status = engine_->CheckOpen(); !status.ok()) return status;
  return session_->CopyTokens();
}

absl::Status NewTurn::Lease(std::optional<uint64_t> expected_position) {
  if (session_ == nullptr) {
    if (absl::Status status = engine_->CheckOpen(); !status.ok()) return status;
    lease_ =
        TurnLease::OfNewSession(SessionId{}, model().name(), model().backend().info().context_limit,
                                absl::InfiniteDuration(), host_memory(), tenant_);
    return lease_.ChargeNew(/*source=*/nullptr);
  }
  absl::StatusOr<TurnLease> lease = TurnLease::Take(session_, expected_position);
  if (lease.ok()) {
    // While the lease is held, the session stays on its engine.
    absl::Status status = session_->CheckHome(engine_.get());
    if (!status.ok()) return status;
  }
  if (absl::Status status = engine_->CheckOpen(); !status.ok()) return status;
  if (is_shared_ && absl::IsNotFound(lease.status())) {
    return absl::AbortedError(absl::StrCat("session ", session_->id().ToString(),
                                           " has just left this server; send the request again"));
  }
  if (!lease.ok()) return lease.status();
  lease_ = *std::move(lease);
  awaited_ = AwaitedSession();
  return absl::OkStatus();
}

absl::Status NewTurn::Refuse(absl::Status status) const {
  engine_->CountRefusal(status);
  CountInArm(status);
  return status;
}

void NewTurn::CountInArm(const absl::Status& refusal) const {
  if (arm_ != nullptr) arm_->CountRequest(absl::StatusCodeToString(refusal.code()), "");
}

TurnHandle NewTurn::Make(TurnRequest request, std::function<void()> wake) {
  auto turn = std::make_shared<Turn>(std::move(request));
  turn->arm = arm_;
  turn->stream.SetReader(std::move(wake));
  if (turn->request.outlives_reader || durable()) turn->stream.KeepAnswer();
  if (turns_ != nullptr && entry_ == nullptr) BeginDrawn(turn->request.kind);
  if (entry_ != nullptr) {
    if (choose_tap_ && turn->request.kind == TurnKind::kGenerate) {
      turn->tap = choose_tap_(entry_->id());
    }
    entry_->SetTurn(turn, [engine = engine_.get()] { engine->Wake(); });
    turn->journal = std::move(entry_);
  }
  return TurnHandle(engine_, std::move(turn));
}

absl::Status NewTurn::TakeQuota(const TurnHandle& handle) {
  const TurnRequest& request = handle.request();
  const uint64_t most = std::min(request.max_tokens, model().backend().info().context_limit);
  absl::Status charged = handle.turn_->Charge(host_memory());
  if (!charged.ok()) return charged;
  absl::StatusOr<TurnAllowance> allowance = tenant_->BeginTurn(request.prompt.size() + most);
  if (!allowance.ok()) return allowance.status();
  handle.turn_->allowance = *std::move(allowance);
  return absl::OkStatus();
}

absl::Status NewTurn::Start(const TurnHandle& handle) {
  const absl::Status allowed = TakeQuota(handle);
  absl::Status status = allowed;
  if (allowed.ok()) {
    status = engine_->Start(handle.turn_, std::move(lease_));
    if (!status.ok()) CountInArm(status);
  } else {
    Refuse(allowed).IgnoreError();
  }
  hold_ = nullptr;  // the engine counts the turn
  if (status.ok()) return status;
  handle.turn_->allowance.GiveBack();
  lease_.Drop();
  handle.turn_->journal = nullptr;  // the turn's id is free again
  if (handle.outlives_reader()) {
    // Another call may have attached to the turn.
    TurnEnd end;
    end.status = status;
    handle.turn_->stream.Finish(std::move(end));
  }
  return status;
}

}  // namespace longstream
