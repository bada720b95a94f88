// Turns a failure of the device into an error of the plugin.
#ifndef LONGSTREAM_BACKENDS_ERRORS_DEVICE_FAILURE_H_
#define LONGSTREAM_BACKENDS_ERRORS_DEVICE_FAILURE_H_

#include <string>

#include "backends/api/backend.h"
#include "backends/errors/error.h"
#include "kernels/core/stream.h"

namespace longstream {

// REQUIRES (both functions): `failure` is not kOk.
inline ls_code CodeOf(OpStatus failure) {
  return failure == OpStatus::kDeviceLost ? LS_UNAVAILABLE : LS_INTERNAL;
}
inline const char* Sentence(OpStatus failure) {
  switch (failure) {
    case OpStatus::kUnsupported:
      return "an op does not serve its arguments";
    case OpStatus::kDeviceLost:
      return "the device reported a failure and answers no more";
    default:
      return "the device reported a failure";
  }
}

// Does nothing if `status` is kOk. Otherwise throws a BackendError whose sentence begins with
// `what`.
inline void RequireDone(OpStatus status, const char* what) {
  if (status == OpStatus::kOk) return;
  throw BackendError(CodeOf(status), std::string(what) + ": " + Sentence(status));
}

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ERRORS_DEVICE_FAILURE_H_
