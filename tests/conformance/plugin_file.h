// A plugin as a file: what it exports, and the handle it is loaded by.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_PLUGIN_FILE_H_
#define LONGSTREAM_TESTS_CONFORMANCE_PLUGIN_FILE_H_

#include <string>
#include <vector>

#include "backends/api/backend.h"

namespace longstream::conformance {

// Names of the symbols that an ELF shared object defines for others, read from the file without
// loading it. Throws CheckFailed where the file is no 64-bit ELF shared object.
std::vector<std::string> ExportedSymbols(const std::string& path);

// A loaded plugin; unloads in its destructor. Loading throws CheckFailed where it does not succeed.
class PluginFile {
 public:
  explicit PluginFile(const std::string& path);
  ~PluginFile();

  PluginFile(const PluginFile&) = delete;
  PluginFile& operator=(const PluginFile&) = delete;

  // The table, or nullptr where the symbol is missing or returns none.
  const ls_backend* backend() const { return backend_; }

 private:
  void* handle_;
  const ls_backend* backend_ = nullptr;
};

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_PLUGIN_FILE_H_
