// The configuration of an alias: a name behind which one of several models serves each session.
#ifndef LONGSTREAM_SERVICE_CONFIG_ALIAS_CONFIG_H_
#define LONGSTREAM_SERVICE_CONFIG_ALIAS_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/routing/route_config.h"

namespace longstream {

inline constexpr size_t kMaxAliases = 256;
inline constexpr size_t kMaxAliasArms = 8;
inline constexpr uint64_t kMaxArmWeight = 1'000'000;

// A model of an alias. Its part of the sessions is its weight divided by the sum of the weights.
struct AliasArm {
  std::string model;
  uint64_t weight = 0;  // 0: no session begins on it

  friend bool operator==(const AliasArm&, const AliasArm&) = default;
};

// A share of the turns of an alias is replayed on another model, to compare the two.
struct AliasShadow {
  std::string model;
  double share = 0.0;  // of the turns, 0 ... 1

  friend bool operator==(const AliasShadow&, const AliasShadow&) = default;
};

struct AliasConfig {
  std::string name;
  std::vector<AliasArm> arms;
  std::optional<AliasShadow> shadow = std::nullopt;
  // Present: the alias chooses the arm of a session by the length of the request and by budgets.
  // The arms are then in the operator's order of preference, and their weights are 0.
  std::optional<RouteConfig> route = std::nullopt;

  friend bool operator==(const AliasConfig&, const AliasConfig&) = default;
};

// Checks the alias alone. INVALID_ARGUMENT: the name has not the form that CheckName says, or is
// that of a service; there are no arms or too many; two arms have the same model; a weight is too
// large; all are 0; the shadow has no model, or its share is not a number from 0 to 1. With a
// route: a weight is not 0; or as for CheckRoute. The message names the field ("name", "arms",
// "shadow", or one of the route), the value and the limit.
absl::Status CheckAlias(const AliasConfig& alias);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_ALIAS_CONFIG_H_
