// The minimal backend behind a table with one defect; the macro DEFECT selects it.
#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

enum Defect {
  kNoTable,         // the exported function returns nullptr
  kOtherMajor,      // the table has another ABI major version
  kSmallTable,      // struct_size is too small
  kNoName,          // the backend has no name
  kNoSubmit,        // submit is missing, although every backend must have it
  kNoFork,          // fork is missing, although the capability promises it
  kNoSetBudget,     // the table ends before model_set_budget, although the capability promises it
  kNoSegments,      // the table ends before snapshot_begin, although the capability promises it
  kOlderMinor,      // no defect: a table of ABI 1.1
  kBeforeSegments,  // no defect: a table of ABI 1.2
  kForGpus,         // no defect: it says that it is for GPUs
  kForkless,        // no defect: both fork and its capability are missing
  kNoGrid,          // the prefill grid is 0
  kWideGrid,        // the prefill grid is longer than a step
};

ls_code InfoWithGrid(const ls_model* model, ls_model_info* info) {
  const ls_code code = longstream::conformance::Minimal().model_info(model, info);
  info->prefill_grid = DEFECT == kNoGrid ? 0 : 128;
  return code;
}

ls_backend Table() {
  ls_backend table = longstream::conformance::Minimal();
  if (DEFECT == kOtherMajor) table.abi_major = LS_ABI_MAJOR + 1;
  if (DEFECT == kSmallTable) table.struct_size = LS_BACKEND_SIZE_1_0 - 8;
  if (DEFECT == kNoSetBudget || DEFECT == kOlderMinor) {
    table.abi_minor = 1;
    table.struct_size = LS_BACKEND_SIZE_1_0;
  }
  if (DEFECT == kOlderMinor) {
    table.capabilities &= ~uint64_t{LS_CAP_SET_BUDGET | LS_CAP_SEGMENTS | LS_CAP_ALLOWED_TOKENS};
  }
  if (DEFECT == kNoSegments || DEFECT == kBeforeSegments) {
    table.abi_minor = 2;
    table.struct_size = LS_BACKEND_SIZE_1_2;
  }
  if (DEFECT == kBeforeSegments) {
    table.capabilities &= ~uint64_t{LS_CAP_SEGMENTS | LS_CAP_ALLOWED_TOKENS};
  }
  if (DEFECT == kForGpus) table.device = "cuda";
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
