// Reads and checks the part of the configuration that makes the server a replica of a fleet.
#ifndef LONGSTREAM_SERVICE_CONFIG_READ_FLEET_H_
#define LONGSTREAM_SERVICE_CONFIG_READ_FLEET_H_

#include <string>

#include "absl/status/status.h"
#include "service/config/fleet_config.h"
#include "service/config/server_config.h"
#include "service/config/yaml/yaml_reader.h"

namespace longstream {

// Reads the map `fleet`. INVALID_ARGUMENT: as ReadConfigFile says.
absl::Status ReadFleet(const YamlNode& node, FleetConfig* fleet);

// Checks what flags may have set, and keys that need others: a store in PostgreSQL, addresses that
// others can use, and credentials, so that only replicas can say that they are some.
// INVALID_ARGUMENT: the message names the key.
absl::Status CheckFleet(const ServerConfig& config);

// The id of this replica: the configured one, or the name of the host.
std::string ReplicaIdOf(const FleetConfig& fleet);

// The address under which other replicas reach this listener. `port`: the one that was bound.
std::string AdvertisedAddress(const std::string& configured, const std::string& listen, int port);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_READ_FLEET_H_
