// The common part of linear RNNs: their memory, their buffers, and the recurrence itself.
#ifndef LONGSTREAM_BACKENDS_MODEL_MIXERS_LINEAR_RECURRENCE_H_
#define LONGSTREAM_BACKENDS_MODEL_MIXERS_LINEAR_RECURRENCE_H_

#include <cstddef>

#include "backends/caches/cache_layout.h"
#include "backends/model/mixers/projections.h"
#include "backends/model/step/forward_pass.h"
#include "backends/model/step/step_buffers.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "kernels/core/matrix.h"

namespace longstream {

// The decay of a state: fixed, or one gate per row, head and key element.
struct Decay {
  const float* log_decay = nullptr;  // [H] ln gamma_h
  Matrix gate{};                     // [num_rows, H*Dk] logits of the gates
};

// gated: the decay has a gate.
LayerCacheLayout RecurrentCaches(const MixerSpec& mixer, bool gated);

// Raises the sizes for Recur and for the projections around it.
void RaiseRecurrenceSizes(const StepLimits& limits, const MixerSpec& mixer,
                          const MixerWeights& weights, StepSizes* sizes);

// Norms and rotates queries and keys in place, where the layer does so, and runs
//   S_t = f_t S_(t-1) + k_t^T v_t,   o_t = score_scale * q_t S_t
// Returns o [num_rows, H*Dv].
Matrix Recur(ForwardPass& pass, size_t layer, const Projections& in, const Decay& decay);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_MIXERS_LINEAR_RECURRENCE_H_
