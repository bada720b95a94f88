// Prints what the plugin directory, the model directories and the store hold.
#include "service/program/check_config.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/core/pinned_isa.h"
#include "service/config/read_fleet.h"
#include "service/config/read_store.h"
#include "service/connections/listening_sockets.h"
#include "service/connections/unix_socket.h"
#include "service/models/memory_plan.h"
#include "service/models/model_check.h"
#include "service/models/plugin.h"
#include "service/program/model_sources.h"
#include "service/program/server_aliases.h"
#include "service/program/server_security.h"
#include "service/program/server_store.h"
#include "service/security/token_file.h"
#include "service/sessions/store/postgres/postgres_store.h"
#include "service/sessions/store/sqlite/store_files.h"

namespace longstream {
namespace {

// Prints the plugins. Returns the number of errors.
int PrintPlugins(const std::string& path, const PluginDirectory& directory, std::ostream& out) {
  out << "plugins: " << path << "\n";
  for (const auto& plugin : directory.plugins) {
    out << "  " << plugin->name() << "." << plugin->device() << ", version "
        << plugin->table().version << "\n";
  }
  for (const absl::Status& refused : directory.refused) {
    out << "  not used: " << refused.message() << "\n";
  }
  if (!directory.plugins.empty()) return 0;
  out << "  error: found no plugin that can be used\n";
  return 1;
}

// Prints LONGSTREAM_ISA. Returns the number of errors.
int PrintIsa(std::ostream& out) {
  if (PinnedIsa() == nullptr) return 0;
  out << "LONGSTREAM_ISA: " << PinnedIsa() << "\n";
  const std::string why = WhyNotPinnedIsa();
  if (why.empty()) return 0;
  out << "  error: no model would be loaded on the CPU: " << why << "\n";
  return 1;
}

// Prints a model. Returns the number of errors.
int PrintModel(const ModelSource& source, Plugins plugins, std::ostream& out) {
  out << "model " << source.name << ": " << source.directory << "\n";
  const absl::StatusOr<ModelCheck> check = CheckModel(source, plugins);
  if (!check.ok()) {
    out << "  error: " << check.status().message() << "\n";
    return 1;
  }
  const bool is_gguf = !check->weights.empty() && check->weights.front().ends_with(".gguf");
  out << "  plugin: " << absl::StrJoin(check->plugins, ", else ") << "\n"
      << "  weights: " << check->weights.size() << (is_gguf ? " GGUF" : " safetensors")
      << " files, " << check->weight_bytes << " bytes\n"
      << "  tokenizer: " << check->tokenizer << "\n"
      << "  chat: " << (check->chat.ok() ? "yes" : absl::StrCat("no: ", check->chat.message()))
      << "\n";
  return 0;
}

// Prints the memory that the process may use. Returns the number of errors.
int PrintMemory(const ServerConfig& config, const std::vector<ModelSource>& sources,
                Plugins plugins, std::ostream& out) {
  const uint64_t bytes = MemoryBytesOf(config);
  out << "memory: " << bytes << " bytes\n";
  const absl::Status status = CheckCacheBytes(bytes, sources, plugins, config.session_host_bytes);
  if (status.ok()) return 0;
  out << "  error: " << status.message() << "\n";
  return 1;
}

// Prints the addresses that the server would listen on. All are open at the same time, so two equal
// ones are an error, too. Returns the number of errors.
int PrintAddresses(const ServerConfig& config, std::ostream& out) {
  struct Address {
    const char* key;
    const std::string& text;
  };
  int errors = 0;
  std::vector<ListeningSockets> opened;
  for (const auto& [key, text] :
       {Address{"listen", config.listen}, Address{"metrics_listen", config.metrics_listen},
        Address{"http.listen", config.http.listen},
        Address{"fleet.peer_listen", config.fleet.peer_listen},
        Address{"cluster.listen", config.cluster_listen}}) {
    if (text.empty()) continue;
    out << key << ": " << text << "\n";
    absl::StatusOr<ListeningSockets> sockets = Listen(text, absl::ZeroDuration());
    if (sockets.ok()) {
      opened.push_back(*std::move(sockets));
    } else {
      out << "  error: " << sockets.status().message() << "\n";
      ++errors;
    }
  }
  for (const std::string& listen : OpenToNetwork(config)) {
    out << "  warning: anybody who reaches " << listen
        << " may use the models and read all sessions, because there are no security.credentials\n";
  }
  return errors;
}

// Prints the operators' listener and the directories of models. Returns the number of errors.
int PrintAdmin(const ServerConfig& config, std::ostream& out) {
  if (config.admin_listen.empty()) return 0;
  out << "admin.listen: " << config.admin_listen << "\n";
  int errors = 0;
  if (const std::optional<std::string> socket = UnixSocketPath(config.admin_listen)) {
    const std::string folder = std::filesystem::absolute(*socket).parent_path().string();
    const bool is_usable = access(folder.c_str(), W_OK | X_OK) == 0;
    if (!is_usable)
      out << "  error: cannot make a file in " << folder << ": " << std::strerror(errno) << "\n";
    errors += is_usable ? 0 : 1;
  }
  for (const std::string& directory : config.admin_model_directories) {
    const bool is_there = std::filesystem::is_directory(directory);
    out << (is_there ? "  models in " : "  error: no directory: ") << directory << "\n";
    errors += is_there ? 0 : 1;
  }
  return errors;
}

// Prints what is known about the store. Returns the number of errors.
int PrintStore(const ServerConfig& config, std::ostream& out) {
  if (config.store_url.empty()) return 0;
  int errors = 0;
  const auto print = [&](const absl::StatusOr<std::string>& found) {
    errors += found.ok() ? 0 : 1;
    if (found.ok()) {
      out << "  " << *found << "\n";
    } else {
      out << "  error: " << found.status().message() << "\n";
    }
  };
  if (IsPostgresUrl(config.store_url)) {
    out << "store: " << store::PublicName(config.store_url).value_or("postgresql://") << "\n";
    const absl::StatusOr<store::PostgresStore::Options> options = PostgresOptionsOf(config);
    print(options.ok() ? store::PostgresStore::Inspect(*options) : options.status());
  } else {
    out << "store: " << config.store_url << "\n";
    print(store::InspectStore(config.store_url));
  }
  const absl::StatusOr<Sealing> sealing = SealingOf(config);
  if (!sealing.ok()) {
    print(sealing.status());
  } else if (sealing->keys != nullptr) {
    print("sealed with the key '" + sealing->keys->first().id + "'");
  }
  return errors;
}

// Prints a result of reading the files that `key` names. Returns the number of errors.
int PrintRead(const char* key, const std::string& path, const absl::Status& status,
              const std::string& found, std::ostream& out) {
  out << key << ": " << path << "\n";
  out << "  " << (status.ok() ? found : absl::StrCat("error: ", status.message())) << "\n";
  return status.ok() ? 0 : 1;
}

// Prints the certificates and the credentials. Returns the number of errors.
int PrintSecurity(const ServerConfig& config, std::ostream& out) {
  int errors = 0;
  for (const auto& [key, tls] :
       {std::pair("tls", &config.tls), std::pair("metrics_tls", &config.metrics_tls),
        std::pair("http.tls", &config.http.tls)}) {
    if (!tls->enabled()) continue;
    const absl::StatusOr<Certificates> read = ReadCertificates(*tls);
    errors +=
        PrintRead(key, tls->certificate, read.status(),
                  read.ok() ? absl::StrCat("expires ", absl::FormatTime(read->expires)) : "", out);
  }
  const std::string& path = config.security.credentials;
  if (path.empty()) return errors;
  const absl::StatusOr<Credentials> read = ReadCredentials(config);
  return errors + PrintRead("security.credentials", path, read.status(),
                            read.ok()
                                ? absl::StrCat(read->size(),
                                               read->size() == 1 ? " credential" : " credentials")
                                : "",
                            out);
}

// Prints how others find this replica. Returns the number of errors.
int PrintFleet(const ServerConfig& config, std::ostream& out) {
  const FleetConfig& fleet = config.fleet;
  if (!fleet.enabled()) return 0;
  out << "fleet: replica " << ReplicaIdOf(fleet) << "\n  replicas reach it at "
      << (fleet.peer_address.empty() ? fleet.peer_listen : fleet.peer_address) << ", clients at "
      << (fleet.client_address.empty() ? config.listen : fleet.client_address) << "\n"
      << "  lease_ttl " << absl::FormatDuration(fleet.lease_ttl) << ", min_residency "
      << absl::FormatDuration(fleet.min_residency) << ", foreign " << fleet.foreign
      << ", drain_timeout " << absl::FormatDuration(config.drain_timeout) << "\n";
  if (fleet.token_file.empty()) return 0;
  const absl::StatusOr<std::string> token = ReadTokenFile(fleet.token_file);
  return PrintRead("fleet.token_file", fleet.token_file, token.status(), "a token", out);
}

}  // namespace

int CheckConfiguration(const ServerConfig& config, std::ostream& out) {
  const std::string path = PluginDirectoryOf(config);
  const absl::StatusOr<PluginDirectory> directory = LoadPluginDirectory(path);
  int errors = PrintAddresses(config, out) + PrintSecurity(config, out) + PrintAdmin(config, out);
  if (directory.ok()) {
    errors += PrintPlugins(path, *directory, out) + PrintIsa(out);
    const std::vector<ModelSource> sources = ModelSourcesOf(config);
    for (const ModelSource& source : sources) {
      errors += PrintModel(source, directory->plugins, out);
    }
    for (const AliasConfig& alias : config.aliases) {
      out << "alias " << alias.name << ": " << ArmsOf(alias) << "\n";
    }
    errors += PrintMemory(config, sources, directory->plugins, out);
  } else {
    out << "error: " << directory.status().message() << "\n";
    ++errors;
  }
  errors += PrintStore(config, out) + PrintFleet(config, out);
  if (errors == 0) {
    out << "the configuration is usable; options, weights and the memory beside them are checked "
           "when a model is loaded\n";
  } else {
    out << "errors: " << errors << "\n";
  }
  return errors == 0 ? 0 : 1;
}

}  // namespace longstream
