// Converts aliases to the bytes of the store's rows and back.
#ifndef LONGSTREAM_SERVICE_SERVING_LOG_ALIAS_CODEC_H_
#define LONGSTREAM_SERVICE_SERVING_LOG_ALIAS_CODEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/config/alias_config.h"

namespace longstream {

// No arms: the alias was deleted.
std::string EncodeArms(const std::vector<AliasArm>& arms);
// DATA_LOSS: the bytes are not those of arms.
absl::StatusOr<std::vector<AliasArm>> DecodeArms(const std::string& bytes);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_LOG_ALIAS_CODEC_H_
