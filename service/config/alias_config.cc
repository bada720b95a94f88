// Checks the fields of an alias.
#include "service/config/alias_config.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "service/config/names.h"

namespace longstream {
namespace {

absl::Status CheckShadow(const AliasShadow& shadow) {
  if (shadow.model.empty()) {
    return absl::InvalidArgumentError("shadow.model: expected a model, found ''");
  }
  if (shadow.share >= 0.0 && shadow.share <= 1.0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("shadow.share: expected a number from 0 to 1, found ", shadow.share));
}

}  // namespace

absl::Status CheckAlias(const AliasConfig& alias) {
  if (absl::Status status = CheckName("name", alias.name); !status.ok()) return status;
  for (const char* const prefix : {"longstream.", "grpc."}) {
    if (!alias.name.starts_with(prefix)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("name: names that begin with '", prefix,
                     "' are those of services in the health service; found '", alias.name, "'"));
  }
  if (alias.arms.empty() || alias.arms.size() > kMaxAliasArms) {
    return absl::InvalidArgumentError(
        absl::StrCat("arms: expected 1 to ", kMaxAliasArms, " models, found ", alias.arms.size()));
  }
  std::set<std::string> models;
  uint64_t sum = 0;
  for (const AliasArm& arm : alias.arms) {
    if (arm.model.empty()) return absl::InvalidArgumentError("arms: expected a model, found ''");
    if (!models.insert(arm.model).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("arms: two have the model ", EscapedName(arm.model)));
    }
    if (arm.weight > kMaxArmWeight) {
      return absl::InvalidArgumentError(absl::StrCat("arms: the weight of ", EscapedName(arm.model),
                                                     " is expected to be 0 to ", kMaxArmWeight,
                                                     ", found ", arm.weight));
    }
    if (alias.route.has_value() && arm.weight != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("arms: the arms of a route have no weights, and ", EscapedName(arm.model),
                       " has ", arm.weight));
    }
    sum += arm.weight;
  }
  if (alias.route.has_value()) {
    if (absl::Status status = CheckRoute(*alias.route); !status.ok()) return status;
  } else if (sum == 0) {
    return absl::InvalidArgumentError("arms: expected a weight of 1 or more, found only 0");
  }
  return alias.shadow.has_value() ? CheckShadow(*alias.shadow) : absl::OkStatus();
}

}  // namespace longstream
