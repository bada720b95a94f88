// A backend plugin: a loaded shared library with a checked table of functions.
#ifndef LONGSTREAM_SERVICE_MODELS_PLUGIN_H_
#define LONGSTREAM_SERVICE_MODELS_PLUGIN_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/api/backend.h"

namespace longstream {

// Immutable and thread-safe. Models share the plugin that opened them. The library is unloaded when
// the last owner releases the plugin.
class Plugin {
 public:
  // Loads `file` with RTLD_NOW | RTLD_LOCAL and checks the exported symbol, the ABI's major
  // version, the size of the table, and that the table has every function that its capabilities
  // need. FAILED_PRECONDITION: a check failed; the message names the file, and what was expected
  // and found.
  static absl::StatusOr<std::shared_ptr<const Plugin>> Load(const std::filesystem::path& file);

  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const ls_backend& table() const { return *table_; }
  const std::filesystem::path& file() const { return file_; }
  std::string name() const { return table_->name; }
  std::string device() const { return table_->device; }
  bool Can(uint64_t capability) const { return (table_->capabilities & capability) != 0; }

 private:
  Plugin(std::filesystem::path file, void* library, const ls_backend* table);

  const std::filesystem::path file_;
  void* const library_;
  const ls_backend* const table_;
};

// The plugins in a directory.
struct PluginDirectory {
  std::vector<std::shared_ptr<const Plugin>> plugins;  // sorted by file name
  std::vector<absl::Status> refused;                   // one error per file that could not be used
};

// Loads every *.so file in `directory`, in the order of their names. If two files have the same
// backend and device, loads only the first one. A refused file does not prevent the others from
// loading. NOT_FOUND: the directory cannot be read.
absl::StatusOr<PluginDirectory> LoadPluginDirectory(const std::filesystem::path& directory);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_PLUGIN_H_
