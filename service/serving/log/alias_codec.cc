// An alias as a message.
#include "service/serving/log/alias_codec.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "turn_log.pb.h"

namespace longstream {

namespace {

absl::Duration Time(int64_t nanoseconds) { return absl::Nanoseconds(nanoseconds); }

void EncodeRoute(const RouteConfig& route, log::AliasRoute* to) {
  const RouteBudgets& budgets = route.budgets;
  if (budgets.time_to_first_token) {
    to->set_max_time_to_first_token_ns(absl::ToInt64Nanoseconds(*budgets.time_to_first_token));
  }
  if (budgets.time_per_token) {
    to->set_max_time_per_token_ns(absl::ToInt64Nanoseconds(*budgets.time_per_token));
  }
  to->set_max_session_bytes(budgets.session_bytes);
  to->set_prompt_tokens(route.prompt_tokens);
  to->set_max_tokens(route.max_tokens);
}

RouteConfig DecodeRoute(const log::AliasRoute& from) {
  RouteConfig route;
  RouteBudgets& budgets = route.budgets;
  if (from.max_time_to_first_token_ns() != 0) {
    budgets.time_to_first_token = Time(from.max_time_to_first_token_ns());
  }
  if (from.max_time_per_token_ns() != 0) {
    budgets.time_per_token = Time(from.max_time_per_token_ns());
  }
  budgets.session_bytes = from.max_session_bytes();
  route.prompt_tokens = from.prompt_tokens();
  route.max_tokens = from.max_tokens();
  return route;
}

}  // namespace

std::string EncodeAlias(const AliasConfig& alias) {
  log::AliasArms to;
  for (const AliasArm& arm : alias.arms) {
    log::AliasArm* const added = to.add_arms();
    added->set_model(arm.model);
    added->set_weight(arm.weight);
  }
  if (alias.shadow.has_value()) {
    to.mutable_shadow()->set_model(alias.shadow->model);
    to.mutable_shadow()->set_share(alias.shadow->share);
  }
  if (alias.route.has_value()) EncodeRoute(*alias.route, to.mutable_route());
  return to.SerializeAsString();
}

absl::StatusOr<AliasConfig> DecodeAlias(const std::string& name, const std::string& bytes) {
  log::AliasArms from;
  if (!from.ParseFromString(bytes)) {
    return absl::DataLossError("store: the row of an alias is damaged");
  }
  AliasConfig to{name, {}};
  for (const log::AliasArm& arm : from.arms()) to.arms.push_back({arm.model(), arm.weight()});
  if (from.has_shadow()) to.shadow = AliasShadow{from.shadow().model(), from.shadow().share()};
  if (from.has_route()) to.route = DecodeRoute(from.route());
  return to;
}

}  // namespace longstream
