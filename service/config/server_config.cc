// The keys of the configuration, their types and their limits.
#include "service/config/server_config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "service/config/address.h"
#include "service/config/read_admin.h"
#include "service/config/read_aliases.h"
#include "service/config/read_fleet.h"
#include "service/config/read_store.h"
#include "service/config/read_tenants.h"
#include "service/config/yaml/yaml_reader.h"

namespace longstream {
namespace {

constexpr uint32_t kMaxThreads = 1024;

// The longest time that a key may have. It fits into every unit in which the time is counted or
// told to clients.
constexpr absl::Duration kTenYears = absl::Hours(3650 * 24);
constexpr absl::Duration kLeastTimeout = absl::Nanoseconds(1);

absl::Status ReadAddress(const YamlNode& node, bool may_be_empty, std::string* address) {
  if (absl::Status status = node.Read(address); !status.ok()) return status;
  if (may_be_empty && address->empty()) return absl::OkStatus();
  const std::optional<std::string> error = AddressError(*address);
  return error ? node.Error(*error) : absl::OkStatus();
}

absl::Status ReadMessageBytes(const YamlNode& node, uint64_t* bytes) {
  constexpr uint64_t kLeast = 64 << 10;
  constexpr uint64_t kMost = 1 << 30;
  if (absl::Status status = node.ReadBytes(bytes); !status.ok()) return status;
  if (*bytes >= kLeast && *bytes <= kMost) return absl::OkStatus();
  return node.Error(absl::StrCat("expected 64KiB to 1GiB, found ", *bytes, " bytes"));
}

// Checks that a message of the largest size fits into the transit limit. `key`: whichever of the
// two keys comes last in the file; the error names its line.
absl::Status CheckTransit(const YamlNode& key, const ServerConfig& config) {
  if (config.max_transit_bytes >= config.max_message_bytes) return absl::OkStatus();
  return key.Error(absl::StrCat("max_transit_bytes must be at least max_message_bytes = ",
                                config.max_message_bytes, ", found ", config.max_transit_bytes));
}

// Returns an error if `device` does not name a device.
std::optional<std::string> DeviceError(std::string_view device) {
  if (device == "auto" || device == "cpu" || device == "cuda") return std::nullopt;
  constexpr std::string_view kNumbered = "cuda:";
  uint32_t number = 0;
  const std::string_view digits = device.substr(std::min(kNumbered.size(), device.size()));
  if (device.substr(0, kNumbered.size()) == kNumbered && !digits.empty() &&
      digits.find_first_not_of("0123456789") == std::string_view::npos &&
      absl::SimpleAtoi(View(digits), &number)) {
    return std::nullopt;
  }
  return absl::StrCat("expected auto, cpu, cuda or cuda:N with N from 0 to ",
                      std::numeric_limits<uint32_t>::max(), ", found '", View(device), "'");
}

absl::Status ReadDevice(const YamlNode& node, std::string* device) {
  if (absl::Status status = node.Read(device); !status.ok()) return status;
  const std::optional<std::string> error = DeviceError(*device);
  return error ? node.Error(*error) : absl::OkStatus();
}

// Timeouts must be positive, because a timeout of zero would pass before any work is done.
absl::Status ReadTimeout(const YamlNode& node, absl::Duration* timeout) {
  return node.ReadDuration(kLeastTimeout, kTenYears, timeout);
}

absl::Status ReadModel(const YamlNode& node, ModelConfig* model) {
  return node.ReadMap({
      {"name", [&](const YamlNode& value) { return value.Read(&model->name); }},
      {"directory", [&](const YamlNode& value) { return value.Read(&model->directory); }},
      {"backend", [&](const YamlNode& value) { return value.Read(&model->backend); }},
      {"device", [&](const YamlNode& value) { return ReadDevice(value, &model->device); }},
      {"version", [&](const YamlNode& value) { return value.Read(&model->version); }},
      {"cache_bytes", [&](const YamlNode& value) { return value.ReadBytes(&model->cache_bytes); }},
      {"options", [&](const YamlNode& value) { return value.ReadJson(&model->options_json); }},
  });
}

// A step must have room for kPrefillRoom prompt tokens (one interval of the prefill grid) beside
// all decode rows. Otherwise no prompt would be read while the batch is full. `key`: whichever of
// the two keys comes last in the file; the error names its line.
absl::Status CheckBatch(const YamlNode& key, const ServerConfig& config) {
  constexpr uint32_t kPrefillRoom = 64;
  const uint32_t least = config.max_batch_sequences + kPrefillRoom;
  if (config.max_batch_tokens >= least) return absl::OkStatus();
  return key.Error(absl::StrCat("max_batch_tokens must be at least max_batch_sequences + ",
                                kPrefillRoom, " = ", least, ", found ", config.max_batch_tokens));
}

absl::Status ReadScheduler(const YamlNode& node, ServerConfig* config) {
  YamlNode batch_key = node;
  absl::Status status = node.ReadMap({
      {"max_batch_tokens",
       [&](const YamlNode& value) {
         batch_key = value;
         return value.Read(1, 65536, &config->max_batch_tokens);
       }},
      {"max_batch_sequences",
       [&](const YamlNode& value) {
         batch_key = value;
         return value.Read(1, 4096, &config->max_batch_sequences);
       }},
      {"max_open_turns",
       [&](const YamlNode& value) { return value.Read(1, 1 << 20, &config->max_open_turns); }},
      {"max_waiting_turns",
       [&](const YamlNode& value) { return value.Read(0, 1 << 20, &config->max_waiting_turns); }},
      {"stream_buffer_bytes",
       [&](const YamlNode& value) { return value.ReadBytes(&config->stream_buffer_bytes); }},
      {"client_timeout",
       [&](const YamlNode& value) { return ReadTimeout(value, &config->client_timeout); }},
      {"time_slice",
       [&](const YamlNode& value) { return ReadTimeout(value, &config->time_slice); }},
      {"max_decode_stretch",
       [&](const YamlNode& value) { return value.Read(2, 1000, &config->max_decode_stretch); }},
  });
  return status.ok() ? CheckBatch(batch_key, *config) : status;
}

// Times of connections. gRPC counts them in milliseconds, in 31 bits.
absl::Status ReadConnectionTime(const YamlNode& node, absl::Duration most, absl::Duration* time) {
  return node.ReadDuration(absl::Milliseconds(100), most, time);
}

absl::Status ReadConnections(const YamlNode& node, ServerConfig* config) {
  constexpr uint64_t kMost = 1 << 20;
  return node.ReadMap({
      {"max",
       [&](const YamlNode& value) { return value.Read(0, kMost, &config->max_connections); }},
      {"max_per_address",
       [&](const YamlNode& value) {
         return value.Read(0, kMost, &config->max_connections_per_address);
       }},
      {"handshake_timeout",
       [&](const YamlNode& value) {
         return ReadConnectionTime(value, absl::Hours(1), &config->handshake_timeout);
       }},
      {"first_request_timeout",
       [&](const YamlNode& value) {
         return ReadConnectionTime(value, absl::Hours(24), &config->first_request_timeout);
       }},
      {"idle_timeout",
       [&](const YamlNode& value) {
         return ReadConnectionTime(value, absl::Hours(24), &config->connection_idle_timeout);
       }},
      {"channelz", [&](const YamlNode& value) { return value.ReadBool(&config->channelz); }},
  });
}

absl::Status ReadSessionBytes(const YamlNode& node, uint64_t* bytes) {
  constexpr uint64_t kLeast = 1 << 20;
  if (absl::Status status = node.ReadBytes(bytes); !status.ok()) return status;
  if (*bytes == 0 || *bytes >= kLeast) return absl::OkStatus();
  return node.Error(absl::StrCat("expected 0, or 1MiB or more, found ", *bytes, " bytes"));
}

// Times after which something in the store ends.
absl::Status ReadLifetime(const YamlNode& node, absl::Duration* time) {
  return node.ReadDuration(absl::Seconds(1), kTenYears, time);
}

// Checks that a default is at most the longest time that a client may name. `key`: whichever of the
// two keys comes last in the file; the error names its line.
absl::Status CheckDefault(const YamlNode& key, absl::string_view name, absl::Duration by_default,
                          absl::Duration most) {
  if (by_default <= most) return absl::OkStatus();
  return key.Error(absl::StrCat(name, ", ", absl::FormatDuration(by_default), ", is more than max_",
                                name, ", ", absl::FormatDuration(most)));
}

absl::Status ReadSessions(const YamlNode& node, ServerConfig* config) {
  YamlNode timeout_key = node, ttl_key = node;  // whichever of two keys comes last in the file
  const auto read_timeout = [&](const YamlNode& value, absl::Duration* timeout) {
    timeout_key = value;
    return ReadTimeout(value, timeout);
  };
  const auto read_ttl = [&](const YamlNode& value, absl::Duration* ttl) {
    ttl_key = value;
    return ReadLifetime(value, ttl);
  };
  absl::Status status = node.ReadMap({
      {"max", [&](const YamlNode& value) { return value.Read(0, 1 << 24, &config->max_sessions); }},
      {"idle_timeout",
       [&](const YamlNode& value) { return read_timeout(value, &config->idle_timeout); }},
      {"max_idle_timeout",
       [&](const YamlNode& value) { return read_timeout(value, &config->max_idle_timeout); }},
      {"host_bytes",
       [&](const YamlNode& value) { return ReadSessionBytes(value, &config->session_host_bytes); }},
      {"conversation_bytes",
       [&](const YamlNode& value) { return ReadSessionBytes(value, &config->conversation_bytes); }},
      {"ttl", [&](const YamlNode& value) { return read_ttl(value, &config->ttl); }},
      {"max_ttl", [&](const YamlNode& value) { return read_ttl(value, &config->max_ttl); }},
      {"keep_rewound",
       [&](const YamlNode& value) { return ReadLifetime(value, &config->keep_rewound); }},
      {"resume_window",
       [&](const YamlNode& value) {
         return value.ReadDuration(absl::ZeroDuration(), absl::Hours(24), &config->resume_window);
       }},
      {"rollback_bytes",
       [&](const YamlNode& value) { return value.ReadBytes(&config->rollback_bytes); }},
      {"on_model_change",
       [&](const YamlNode& value) {
         return value.ReadOneOf({"refuse", "recompute"}, &config->on_model_change);
       }},
      {"imports",
       [&](const YamlNode& value) {
         return value.ReadOneOf({"any", "sealed"}, &config->imports);
       }},
      {"max_transfers",
       [&](const YamlNode& value) { return value.Read(1, 1 << 20, &config->max_transfers); }},
  });
  if (status.ok()) {
    status =
        CheckDefault(timeout_key, "idle_timeout", config->idle_timeout, config->max_idle_timeout);
  }
  return status.ok() ? CheckDefault(ttl_key, "ttl", config->ttl, config->max_ttl) : status;
}

absl::Status ReadModels(const YamlNode& node, ServerConfig* config) {
  return node.ReadList([&](const YamlNode& entry) {
    ModelConfig model;
    if (absl::Status status = ReadModel(entry, &model); !status.ok()) return status;
    if (model.name.empty()) return entry.Error("a model needs the key name");
    if (model.directory.empty()) return entry.Error("a model needs the key directory");
    for (const ModelConfig& other : config->models) {
      if (other.name == model.name) {
        return entry.Error(absl::StrCat("two models are named ", model.name));
      }
    }
    config->models.push_back(std::move(model));
    return absl::OkStatus();
  });
}

absl::Status ReadCluster(const YamlNode& node, ServerConfig* config) {
  return node.ReadMap({
      {"listen",
       [&](const YamlNode& value) { return ReadAddress(value, true, &config->cluster_listen); }},
  });
}

absl::Status ReadRoot(const YamlNode& root, ServerConfig* config) {
  YamlNode transit_key = root;  // whichever of the two byte limits comes last in the file
  absl::Status status = root.ReadMap({
      {"listen", [&](const YamlNode& value) { return ReadAddress(value, false, &config->listen); }},
      {"metrics_listen",
       [&](const YamlNode& value) { return ReadAddress(value, true, &config->metrics_listen); }},
      {"max_message_bytes",
       [&](const YamlNode& value) {
         transit_key = value;
         return ReadMessageBytes(value, &config->max_message_bytes);
       }},
      {"max_transit_bytes",
       [&](const YamlNode& value) {
         transit_key = value;
         return value.ReadBytes(&config->max_transit_bytes);
       }},
      {"plugin_directory",
       [&](const YamlNode& value) { return value.Read(&config->plugin_directory); }},
      {"threads",
       [&](const YamlNode& value) { return value.Read(0, kMaxThreads, &config->threads); }},
      {"memory_bytes",
       [&](const YamlNode& value) { return value.ReadBytes(&config->memory_bytes); }},
      {"grace",
       [&](const YamlNode& value) {
         return value.ReadDuration(absl::ZeroDuration(), kTenYears, &config->grace);
       }},
      {"drain_timeout",
       [&](const YamlNode& value) {
         return value.ReadDuration(absl::ZeroDuration(), kTenYears, &config->drain_timeout);
       }},
      {"log_level",
       [&](const YamlNode& value) {
         return value.ReadOneOf({"debug", "info", "warning", "error"}, &config->log_level);
       }},
      {"scheduler", [&](const YamlNode& value) { return ReadScheduler(value, config); }},
      {"connections", [&](const YamlNode& value) { return ReadConnections(value, config); }},
      {"sessions", [&](const YamlNode& value) { return ReadSessions(value, config); }},
      {"store", [&](const YamlNode& value) { return ReadStore(value, config); }},
      {"tls", [&](const YamlNode& value) { return ReadTls(value, &config->tls); }},
      {"metrics_tls", [&](const YamlNode& value) { return ReadTls(value, &config->metrics_tls); }},
      {"security", [&](const YamlNode& value) { return ReadSecurity(value, &config->security); }},
      {"admin", [&](const YamlNode& value) { return ReadAdmin(value, config); }},
      {"fleet", [&](const YamlNode& value) { return ReadFleet(value, &config->fleet); }},
      {"cluster", [&](const YamlNode& value) { return ReadCluster(value, config); }},
      {"http", [&](const YamlNode& value) { return ReadHttp(value, &config->http); }},
      {"tenants", [&](const YamlNode& value) { return ReadTenants(value, &config->tenants); }},
      {"models", [&](const YamlNode& value) { return ReadModels(value, config); }},
      {"aliases", [&](const YamlNode& value) { return ReadAliases(value, config); }},
  });
  return status.ok() ? CheckTransit(transit_key, *config) : status;
}

// Checks that the other keys allow what the HTTP listener does.
absl::Status CheckHttp(const ServerConfig& config) {
  const HttpConfig& http = config.http;
  if (http.listen.empty()) return absl::OkStatus();
  if (const auto error = AddressError(http.listen)) {
    return absl::InvalidArgumentError(absl::StrCat("http.listen: ", *error));
  }
  if (http.idle_timeout > config.max_idle_timeout) {
    return absl::InvalidArgumentError(absl::StrCat("http.idle_timeout, ",
                                                   absl::FormatDuration(http.idle_timeout),
                                                   ", is more than sessions.max_idle_timeout, ",
                                                   absl::FormatDuration(config.max_idle_timeout)));
  }
  if (http.max_body_bytes > config.max_message_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("http.max_body_bytes, ", http.max_body_bytes,
                                                   ", is more than max_message_bytes, ",
                                                   config.max_message_bytes));
  }
  if (http.durable && http.ttl > config.max_ttl) {
    return absl::InvalidArgumentError(absl::StrCat("http.ttl, ", absl::FormatDuration(http.ttl),
                                                   ", is more than sessions.max_ttl, ",
                                                   absl::FormatDuration(config.max_ttl)));
  }
  if (http.durable && config.store_url.empty()) {
    return absl::InvalidArgumentError("http.durable: needs a store (store.url, or --store)");
  }
  return absl::OkStatus();
}

// Cuts the value of --model at commas. A list or a map in brackets is one value, so commas inside
// brackets do not count.
std::vector<std::string> PartsOf(std::string_view flag) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : flag) {
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

absl::Status ModelFlagError(std::string_view flag, const std::string& reason) {
  return absl::InvalidArgumentError(absl::StrCat("--model ", View(flag), ": ", reason));
}

}  // namespace

