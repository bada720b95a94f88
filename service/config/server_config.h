// The configuration of a server: one YAML file, and flags that override it. docs/configuration.md
// lists every key.
#ifndef LONGSTREAM_SERVICE_CONFIG_SERVER_CONFIG_H_
#define LONGSTREAM_SERVICE_CONFIG_SERVER_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/config/alias_config.h"
#include "service/config/batch_limits.h"
#include "service/config/fleet_config.h"
#include "service/config/http_config.h"
#include "service/config/security_config.h"
#include "service/config/tenant_config.h"

namespace longstream {

struct ModelConfig {
  std::string name;
  std::string directory;
  std::string backend;          // empty: the plugin that fits best
  std::string device = "auto";  // auto, cpu, cuda, cuda:N
  std::string version = "1";
  uint64_t cache_bytes = 0;  // 0: a share of the memory that is left
  std::string options_json = "{}";
};

struct ServerConfig {
  std::string listen = "127.0.0.1:50051";
  std::string metrics_listen = "127.0.0.1:9464";     // empty: no metrics port
  uint64_t max_message_bytes = 64 << 20;             // limit for one request
  uint64_t max_transit_bytes = 1 << 30;              // limit for all requests being received
  std::string plugin_directory;                      // empty: found relative to the binary
  uint32_t threads = 0;                              // 0: one per processor that may be used
  uint64_t memory_bytes = 0;                         // 0: all of the machine or control group
  absl::Duration grace = absl::Seconds(30);          // time for running turns after SIGTERM
  absl::Duration drain_timeout = absl::Seconds(30);  // then: time for handing sessions to replicas
  std::string log_level = "info";                    // debug, info, warning, error

  uint32_t max_batch_tokens = kDefaultBatchTokens;
  uint32_t max_batch_sequences = kDefaultBatchSequences;
  uint64_t max_open_turns = 1024;
  uint64_t max_waiting_turns = 256;
  uint64_t stream_buffer_bytes = 65536;
  absl::Duration client_timeout = absl::Minutes(5);
  absl::Duration time_slice = kDefaultTimeSlice;
  // A step that also reads prompts may take at most this many times as long as its decode rows
  // alone.
  uint32_t max_decode_stretch = 6;

  uint64_t max_connections = 0;              // 0: as many as the descriptors of the process allow
  uint64_t max_connections_per_address = 0;  // 0: no limit
  absl::Duration handshake_timeout = absl::Seconds(10);  // for the first bytes of HTTP/2
  absl::Duration first_request_timeout = absl::Seconds(30);
  bool channelz = false;  // serves gRPC's channelz
  absl::Duration connection_idle_timeout = absl::Minutes(2);

  uint64_t max_sessions = 0;  // 0: only memory is the limit
  absl::Duration idle_timeout = absl::Hours(1);
  absl::Duration max_idle_timeout = absl::Hours(24);
  uint64_t conversation_bytes = 0;            // of one session; 0: no limit but session_host_bytes
  uint64_t session_host_bytes = 0;            // 0: a part of the memory, see docs/configuration.md
  absl::Duration ttl = absl::Hours(30 * 24);  // a stored session that is not used ends
  absl::Duration max_ttl = absl::Hours(90 * 24);  // the longest that a client may name
  absl::Duration keep_rewound = absl::Hours(24);  // for turns that no session's head leads to
  // How long a turn waits for a reader after its last stream has gone.
  absl::Duration resume_window = absl::Seconds(30);
  std::string on_model_change = "refuse";  // or "recompute"
  std::string imports = "any";             // or "sealed": which files ImportSession takes
  uint64_t max_transfers = 64;             // exports and imports that run, of all tenants
  // The bytes of each model's cache budget that return points at the ends of turns may take.
  uint64_t rollback_bytes = uint64_t{64} << 20;

  // The directory of the store, or postgresql://...; empty: sessions live in memory only.
  std::string store_url;
  // How long a call waits until its changes are durable.
  absl::Duration store_commit_timeout = absl::Seconds(10);
  // With PostgreSQL: a directory that all servers share, for long segments of snapshots; empty:
  // none.
  std::string store_segments;
  std::string store_password_file;      // with PostgreSQL: holds the password
  bool store_require_standby = false;   // with PostgreSQL: refuse one without synchronous standby
  uint64_t store_snapshot_bytes = 0;    // for files of snapshots; 0: half of the file system
  std::string store_keys;               // the key file; empty: the store is not sealed
  std::string store_compress = "none";  // or "zstd", before snapshots and exports are sealed

  HttpConfig http;

  TlsConfig tls;          // of the gRPC port
  TlsConfig metrics_tls;  // of the metrics port
  SecurityConfig security;

  // For operators: unix:PATH, or host:port; empty: no listener.
  std::string admin_listen;
  // An operator may load the models in these directories.
  std::vector<std::string> admin_model_directories;

  FleetConfig fleet;
  std::string cluster_listen;  // host:port for health and load in plain text; empty: no listener

  std::vector<TenantConfig> tenants;  // empty: the server has no tenants
  std::vector<ModelConfig> models;
  std::vector<AliasConfig> aliases;
  // Where the file has each alias, by its name: "FILE:LINE: aliases[0]".
  std::map<std::string, std::string> alias_places;
};

// Reads the file `path` into `config`; keys that the file leaves out keep their values.
// INVALID_ARGUMENT: the message names the file, the line, the key, and the expected and the found
// value. For an unknown key it lists the known keys.
absl::Status ReadConfigFile(const std::string& path, ServerConfig* config);
// Does the same as ReadConfigFile for a text. Messages name `origin` instead of a file.
absl::Status ReadConfigText(std::string_view text, std::string_view origin, ServerConfig* config);

// Reads the value of --model, "NAME=DIR[,key=value...]". The keys are those of ModelConfig, and
// options.KEY for options of the backend. Adds a model, or replaces the model of the same name.
absl::Status AddModelFlag(std::string_view flag, ServerConfig* config);

// Reads the values of all --model flags as AddModelFlag does. INVALID_ARGUMENT: two flags have the
// same name; a flag is wrong.
absl::Status AddModelFlags(const std::vector<std::string>& flags, ServerConfig* config);

// Reads the value of --threads. INVALID_ARGUMENT: the file would refuse the value too.
absl::Status ReadThreadsFlag(std::string_view flag, ServerConfig* config);

// Checks the final configuration: that it has a model or a listener for operators, that the arms of
// aliases are models, that flags set no value that the file would refuse, and that no token goes
// over a network in plain text unless the configuration says so. INVALID_ARGUMENT: the message
// names the key.
absl::Status CheckConfig(const ServerConfig& config);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_SERVER_CONFIG_H_
