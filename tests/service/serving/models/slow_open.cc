// The minimal backend, with a checkpoint that takes long to load: opening a model ends when the
// pipe "gate" in its directory is written and closed.
#include <fstream>
#include <sstream>
#include <string>

#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

using longstream::conformance::Minimal;

ls_code Open(const ls_model_options* options, ls_model** model, ls_error error) {
  std::ifstream gate(std::string(options->directory) + "/gate");
  std::ostringstream written;
  written << gate.rdbuf();
  return Minimal().model_open(options, model, error);
}

ls_backend Table() {
  ls_backend table = Minimal();
  table.model_open = Open;
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  static const ls_backend kTable = Table();
  return &kTable;
}
