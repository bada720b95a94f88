// A plugin of another ABI major version. The kit must not use anything else of it.
#include "tests/conformance/broken/wrapped_minimal.h"

extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  static const ls_backend kBackend = [] {
    ls_backend backend = longstream::conformance::Minimal();
    backend.abi_major = LS_ABI_MAJOR + 1;
    backend.model_open = nullptr;
    backend.submit = nullptr;
    return backend;
  }();
  return &kBackend;
}
