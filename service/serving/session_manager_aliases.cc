// Models that clients name, perhaps by an alias; and turns without a session.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/serving/session_manager.h"

namespace longstream {

SessionManager::Making::Making(std::string of_tenant, std::optional<SessionId> wanted_id,
                               const char* field, std::optional<absl::Duration> timeout)
    : tenant(std::move(of_tenant)),
      id(wanted_id),
      new_id(wanted_id.has_value() ? *wanted_id : SessionId::Random()),
      id_field(field),
      idle_timeout(timeout) {}

absl::Status SessionManager::CheckKnown(std::string_view model) const {
  if (options_.aliases->Has(model)) return absl::OkStatus();
  absl::Status found = models_->Find(model).status();
  return absl::IsNotFound(found) ? found : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Engine>> SessionManager::FindModel(
    std::string_view model, const std::optional<AliasTable::Chosen>& chosen) const {
  if (!chosen.has_value()) return models_->Find(model);
  absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find(chosen->model);
  if (!engine.ok()) return chosen->Explain(engine.status());
  return engine;
}

std::shared_ptr<ArmMetrics> SessionManager::ArmOf(const Session& session) const {
  if (session.alias().empty()) return nullptr;
  return options_.aliases->MetricsOf(session.alias(), session.model());
}

void SessionManager::CountSession(const std::optional<AliasTable::Chosen>& chosen,
                                  const absl::Status& status) {
  if (!chosen.has_value() || chosen->metrics == nullptr) return;
  chosen->metrics->CountSession(absl::StatusCodeToString(status.code()));
}

absl::StatusOr<NewTurn> SessionManager::OwnTurn(const std::string& tenant,
                                                std::string_view model) const {
  heap_trim_.NoteWork();
  absl::StatusOr<std::shared_ptr<Tenant>> found = models_->tenants().Find(tenant);
  if (!found.ok()) return found.status();
  // There is no session whose id could choose the arm.
  const std::optional<AliasTable::Chosen> chosen =
      options_.aliases->Choose(model, SessionId::Random());
  std::shared_ptr<ArmMetrics> arm = chosen.has_value() ? chosen->metrics : nullptr;
  absl::StatusOr<std::shared_ptr<Engine>> engine = FindModel(model, chosen);
  if (!engine.ok()) {
    if (arm != nullptr) arm->CountRequest(absl::StatusCodeToString(engine.status().code()), "");
    return engine.status();
  }
  return NewTurn(nullptr, nullptr, *std::move(engine), *std::move(found), std::move(arm));
}

absl::StatusOr<NewTurn> SessionManager::ScoreWith(const std::string& tenant,
                                                  std::string_view model) const {
  absl::StatusOr<NewTurn> turn = OwnTurn(tenant, model);
  if (!turn.ok() || turn->model().backend().plugin().Can(LS_CAP_SCORE)) return turn;
  return turn->Refuse(absl::UnimplementedError(
      absl::StrCat("the backend of model ", turn->model().name(), " cannot score a text")));
}

}  // namespace longstream
