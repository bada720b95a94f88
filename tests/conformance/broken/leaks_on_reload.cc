// A plugin that leaks a few bytes whenever it closes a model.
#include <cstdlib>

#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

void Close(ls_model* model) {
  // The write to the block keeps the compiler from removing an allocation whose address is not
  // stored.
  *static_cast<volatile char*>(std::malloc(24)) = 1;
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
