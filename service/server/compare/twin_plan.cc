// Gives the twin the history and the prompt of its turn.
#include "service/server/compare/twin_plan.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/server/compare/compare_plan.h"

namespace longstream {

absl::StatusOr<TwinPlan> PlanTwin(const std::string& tenant, const std::string& model,
                                  const NewTurn& turn, const TurnRequest& request,
                                  const SessionManager& sessions) {
  TwinPlan plan;
  plan.model = model;
  const std::vector<int32_t>& history = turn.history().tokens;
  const uint64_t kept = request.kept_tokens.value_or(history.size());
  const uint64_t context = turn.model().backend().info().context_limit;
  RouteAsk ask;
  ask.prompt_tokens = kept + request.prompt.size();
  ask.max_tokens = MostTokens(request, ask.prompt_tokens, context);
  absl::StatusOr<NewTurn> twin = sessions.OwnTurn(tenant, model, ask);
  if (absl::IsNotFound(twin.status())) {
    return AboutModel("twin_model", twin.status());
  }
  if (!twin.ok()) {
    plan.lost = twin.status();
    return plan;
  }
  plan.model = twin->model().name();  // `model` may be an alias
  const std::string why = WhyNotComparable(twin->model(), turn.model());
  if (!why.empty()) return absl::FailedPreconditionError(absl::StrCat("twin_model: ", why));
  if (absl::Status status = twin->Lease(); !status.ok()) {
    plan.lost = twin->Refuse(status);
    return plan;
  }
  std::vector<int32_t>& prompt = plan.request.prompt;
  prompt.reserve(kept + request.prompt.size());
  prompt.assign(history.begin(), history.begin() + static_cast<ptrdiff_t>(kept));
  prompt.insert(prompt.end(), request.prompt.begin(), request.prompt.end());
  plan.most_tokens = ask.max_tokens;
  // The twin draws nothing of its own, so it needs no sampling and no stop rules.
  plan.request.kind = TurnKind::kGenerate;
  plan.request.priority = request.priority;
  plan.request.max_tokens = request.max_tokens;
  plan.request.own_session = true;
  plan.turn.emplace(*std::move(twin));
  return plan;
}

}  // namespace longstream
