// The arms of an alias as a message.
#include "service/serving/log/alias_codec.h"

#include "absl/status/status.h"
#include "turn_log.pb.h"

namespace longstream {

std::string EncodeArms(const std::vector<AliasArm>& arms) {
  log::AliasArms to;
  for (const AliasArm& arm : arms) {
    log::AliasArm* const added = to.add_arms();
    added->set_model(arm.model);
    added->set_weight(arm.weight);
  }
  return to.SerializeAsString();
}

absl::StatusOr<std::vector<AliasArm>> DecodeArms(const std::string& bytes) {
  log::AliasArms from;
  if (!from.ParseFromString(bytes)) {
    return absl::DataLossError("store: the row of an alias is damaged");
  }
  std::vector<AliasArm> to;
  for (const log::AliasArm& arm : from.arms()) to.push_back({arm.model(), arm.weight()});
  return to;
}

}  // namespace longstream
