// Reads and checks the part of the configuration that names the store.
#ifndef LONGSTREAM_SERVICE_CONFIG_READ_STORE_H_
#define LONGSTREAM_SERVICE_CONFIG_READ_STORE_H_

#include <string>

#include "absl/status/status.h"
#include "service/config/server_config.h"
#include "service/config/yaml/yaml_reader.h"

namespace longstream {

// Whether a store is in PostgreSQL, and not in a directory.
bool IsPostgresUrl(const std::string& url);

// Reads the map `store`. INVALID_ARGUMENT: as ReadConfigFile says.
absl::Status ReadStore(const YamlNode& node, ServerConfig* config);

// Checks what flags may have set, and keys that need another key. INVALID_ARGUMENT: the message
// names the key.
absl::Status CheckStore(const ServerConfig& config);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_READ_STORE_H_
