// A mixer: the part of a layer that reads other tokens than its own. One file of this folder holds
// all that a mixer decides, and mixers.cc says which mixer serves a kind of layer.
//
// To add a mixer:
//   - its file in this folder, and a line for it in mixers.h, mixers.cc and ../CMakeLists.txt;
//   - its MixerKind, and new numbers of its layers in MixerSpec (backends/spec/model_spec.h). New
//     numbers also go into Fingerprint::AddMixer (backends/runtime/model_description.cc), because a
//     snapshot must not load into a model that reads it otherwise;
//   - new weights in MixerWeights (backends/spec/model_weights.h);
//   - the value of a config key that asks for it (backends/architectures);
//   - its tests and its golden: docs/checkpoints.md#adding-a-family, "A new mixer".
#ifndef LONGSTREAM_BACKENDS_MODEL_MIXERS_MIXER_H_
#define LONGSTREAM_BACKENDS_MODEL_MIXERS_MIXER_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "backends/caches/cache_layout.h"
#include "backends/model/step/forward_pass.h"
#include "backends/model/step/step_buffers.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "backends/spec/named_tensors.h"

namespace longstream {

// A mixer has no state: each kind is one constant object, which any thread may use.
class Mixer {
 public:
  Mixer() = default;
  virtual ~Mixer() = default;
  Mixer(const Mixer&) = delete;
  Mixer& operator=(const Mixer&) = delete;

  // The widest head that the ops of this mixer serve.
  virtual int32_t max_head_dim() const { return std::numeric_limits<int32_t>::max(); }

  // The sizes of what a layer remembers of a sequence.
  virtual LayerCacheLayout Caches(const MixerSpec& mixer) const = 0;

  // Reads the layer's tensors.
  virtual void Read(const NamedTensors& tensors, const MixerSpec& mixer,
                    MixerWeights* weights) const = 0;

  // Raises the sizes of the buffers that Forward uses.
  virtual void RaiseSizes(const StepLimits& limits, const MixerSpec& mixer,
                          const MixerWeights& weights, StepSizes* sizes) const = 0;

  // x += residual_multiplier * PostNorm(Mix(Norm(x))), where x is the residual stream; writes the
  // step's rows to the caches. In the last layer, only the logit rows are added to the stream
  // (ProjectBack).
  virtual void Forward(ForwardPass& pass, size_t layer) const = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_MIXERS_MIXER_H_
