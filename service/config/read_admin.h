// The keys of the operators' listener.
#ifndef LONGSTREAM_SERVICE_CONFIG_READ_ADMIN_H_
#define LONGSTREAM_SERVICE_CONFIG_READ_ADMIN_H_

#include "absl/status/status.h"
#include "service/config/server_config.h"
#include "service/config/yaml/yaml_reader.h"

namespace longstream {

absl::Status ReadAdmin(const YamlNode& node, ServerConfig* config);

// Checks that only operators can reach the listener, and that no token goes over a network in plain
// text unless the configuration says so. INVALID_ARGUMENT: the message names the key.
absl::Status CheckAdmin(const ServerConfig& config);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_READ_ADMIN_H_
