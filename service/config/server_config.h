// A server's configuration: one YAML file, and flags that override it. docs/configuration.md lists
// every key.
#ifndef LONGSTREAM_SERVICE_CONFIG_SERVER_CONFIG_H_
#define LONGSTREAM_SERVICE_CONFIG_SERVER_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/config/batch_limits.h"

namespace longstream {

struct ModelConfig {
  std::string name;
  std::string directory;
  std::string backend;          // empty: the plugin with the best fit
  std::string device = "auto";  // auto, cpu, cuda, cuda:N
  std::string version = "1";
  uint64_t cache_bytes = 0;  // 0: unlimited
  std::string options_json = "{}";
};

struct ServerConfig {
  std::string listen = "127.0.0.1:50051";
  std::string metrics_listen = "127.0.0.1:9464";  // empty: no metrics port
  uint64_t max_message_bytes = 64 << 20;          // of a request
  uint64_t max_transit_bytes = 1 << 30;           // of requests that are on their way in
  std::string plugin_directory;                   // empty: beside the binary, as installed or built
  uint32_t threads = 0;                           // 0: one per core
  absl::Duration grace = absl::Seconds(30);       // for running turns after SIGTERM
  std::string log_level = "info";                 // debug, info, warning, error

  uint32_t max_batch_tokens = kDefaultBatchTokens;
  uint32_t max_batch_sequences = kDefaultBatchSequences;
  uint64_t max_open_turns = 1024;
  uint64_t max_waiting_turns = 256;
  uint64_t stream_buffer_bytes = 65536;
  absl::Duration client_timeout = absl::Minutes(5);
  uint32_t max_decode_stretch = 6;  // of a step that also reads prompts

  uint64_t max_sessions = 0;  // 0: no limit but memory
  absl::Duration idle_timeout = absl::Hours(1);
  absl::Duration max_idle_timeout = absl::Hours(24);

  std::vector<ModelConfig> models;
};

// Reads `path` over the defaults. INVALID_ARGUMENT with file, line, key, expected and found; an
// unknown key is an error that names the known ones.
absl::Status ReadConfigFile(const std::string& path, ServerConfig* config);
// The same for a text; `origin` stands for the file in messages.
absl::Status ReadConfigText(std::string_view text, std::string_view origin, ServerConfig* config);

// "NAME=DIR[,key=value...]", as --model takes it: keys of ModelConfig, and options.KEY for the
// backend. Adds a model, or replaces the one with that name.
absl::Status AddModelFlag(std::string_view flag, ServerConfig* config);

// Checks the final configuration: values that flags could set but a file could not, and that there
// is a model. INVALID_ARGUMENT names the key.
absl::Status CheckConfig(const ServerConfig& config);

// "64MiB", "2GB", "4096": bytes.
absl::StatusOr<uint64_t> ParseBytes(std::string_view text);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_SERVER_CONFIG_H_
