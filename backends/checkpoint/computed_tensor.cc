// Checks the size of computed tensors.
#include "backends/checkpoint/computed_tensor.h"

#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {

ComputedTensor::ComputedTensor(Tensor tensor, const std::string& path)
    : tensor_(std::move(tensor)) {
  uint64_t bytes = tensor_.type ? SizeOf(*tensor_.type) : 1;
  for (const int64_t extent : tensor_.shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes) ||
        bytes > INT64_MAX) {
      throw BackendError(LS_INVALID_ARGUMENT, path + ": tensor " + Quoted(tensor_.name) +
                                                  " has the shape " + ShapeText(tensor_.shape) +
                                                  ", whose bytes exceed 63 bits");
    }
  }
  tensor_.num_bytes = bytes;
}

void ComputedTensor::ReadGroups(int64_t, int64_t, WeightGroup*, const Executor&) const {
  throw BackendError(LS_INTERNAL, "tensor " + Quoted(tensor_.name) + " has no groups");
}

}  // namespace longstream
