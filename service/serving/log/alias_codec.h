// Converts aliases to the bytes of the store's rows and back.
#ifndef LONGSTREAM_SERVICE_SERVING_LOG_ALIAS_CODEC_H_
#define LONGSTREAM_SERVICE_SERVING_LOG_ALIAS_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/config/alias_config.h"

namespace longstream {

// Everything but the name. No arms: the alias was deleted. Programs that do not know routes refuse
// the arms of one, because all weights are 0.
std::string EncodeAlias(const AliasConfig& alias);
// DATA_LOSS: the bytes are not those of an alias.
absl::StatusOr<AliasConfig> DecodeAlias(const std::string& name, const std::string& bytes);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_LOG_ALIAS_CODEC_H_
