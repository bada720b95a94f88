// The part of a layer that follows the mixer and looks at one token at a time.
#ifndef LONGSTREAM_BACKENDS_MODEL_FEED_FORWARD_FEED_FORWARD_H_
#define LONGSTREAM_BACKENDS_MODEL_FEED_FORWARD_FEED_FORWARD_H_

#include <cstddef>

#include "backends/model/step/forward_pass.h"
#include "backends/model/step/step_buffers.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "backends/spec/named_tensors.h"
#include "kernels/ops/gemm/linear.h"

namespace longstream {

// A feed-forward part has no state: each kind is one constant object, which any thread may use. Its
// work has two halves, because in a parallel block the first half reads the residual stream before
// the mixer changes it. In other blocks both halves run after the mixer.
//
// The layers of a model may have different kinds.
//
// To add a kind: its FeedForwardKind (backends/spec/model_spec.h), its class (kinds.h) and a line
// of FeedForwardOf (feed_forward.cc), its weights beside MlpWeights
// (backends/spec/model_weights.h), its numbers that are in no tensor (FingerprintOf in
// backends/runtime/model_description.cc), and the config key that asks for it
// (backends/architectures).
class FeedForward {
 public:
  FeedForward() = default;
  virtual ~FeedForward() = default;
  FeedForward(const FeedForward&) = delete;
  FeedForward& operator=(const FeedForward&) = delete;

  // Reads the weights of the part, not its norms.
  virtual void Read(const NamedTensors& tensors, LayerWeights* layer) const = 0;

  // Raises the sizes of the buffers that both halves use.
  virtual void RaiseSizes(const StepLimits& limits, const ModelSpec& spec,
                          StepSizes* sizes) const = 0;

  // The first half: reads the residual stream through `norm`. Returns the hidden rows of an MLP, in
  // the form that the second half multiplies. Other kinds keep what they need in the buffers.
  virtual LinearInput Hidden(ForwardPass& pass, size_t layer, const NormWeights& norm) const = 0;

  // The second half: adds the branch to the residual stream.
  virtual void AddHidden(ForwardPass& pass, size_t layer, const LinearInput& hidden) const = 0;
};

const FeedForward& FeedForwardOf(FeedForwardKind kind);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_FEED_FORWARD_FEED_FORWARD_H_
