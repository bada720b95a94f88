// Prints what the plugin directory and the model directories hold.
#include "service/check_config.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/model_sources.h"
#include "service/models/memory_plan.h"
#include "service/models/model_check.h"
#include "service/models/plugin.h"

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

// Prints a model. Returns the number of errors.
int PrintModel(const ModelSource& source, Plugins plugins, std::ostream& out) {
  out << "model " << source.name << ": " << source.directory << "\n";
  const absl::StatusOr<ModelCheck> check = CheckModel(source, plugins);
  if (!check.ok()) {
    out << "  error: " << check.status().message() << "\n";
    return 1;
  }
  out << "  plugin: " << absl::StrJoin(check->plugins, ", else ") << "\n"
      << "  weights: " << check->weights.size() << " safetensors files, " << check->weight_bytes
      << " bytes\n"
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

}  // namespace

int CheckConfiguration(const ServerConfig& config, std::ostream& out) {
  const std::string path = PluginDirectoryOf(config);
  const absl::StatusOr<PluginDirectory> directory = LoadPluginDirectory(path);
  int errors = 0;
  if (directory.ok()) {
    errors += PrintPlugins(path, *directory, out);
    const std::vector<ModelSource> sources = ModelSourcesOf(config);
    for (const ModelSource& source : sources) {
      errors += PrintModel(source, directory->plugins, out);
    }
    errors += PrintMemory(config, sources, directory->plugins, out);
  } else {
    out << "error: " << directory.status().message() << "\n";
    ++errors;
  }
  if (errors == 0) {
    out << "the configuration is usable; options, weights and the memory beside them are checked "
           "when a model is loaded\n";
  } else {
    out << "errors: " << errors << "\n";
  }
  return errors == 0 ? 0 : 1;
}

}  // namespace longstream
