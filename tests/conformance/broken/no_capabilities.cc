// A correct plugin without any optional capability. For a check that needs one, the kit must report
// "not applicable", neither "passed" nor "failed".
#include "backends/api/plugin.h"
#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

using longstream::conformance::Minimal;

constexpr uint64_t kCapabilities = 0;
constexpr int32_t kVocabulary = 256;

ls_code Submit(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error) {
  const ls_code code = longstream::Guarded(error, [&] {
    for (uint32_t i = 0; i < batch->num_entries; ++i) {
      longstream::CheckEntry(batch->entries[i], kVocabulary, kCapabilities);
    }
  });
  return code == LS_OK ? Minimal().submit(model, batch, ticket, error) : code;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  static const ls_backend kBackend = [] {
    ls_backend backend = Minimal();
    backend.capabilities = kCapabilities;
    backend.sequence_fork = nullptr;
    backend.sequence_export = nullptr;
    backend.sequence_import = nullptr;
    backend.model_set_budget = nullptr;
    backend.snapshot_begin = nullptr;
    backend.snapshot_read = nullptr;
    backend.snapshot_free = nullptr;
    backend.import_begin = nullptr;
    backend.import_write = nullptr;
    backend.import_attach = nullptr;
    backend.import_free = nullptr;
    backend.submit = Submit;
    return backend;
  }();
  return &kBackend;
}
