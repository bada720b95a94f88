// The keys of the configuration that make a server a replica of a fleet.
#ifndef LONGSTREAM_SERVICE_CONFIG_FLEET_CONFIG_H_
#define LONGSTREAM_SERVICE_CONFIG_FLEET_CONFIG_H_

#include <string>

#include "absl/time/time.h"

namespace longstream {

struct FleetConfig {
  std::string replica_id;      // empty: the name of the host
  std::string peer_listen;     // host:port for other replicas; empty: the server is in no fleet
  std::string peer_address;    // how other replicas reach peer_listen; empty: as peer_listen says
  std::string client_address;  // how clients reach `listen`; empty: as `listen` says
  std::string token_file;  // the token that this replica shows to others; empty: its certificate
  absl::Duration lease_ttl = absl::Seconds(10);
  std::string foreign = "fetch";  // or "redirect": calls for a session of another replica
  absl::Duration min_residency = absl::Seconds(5);

  bool enabled() const { return !peer_listen.empty(); }
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_FLEET_CONFIG_H_
