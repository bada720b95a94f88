// Reads the tenants of the configuration.
#ifndef LONGSTREAM_SERVICE_CONFIG_READ_TENANTS_H_
#define LONGSTREAM_SERVICE_CONFIG_READ_TENANTS_H_

#include <vector>

#include "absl/status/status.h"
#include "service/config/tenant_config.h"
#include "service/config/yaml/yaml_reader.h"

namespace longstream {

// Reads a list of tenants and adds them. INVALID_ARGUMENT: as YamlNode; and a name is missing, is
// not one to 64 letters, digits, dots, hyphens and underscores, or is there twice.
absl::Status ReadTenants(const YamlNode& node, std::vector<TenantConfig>* tenants);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_READ_TENANTS_H_
