// What all layers of a model need together: caches, weights, and buffers for a step.
#ifndef LONGSTREAM_BACKENDS_MODEL_ASSEMBLE_H_
#define LONGSTREAM_BACKENDS_MODEL_ASSEMBLE_H_

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

// Asks for every tensor of the model, in the order of the forward pass. The result borrows from
// `source`: its storage is empty.
ModelWeights ReadWeights(const ModelSpec& spec, const TensorRoot& root, WeightSource& source);

StepSizes SizesOf(const ModelSpec& spec, const ModelWeights& weights, const StepLimits& limits);

// The first layer whose heads are wider than its ops serve, or nullptr.
const MixerSpec* FindTooWideHead(const ModelSpec& spec, int32_t* most);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_ASSEMBLE_H_
