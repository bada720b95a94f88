// The minimal backend behind a table with one defect; the macro DEFECT names it.
#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

enum Defect {
  kNoTable,     // the function returns nothing
  kOtherMajor,  // built for another ABI
  kSmallTable,  // a table that ends too early
  kNoName,      // nothing a configuration could call it
  kNoSubmit,    // a function that every backend has is missing
  kNoFork,      // a function that a capability promises is missing
  kForkless,    // no defect: neither the function nor the capability is there
  kNoGrid,      // models whose prompts can be cut nowhere
  kWideGrid,    // models whose prompts are cut further apart than a step is long
};

ls_code InfoWithGrid(const ls_model* model, ls_model_info* info) {
  const ls_code code = longstream::conformance::Minimal().model_info(model, info);
  info->prefill_grid = DEFECT == kNoGrid ? 0 : 128;
  return code;
}

ls_backend Table() {
  ls_backend table = longstream::conformance::Minimal();
  if (DEFECT == kOtherMajor) table.abi_major = LS_ABI_MAJOR + 1;
  if (DEFECT == kSmallTable) table.struct_size = sizeof(ls_backend) - 8;
  if (DEFECT == kNoName) table.name = "";
  if (DEFECT == kNoSubmit) table.submit = nullptr;
  if (DEFECT == kNoFork || DEFECT == kForkless) table.sequence_fork = nullptr;
  if (DEFECT == kNoGrid || DEFECT == kWideGrid) table.model_info = &InfoWithGrid;
  if (DEFECT == kForkless) table.capabilities &= ~uint64_t{LS_CAP_FORK};
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  static const ls_backend kTable = Table();
  return DEFECT == kNoTable ? nullptr : &kTable;
}
