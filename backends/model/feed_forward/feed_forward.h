// The part of a layer that follows the mixer and looks at one token at a time.
#ifndef LONGSTREAM_BACKENDS_MODEL_FEED_FORWARD_FEED_FORWARD_H_
#define LONGSTREAM_BACKENDS_MODEL_FEED_FORWARD_FEED_FORWARD_H_

#include <cstddef>

#include "backends/model/step/forward_pass.h"
#include "backends/model/step/step_buffers.h"
#include "backends/spec/layer_tensors.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "kernels/ops/gemm/linear.h"

namespace longstream {

// Has no state: each kind is one constant object, which any thread may use. In a parallel block
// Begin runs before the mixer and End after it; otherwise both run after the mixer.
class FeedForward {
 public:
  FeedForward() = default;
  virtual ~FeedForward() = default;
  FeedForward(const FeedForward&) = delete;
  FeedForward& operator=(const FeedForward&) = delete;

  virtual void Read(const LayerTensors& tensors, MlpWeights* weights) const = 0;

  // Raises the sizes of the buffers that Begin and End use.
  virtual void AddSizes(const StepLimits& limits, const ModelSpec& spec,
                        StepSizes* sizes) const = 0;

  // Reads the residual stream through `norm`. The result is for End.
  virtual LinearInput Begin(ForwardPass& pass, size_t layer, const NormWeights& norm) const = 0;

  // Adds the branch to the residual stream.
  virtual void End(ForwardPass& pass, size_t layer, const LinearInput& begun) const = 0;
};

const FeedForward& FeedForwardOf(FeedForwardKind kind);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_FEED_FORWARD_FEED_FORWARD_H_
