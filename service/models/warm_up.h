// The first tokens of a model, before its first session.
#ifndef LONGSTREAM_SERVICE_MODELS_WARM_UP_H_
#define LONGSTREAM_SERVICE_MODELS_WARM_UP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "service/models/backend_model.h"

namespace longstream {

// Reads a short prompt and draws some tokens with a sequence of its own, so that weights, kernels
// and buffers are in place when the first session comes. Returns the error of the backend if it
// cannot compute. REQUIRES: no other thread uses the model, and no step is in flight.
absl::Status WarmUp(BackendModel& model, uint32_t max_batch_tokens);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_WARM_UP_H_