absl::Status ReadConfigText(std::string_view text, std::string_view origin, ServerConfig* config) {
  absl::StatusOr<YamlNode> root = YamlNode::Parse(text, origin);
  if (!root.ok()) return root.status();
  return ReadRoot(*root, config);
}

absl::Status ReadConfigFile(const std::string& path, ServerConfig* config) {
  std::ifstream file(path, std::ios::binary);
  // A directory can be opened, but the first read from it would throw.
  if (!file || std::filesystem::is_directory(path)) {
    return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return ReadConfigText(text, path, config);
}

absl::Status ReadThreadsFlag(std::string_view flag, ServerConfig* config) {
  uint32_t threads = 0;
  if (absl::SimpleAtoi(View(flag), &threads) && threads <= kMaxThreads) {
    config->threads = threads;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--threads: expected a whole number from 0 to ",
                                                 kMaxThreads, ", found '", View(flag), "'"));
}

absl::Status AddModelFlag(std::string_view flag, ServerConfig* config) {
  const std::vector<std::string> parts = PartsOf(flag);
  const std::pair<std::string, std::string> first =
      absl::StrSplit(parts[0], absl::MaxSplits('=', 1));
  ModelConfig model;
  model.name = first.first;
  model.directory = first.second;
  if (model.name.empty() || model.directory.empty()) {
    return ModelFlagError(flag, "expected NAME=DIR[,key=value...]");
  }
  std::vector<std::string> options;
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    const auto& [key, value] = pair;
    if (key == "backend") {
      model.backend = value;
    } else if (key == "device") {
      if (const auto error = DeviceError(value)) {
        return ModelFlagError(flag, absl::StrCat("device: ", *error));
      }
      model.device = value;
    } else if (key == "version") {
      model.version = value;
    } else if (key == "cache_bytes") {
      absl::StatusOr<uint64_t> bytes = ParseBytes(value);
      if (!bytes.ok()) {
        return ModelFlagError(flag, absl::StrCat("cache_bytes: ", bytes.status().message()));
      }
      model.cache_bytes = *bytes;
    } else if (absl::StartsWith(key, "options.")) {
      options.push_back(JsonMember(key.substr(sizeof("options.") - 1), value));
    } else {
      return ModelFlagError(flag, absl::StrCat("unknown key '", key,
                                               "'; expected one of: backend, cache_bytes, device, "
                                               "options.KEY, version"));
    }
  }
  model.options_json = absl::StrCat("{", absl::StrJoin(options, ","), "}");
  std::erase_if(config->models, [&](const ModelConfig& other) { return other.name == model.name; });
  config->models.push_back(std::move(model));
  return absl::OkStatus();
}

