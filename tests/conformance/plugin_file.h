// A plugin's file: its exported symbols, and loading it.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_PLUGIN_FILE_H_
#define LONGSTREAM_TESTS_CONFORMANCE_PLUGIN_FILE_H_

#include <string>
#include <vector>

#include "backends/api/backend.h"

namespace longstream::conformance {

// Names of the symbols that an ELF shared object exports. Reads the file without loading it. Throws
// CheckFailed if the file is not a 64-bit ELF shared object.
std::vector<std::string> ExportedSymbols(const std::string& path);

// A loaded plugin; the destructor unloads it. The constructor throws CheckFailed if loading fails.
class PluginFile {
 public:
  explicit PluginFile(const std::string& path);
  ~PluginFile();

  PluginFile(const PluginFile&) = delete;
  PluginFile& operator=(const PluginFile&) = delete;

  // The table, or nullptr if the symbol is missing or returns nullptr.
  const ls_backend* backend() const { return backend_; }

 private:
  void* handle_;
  const ls_backend* backend_ = nullptr;
};

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_PLUGIN_FILE_H_
