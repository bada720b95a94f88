// A plugin that reserves a range of addresses whenever it closes a model, and never releases it. It
// does not write to the range, and the kernel joins neighbouring mappings, so only the address
// space grows.
#include <sys/mman.h>

#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

constexpr size_t kBytes = 1 << 20;

void Close(ls_model* model) {
  mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  longstream::conformance::Minimal().model_close(model);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  static const ls_backend kBackend = [] {
    ls_backend backend = longstream::conformance::Minimal();
    backend.model_close = Close;
    return backend;
  }();
  return &kBackend;
}