absl::Status AddModelFlags(const std::vector<std::string>& flags, ServerConfig* config) {
  std::map<std::string, std::string> by_name;
  for (const std::string& flag : flags) {
    if (absl::Status status = AddModelFlag(flag, config); !status.ok()) return status;
    const auto [first, is_new] = by_name.emplace(config->models.back().name, flag);
    if (!is_new) {
      return ModelFlagError(
          flag, absl::StrCat("an earlier flag has the same name: --model ", first->second));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConfig(const ServerConfig& config) {
  if (const auto error = AddressError(config.listen)) {
    return absl::InvalidArgumentError(absl::StrCat("listen: ", *error));
  }
  if (const auto error = AddressError(config.metrics_listen);
      error && !config.metrics_listen.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("metrics_listen: ", *error));
  }
  if (const auto error = AddressError(config.cluster_listen);
      error && !config.cluster_listen.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("cluster.listen: ", *error));
  }
  if (absl::Status status = CheckHttp(config); !status.ok()) return status;
  if (absl::Status status = CheckStore(config); !status.ok()) return status;
  if (absl::Status status = CheckAdmin(config); !status.ok()) return status;
  if (absl::Status status = CheckFleet(config); !status.ok()) return status;
  const std::optional<std::string> error =
      SecurityError(config.security, config.channelz, {"listen", config.listen, config.tls},
                    {"metrics_listen", config.metrics_listen, config.metrics_tls},
                    {"http.listen", config.http.listen, config.http.tls});
  if (error) return absl::InvalidArgumentError(*error);
  if (!config.tenants.empty() && config.security.credentials.empty()) {
    return absl::InvalidArgumentError(
        "tenants: needs security.credentials, because a caller's credential names its tenant");
  }
  if (absl::Status status = CheckAliases(config); !status.ok()) return status;
  // An operator can load models later.
  if (config.models.empty() && config.admin_listen.empty()) {
    return absl::InvalidArgumentError(
        "models: no model is configured; name one in the file or with --model NAME=DIR");
  }
  return absl::OkStatus();
}

}  // namespace longstream
