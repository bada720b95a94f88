// The common part of attention layers and gated attention units: caches, buffers, and attention
// itself.
#ifndef LONGSTREAM_BACKENDS_MODEL_MIXERS_ATTENTION_H_
#define LONGSTREAM_BACKENDS_MODEL_MIXERS_ATTENTION_H_

#include <cstddef>

#include "backends/caches/cache_layout.h"
#include "backends/model/mixers/projections.h"
#include "backends/model/step/forward_pass.h"
#include "backends/model/step/step_buffers.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "backends/spec/named_tensors.h"
#include "kernels/core/matrix.h"

namespace longstream {

// The caches of an attention layer. kFull has pages, and with ReRoPE a near ring beside them.
// kWindow has a ring.
LayerCacheLayout AttentionCaches(const MixerSpec& mixer);

// Computes the slopes of ALiBi, where the layer has them.
void MakeSlopes(const NamedTensors& tensors, const MixerSpec& mixer, MixerWeights* weights);

// Raises the sizes for Attend and for the projections around it.
void RaiseAttentionSizes(const StepLimits& limits, const MixerSpec& mixer,
                         const MixerWeights& weights, StepSizes* sizes);

// o = softmax(score_scale * q K^T) V over the keys that the layer's rows see. Rotates `in` in
// place, and writes its keys and values to the caches. Returns o [num_rows, H*Dv].
Matrix Attend(ForwardPass& pass, size_t layer, const Projections& in);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_MIXERS_ATTENTION_H_
