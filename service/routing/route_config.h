// The configuration of an alias that chooses its model by the length of a request and by budgets.
#ifndef LONGSTREAM_SERVICE_ROUTING_ROUTE_CONFIG_H_
#define LONGSTREAM_SERVICE_ROUTING_ROUTE_CONFIG_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace longstream {

inline constexpr absl::Duration kMaxRouteTime = absl::Hours(24);
inline constexpr uint64_t kMaxRouteTokens = uint64_t{1} << 31;

// The limits of the costs of a request. Absent: there is no such limit.
struct RouteBudgets {
  std::optional<absl::Duration> time_to_first_token;
  std::optional<absl::Duration> time_per_token;
  uint64_t session_bytes = 0;  // 0: no limit

  bool any() const { return time_to_first_token || time_per_token || session_bytes > 0; }
  friend bool operator==(const RouteBudgets&, const RouteBudgets&) = default;
};

struct RouteConfig {
  RouteBudgets budgets = {};  // of requests that give none themselves
  // The expectations of requests that state none.
  uint64_t prompt_tokens = 1024;
  uint64_t max_tokens = 256;

  friend bool operator==(const RouteConfig&, const RouteConfig&) = default;
};

// INVALID_ARGUMENT: a budget of time that is not above 0 and at most kMaxRouteTime. The message
// names the field ("max_time_to_first_token", "max_time_per_token"), the value and the limit.
absl::Status CheckBudgets(const RouteBudgets& budgets);
// As CheckBudgets; and the tokens are 1 to kMaxRouteTokens ("prompt_tokens", "max_tokens").
absl::Status CheckRoute(const RouteConfig& route);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ROUTING_ROUTE_CONFIG_H_
