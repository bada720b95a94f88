// Makes turns for sessions that are in memory or in the store, and cancels them.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/config/alias_config.h"
#include "service/serving/aliases/arm_choice.h"
#include "service/serving/answer_in_time.h"
#include "service/serving/fleet_calls.h"
#include "service/serving/session_manager.h"

namespace longstream {
namespace {

// Chooses which turns of the session are replayed. Empty: none are.
NewTurn::ChooseTap TapOf(const Session& session, const SessionManagerOptions& options) {
  if (session.alias().empty() || options.shadow_tap == nullptr) return nullptr;
  const std::optional<AliasShadow> shadow = options.aliases->ShadowOf(session.alias());
  if (!shadow.has_value()) return nullptr;
  return [tap = options.shadow_tap, shadow = *shadow, alias = session.alias(),
          id = session.id()](const TurnId& turn) -> std::shared_ptr<AnswerTap> {
    return ChooseForShadow(alias, shadow.share, id, turn) ? tap(shadow.model) : nullptr;
  };
}

}  // namespace

absl::StatusOr<NewTurn> SessionManager::MakeTurn(
    const ServedSession& served, const std::optional<SessionTurns::Looked>& looked) const {
  std::shared_ptr<ArmMetrics> arm = ArmOf(*served.session);
  if (absl::Status status = models_->Check(*served.engine); !status.ok()) {
    if (arm != nullptr) arm->CountRequest(absl::StatusCodeToString(status.code()), "");
    return status;
  }
  NewTurn turn(served.session, served.turns, served.engine, served.session->tenant(),
               std::move(arm), looked);
  turn.SetTap(TapOf(*served.session, options_));
  return turn;
}

absl::StatusOr<NewTurn> SessionManager::TurnOf(const SessionKey& key,
                                               const std::optional<TurnId>& id) const {
  heap_trim_.NoteWork();
  const absl::StatusOr<FoundSession> found = FindOrRestore(key);
  if (!found.ok()) return found.status();
  if (!id.has_value()) return MakeTurn(found->served, std::nullopt);
  const absl::StatusOr<SessionTurns::Looked> looked = found->served.turns->Look(*id);
  if (!looked.ok()) return looked.status();
  return MakeTurn(found->served, *looked);
}

void SessionManager::LoadTurn(const SessionKey& key, const std::optional<TurnId>& id, Loaded loaded,
                              const Relayed& relayed) {
  if (fleet_ != nullptr && fleet_->Shares(key)) {
    return fleet_->LoadTurn(key, id, std::move(loaded), relayed);
  }
  const absl::StatusOr<FoundSession> found = FindInMemory(key);
  std::optional<SessionTurns::Looked> looked;
  if (found.ok() && id.has_value()) looked = found->served.turns->LookInMemory(*id);
  if (found.ok() && looked.has_value() == id.has_value()) {
    heap_trim_.NoteWork();
    return loaded(MakeTurn(found->served, looked));
  }
  Read<NewTurn>(
      {key.tenant, key.id}, [this, key, id] { return TurnOf(key, id); }, std::move(loaded));
}

void SessionManager::LoadHistory(const SessionKey& key, Loaded loaded) {
  if (fleet_ == nullptr || !fleet_->Shares(key)) {
    return LoadTurn(key, std::nullopt, std::move(loaded));
  }
  Read<NewTurn>(
      {key.tenant, key.id}, [this, key] { return fleet_->HistoryOf(key); }, std::move(loaded));
}

void SessionManager::LoadAnswer(
    const NewTurn& turn, std::function<void(absl::StatusOr<SessionTurns::Committed>)> loaded) {
  if (!turn.durable()) return loaded(turn.AnswerReader()());
  Read<SessionTurns::Committed>({turn.tenant().name()}, turn.AnswerReader(), std::move(loaded));
}

void SessionManager::CancelTurn(const SessionKey& key, const TurnId& id,
                                SessionTurns::Cancelled cancelled) {
  const absl::StatusOr<ServedSession> served = FindServed(key);
  const bool may_be_stored = served.ok() ? served->turns->durable() : options_.store != nullptr;
  if (may_be_stored) {
    cancelled = [pending = Pending(),
                 in_time = AnswerInTime(&timers_, CommitTimeout(), std::move(cancelled))](
                    absl::StatusOr<TurnView> turn) { in_time(std::move(turn)); };
  }
  // Another replica may have run the turn; if it runs here, it is cancelled here.
  const bool asks = fleet_ != nullptr && may_be_stored;
  const bool is_here = served.ok() && (!asks || served->turns->IsRunning(id));
  if (is_here && CancelInMemory(*served, id, cancelled)) return;
  if (asks) {
    return fleet_->Change(key, cancelled,
                          [=, this](const Use& use) { CancelNow(key, id, cancelled, use); });
  }
  if (may_be_stored) {
    return RunRead({key.tenant, key.id}, cancelled,
                   [this, key, id, cancelled] { CancelNow(key, id, cancelled, nullptr); });
  }
  cancelled(served.ok() ? served->turns->NoTurn(id) : served.status());
}

void SessionManager::CancelRunning(const SessionKey& key, const TurnId& id,
                                   SessionTurns::Cancelled cancelled) {
  const absl::StatusOr<ServedSession> served = FindServed(key);
  if (!served.ok() || !served->turns->IsRunning(id)) {
    return cancelled(absl::AbortedError(absl::StrCat("turn ", id.ToString(), " of session ",
                                                     key.id.ToString(), " does not run here")));
  }
  cancelled = [pending = Pending(),
               in_time = AnswerInTime(&timers_, CommitTimeout(), std::move(cancelled))](
                  absl::StatusOr<TurnView> turn) { in_time(std::move(turn)); };
  // The session may have left the memory meanwhile.
  if (CancelInMemory(*served, id, cancelled)) return;
  cancelled(served->session->HasMoved());
}

void SessionManager::CancelNow(const SessionKey& key, const TurnId& id,
                               const SessionTurns::Cancelled& cancelled, const Use& use) {
  // Before the turn is cancelled, the session may move; then it is read from the store again.
  for (const bool is_last : {false, true}) {
    const absl::StatusOr<FoundSession> found =
        use == nullptr ? FindOrRestore(key) : fleet_->Find(key, *use);
    if (!found.ok()) return cancelled(found.status());
    const ServedSession& served = found->served;
    const absl::StatusOr<SessionTurns::Looked> looked = served.turns->Look(id);
    if (!looked.ok()) return cancelled(looked.status());
    if (CancelInMemory(served, id, cancelled, use)) return;
    if (!looked->known) return cancelled(served.turns->NoTurn(id));
    if (is_last) cancelled(served.session->HasMoved());
  }
}

bool SessionManager::CancelInMemory(const ServedSession& served, const TurnId& id,
                                    const SessionTurns::Cancelled& cancelled, const Use& use) {
  if (!served.turns->Cancel(id, cancelled, use)) return false;
  served.engine->Wake();
  return true;
}

}  // namespace longstream
