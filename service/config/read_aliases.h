// Reads and checks the aliases of the configuration.
#ifndef LONGSTREAM_SERVICE_CONFIG_READ_ALIASES_H_
#define LONGSTREAM_SERVICE_CONFIG_READ_ALIASES_H_

#include <vector>

#include "absl/status/status.h"
#include "service/config/alias_config.h"
#include "service/config/server_config.h"
#include "service/config/yaml/yaml_reader.h"

namespace longstream {

// Reads a list of aliases and adds them to the configuration, with their places. INVALID_ARGUMENT:
// as YamlNode and CheckAlias; and a name is there twice, or there are more than kMaxAliases.
absl::Status ReadAliases(const YamlNode& node, ServerConfig* config);

// INVALID_ARGUMENT: an alias has the name of a model, or an arm is no model of the configuration.
// The message begins with the place of the alias, if that is known.
absl::Status CheckAliases(const ServerConfig& config);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_READ_ALIASES_H_
