// Models that clients name, perhaps by an alias; and turns without a session.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/serving/session_manager.h"

namespace longstream {

absl::Status SessionManager::CheckKnown(std::string_view model) const {
  if (options_.aliases->Has(model)) return absl::OkStatus();
  absl::Status found = models_->Find(model).status();
  return absl::IsNotFound(found) ? found : absl::OkStatus();
}

absl::StatusOr<FoundEngine> SessionManager::FindNamed(
    std::string_view model, const std::optional<AliasTable::Chosen>& chosen) const {
  if (!chosen.has_value()) return FindModel(model);
  absl::StatusOr<FoundEngine> engine = FindModel(chosen->model);
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

void SessionManager::CountMade(const Session& session, const absl::Status& status) const {
  const std::shared_ptr<ArmMetrics> arm = ArmOf(session);
  if (arm == nullptr) return;
  arm->CountSession(absl::StatusCodeToString(status.code()));
  const std::shared_ptr<const RouteDecision>& routing = session.routing();
  if (status.ok() && routing != nullptr) arm->CountRouted(NameOf(routing->reason));
}

AliasTable::IsServed SessionManager::Served() const {
  return [this](const std::string& model) { return models_->Find(model).ok(); };
}

absl::StatusOr<NewTurn> SessionManager::OwnTurn(const std::string& tenant, std::string_view model,
                                                const RouteAsk& ask) const {
  heap_trim_.NoteWork();
  absl::StatusOr<std::shared_ptr<Tenant>> of = models_->tenants().Find(tenant);
  if (!of.ok()) return of.status();
  // There is no session whose id could choose the arm.
  const std::optional<AliasTable::Chosen> chosen =
      options_.aliases->Choose(model, SessionId::Random(), ask, Served());
  std::shared_ptr<ArmMetrics> arm = chosen.has_value() ? chosen->metrics : nullptr;
  absl::StatusOr<FoundEngine> found = FindNamed(model, chosen);
  if (!found.ok()) {
    if (arm != nullptr) arm->CountRequest(absl::StatusCodeToString(found.status().code()), "");
    return found.status();
  }
  if (arm != nullptr && chosen->routing != nullptr) {
    arm->CountRouted(NameOf(chosen->routing->reason));
  }
  return NewTurn(std::move(found->engine), std::move(found->hold), *std::move(of), std::move(arm));
}

absl::StatusOr<FoundEngine> SessionManager::FindForText(const std::string& tenant,
                                                        std::string_view model,
                                                        const RouteAsk& ask) const {
  heap_trim_.NoteWork();
  if (absl::Status known = models_->tenants().Find(tenant).status(); !known.ok()) return known;
  return FindNamed(model, options_.aliases->Choose(model, SessionId::Random(), ask, Served()));
}

absl::StatusOr<NewTurn> SessionManager::ScoreWith(const std::string& tenant, std::string_view model,
                                                  const RouteAsk& ask) const {
  absl::StatusOr<NewTurn> turn = OwnTurn(tenant, model, ask);
  if (!turn.ok() || turn->model().backend().plugin().Can(LS_CAP_SCORE)) return turn;
  return turn->Refuse(absl::UnimplementedError(
      absl::StrCat("the backend of model ", turn->model().name(), " cannot score a text")));
}

}  // namespace longstream
