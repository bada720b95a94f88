// Functions over all layers of a model: they plan its caches, read its weights, and size the
// buffers of a step.
#ifndef LONGSTREAM_BACKENDS_MODEL_LAYERS_H_
#define LONGSTREAM_BACKENDS_MODEL_LAYERS_H_

#include <cstdint>
#include <optional>

#include "backends/caches/cache_layout.h"
#include "backends/model/step/step_buffers.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "backends/spec/tensor_names.h"
#include "backends/spec/weight_source.h"
#include "kernels/core/dtype.h"

namespace longstream {

// Pages hold keys and values as `type`. Throws BackendError(LS_INVALID_ARGUMENT) for a layer that
// no machine can hold. REQUIRES: `type` is not kI4.
CacheLayout MakeCacheLayout(const ModelSpec& spec, DType type);

// Asks `source` for every tensor of the model, always in the same order. The memory of the result
// stays where `source` has put it: the result's storage is empty.
ModelWeights ReadWeights(const ModelSpec& spec, const TensorRoot& root, WeightSource& source);

// The sizes of the buffers of a step within `limits`.
StepSizes SizesOf(const ModelSpec& spec, const ModelWeights& weights, const StepLimits& limits);

// The first layer whose heads are wider than the ops of its mixer serve.
struct TooWideHead {
  const MixerSpec& mixer;  // of the spec
  int32_t most = 0;        // the widest head that the ops serve
};
std::optional<TooWideHead> FindTooWideHead(const ModelSpec& spec);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_LAYERS_H_
