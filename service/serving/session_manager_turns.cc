// Makes turns: for sessions that are in memory or in the store, and without a session.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/serving/session_manager.h"

namespace longstream {

absl::StatusOr<NewTurn> SessionManager::MakeTurn(
    const std::shared_ptr<Session>& session, std::shared_ptr<SessionTurns> turns,
    const std::optional<SessionTurns::Looked>& looked) const {
  absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find(session->model());
  if (!engine.ok()) return engine.status();
  return NewTurn(session, std::move(turns), *std::move(engine), session->tenant(), looked);
}

absl::StatusOr<NewTurn> SessionManager::TurnOf(const SessionKey& key,
                                               const std::optional<TurnId>& id) const {
  heap_trim_.NoteWork();
  const absl::StatusOr<FoundSession> session = FindOrRestore(key);
  if (!session.ok()) return session.status();
  std::shared_ptr<SessionTurns> turns = TurnsOf(**session);
  if (turns == nullptr) return NoSession(key.id);  // the session was closed meanwhile
  if (!id.has_value()) return MakeTurn(session->session, std::move(turns), std::nullopt);
  const absl::StatusOr<SessionTurns::Looked> looked = turns->Look(*id);
  if (!looked.ok()) return looked.status();
  return MakeTurn(session->session, std::move(turns), *looked);
}

void SessionManager::LoadTurn(const SessionKey& key, const std::optional<TurnId>& id,
                              std::function<void(absl::StatusOr<NewTurn>)> loaded) {
  const std::optional<FoundSession> session = FindInMemory(key);
  std::shared_ptr<SessionTurns> turns = session.has_value() ? TurnsOf(**session) : nullptr;
  std::optional<SessionTurns::Looked> looked;
  if (turns != nullptr && id.has_value()) looked = turns->LookInMemory(*id);
  if (turns != nullptr && looked.has_value() == id.has_value()) {
    heap_trim_.NoteWork();
    return loaded(MakeTurn(session->session, std::move(turns), looked));
  }
  Read<NewTurn>(
      {key.tenant, key.id}, [this, key, id] { return TurnOf(key, id); }, std::move(loaded));
}

void SessionManager::LoadAnswer(
    const NewTurn& turn, std::function<void(absl::StatusOr<SessionTurns::Committed>)> loaded) {
  if (!turn.durable()) return loaded(turn.AnswerReader()());
  Read<SessionTurns::Committed>({turn.tenant().name()}, turn.AnswerReader(), std::move(loaded));
}

absl::StatusOr<NewTurn> SessionManager::OwnTurn(const std::string& tenant,
                                                std::string_view model) const {
  heap_trim_.NoteWork();
  absl::StatusOr<std::shared_ptr<Tenant>> found = models_->tenants().Find(tenant);
  if (!found.ok()) return found.status();
  absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find(model);
  if (!engine.ok()) return engine.status();
  return NewTurn(nullptr, nullptr, *std::move(engine), *std::move(found));
}

absl::StatusOr<NewTurn> SessionManager::ScoreWith(const std::string& tenant,
                                                  std::string_view model) const {
  absl::StatusOr<NewTurn> turn = OwnTurn(tenant, model);
  if (!turn.ok() || turn->model().backend().plugin().Can(LS_CAP_SCORE)) return turn;
  return turn->Refuse(absl::UnimplementedError(
      absl::StrCat("the backend of model ", turn->model().name(), " cannot score a text")));
}

}  // namespace longstream
