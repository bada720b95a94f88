// The keys of the HTTP listener, which serves clients that know nothing of sessions.
#ifndef LONGSTREAM_SERVICE_CONFIG_HTTP_CONFIG_H_
#define LONGSTREAM_SERVICE_CONFIG_HTTP_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/config/security_config.h"
#include "service/config/yaml/yaml_reader.h"

namespace longstream {

struct HttpConfig {
  std::string listen;  // host:port; empty: no listener
  uint64_t max_connections = 1024;
  uint64_t max_requests = 256;                      // that are answered at once
  uint64_t max_body_bytes = uint64_t{16} << 20;     // of one request
  uint64_t max_sessions = 1000;                     // that are kept for conversations
  absl::Duration idle_timeout = absl::Minutes(10);  // of these sessions
  bool durable = false;                             // each turn is stored before its answer ends
  absl::Duration ttl = absl::Hours(24);             // of sessions that no turn uses, if durable
  uint32_t default_max_tokens = 0;                  // of chats that name none; 0: no limit
  bool page = true;                                 // offer the web page
  std::vector<std::string> allowed_origins;         // of web pages; "*": all
  TlsConfig tls;
};

// Reads the map `http`. INVALID_ARGUMENT: as ReadConfigFile says.
absl::Status ReadHttp(const YamlNode& node, HttpConfig* http);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_HTTP_CONFIG_H_
