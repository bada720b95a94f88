// Makes turns for sessions that are in memory or in the store.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "service/config/alias_config.h"
#include "service/serving/aliases/arm_choice.h"
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

}  // namespace longstream
