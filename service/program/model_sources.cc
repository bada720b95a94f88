// Finds plugins relative to the binary.
#include "service/program/model_sources.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "kernels/core/physical_memory.h"

namespace longstream {

std::string PluginDirectoryOf(const ServerConfig& config) {
  if (!config.plugin_directory.empty()) return config.plugin_directory;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path built = here.parent_path() / "plugins";
  if (std::filesystem::is_directory(built)) return built.string();
  return (here / LONGSTREAM_PLUGINS_FROM_BINARY).lexically_normal().string();
}

std::vector<ModelSource> ModelSourcesOf(const ServerConfig& config) {
  std::vector<ModelSource> sources;
  for (const ModelConfig& model : config.models) {
    ModelSource source;
    source.name = model.name;
    source.directory = model.directory;
    source.backend = model.backend;
    source.device = model.device;
    source.options_json = model.options_json;
    source.version = model.version;
    source.cache_bytes_budget = model.cache_bytes;
    source.max_batch_tokens = config.max_batch_tokens;
    source.max_batch_sequences = config.max_batch_sequences;
    sources.push_back(std::move(source));
  }
  return sources;
}

uint64_t MemoryBytesOf(const ServerConfig& config) {
  const uint64_t there_is = PhysicalMemory();
  return config.memory_bytes == 0 ? there_is : std::min(config.memory_bytes, there_is);
}

}  // namespace longstream
