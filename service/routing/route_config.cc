// Checks the fields of a routing alias.
#include "service/routing/route_config.h"

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

absl::Status CheckTime(const char* field, const std::optional<absl::Duration>& time) {
  if (!time.has_value() || (*time > absl::ZeroDuration() && *time <= kMaxRouteTime)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected more than 0 and at most ",
                                                 absl::FormatDuration(kMaxRouteTime), ", found ",
                                                 absl::FormatDuration(*time)));
}

absl::Status CheckTokens(const char* field, uint64_t tokens) {
  if (tokens >= 1 && tokens <= kMaxRouteTokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": expected 1 to ", kMaxRouteTokens, ", found ", tokens));
}

}  // namespace

absl::Status CheckBudgets(const RouteBudgets& budgets) {
  absl::Status status = CheckTime("max_time_to_first_token", budgets.time_to_first_token);
  return status.ok() ? CheckTime("max_time_per_token", budgets.time_per_token) : status;
}

absl::Status CheckRoute(const RouteConfig& route) {
  if (absl::Status status = CheckBudgets(route.budgets); !status.ok()) return status;
  absl::Status status = CheckTokens("prompt_tokens", route.prompt_tokens);
  return status.ok() ? CheckTokens("max_tokens", route.max_tokens) : status;
}

}  // namespace longstream
