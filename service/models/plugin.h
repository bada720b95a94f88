// A backend plugin: a shared library that was loaded and whose table was checked.
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

// Immutable and thread-safe. Shared by the models opened through it: the library is unloaded when
// the last of them is gone.
class Plugin {
 public:
  // Loads `file` with RTLD_NOW | RTLD_LOCAL and checks its table: the exported symbol, the ABI
  // major, the structure's size, and that every function the capabilities promise is there.
  // FAILED_PRECONDITION, with one sentence that names the file and what was expected and found.
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

// The plugins of a directory.
struct PluginDirectory {
  std::vector<std::shared_ptr<const Plugin>> plugins;  // by file name
  std::vector<absl::Status> refused;                   // one per file that could not be used
};

// Loads every *.so in `directory`, in the order of their names; if two have the same backend and
// device, only the first. A file that is refused does not keep the others from loading; a directory
// that cannot be read is an error.
absl::StatusOr<PluginDirectory> LoadPluginDirectory(const std::filesystem::path& directory);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_PLUGIN_H_
