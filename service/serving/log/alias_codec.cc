// An alias as a message.
#include "service/serving/log/alias_codec.h"

#include "absl/status/status.h"
#include "turn_log.pb.h"

namespace longstream {

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
  return to;
}

}  // namespace longstream
