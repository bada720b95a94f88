// The minimal backend with a vocabulary of 16 tokens.
#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

using longstream::conformance::Minimal;

ls_code Info(const ls_model* model, ls_model_info* info) {
  const ls_code code = Minimal().model_info(model, info);
  info->vocabulary_size = 16;
  return code;
}

ls_backend Table() {
  ls_backend table = Minimal();
  table.name = "small_vocabulary";
  table.model_info = Info;
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  static const ls_backend kTable = Table();
  return &kTable;
}
