// The projections before and after a mixer: queries, keys, values and a gate from the residual
// stream, and the branch back to it.
#ifndef LONGSTREAM_BACKENDS_MODEL_MIXERS_PROJECTIONS_H_
#define LONGSTREAM_BACKENDS_MODEL_MIXERS_PROJECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/model/step/forward_pass.h"
#include "backends/model/step/step_buffers.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "backends/spec/named_tensors.h"
#include "kernels/core/matrix.h"
#include "kernels/ops/cache/rope_cache_write.h"

namespace longstream {

// Widths of a mixer's projections.
struct ProjectionWidths {
  explicit ProjectionWidths(const MixerSpec& mixer)
      : q(int64_t{mixer.num_heads} * mixer.head_dim),
        k(int64_t{mixer.num_kv_heads} * mixer.head_dim),
        v(int64_t{mixer.num_kv_heads} * mixer.value_dim),
        out(int64_t{mixer.num_heads} * mixer.value_dim) {}

  int64_t q;
  int64_t k;
  int64_t v;
  int64_t out;  // inputs of W_o
};

// The fourth part of the input projection: a gate on the output, or of the decay.
struct GateTensor {
  std::string_view name;
  int64_t rows = 0;  // 0: there is no gate
  bool has_bias = false;
};

// Where the kernels expect element i of a stored head: they rotate element i with i + D / 2, and
// pairs that do not rotate come last. Empty if heads are stored in that order.
std::vector<int32_t> HeadOrder(const MixerSpec& mixer);

// Reads W_in = [q k v gate] and the norms of queries and keys. For kChunkedRope, W_in is [q k], and
// W_v is read as a weight of its own.
void ReadInput(const NamedTensors& tensors, const MixerSpec& mixer, const GateTensor& gate,
               MixerWeights* weights);
// Reads W_o.
void ReadOutput(const NamedTensors& tensors, const MixerSpec& mixer, MixerWeights* weights);

// Raises the sizes for Project and ProjectBack. SizesOf provides for products of the residual
// stream.
void RaiseProjectionSizes(const StepLimits& limits, const MixerSpec& mixer,
                          const MixerWeights& weights, StepSizes* sizes);

// The step's rows after a mixer's input projection: views into one buffer. `gate` has no data where
// the mixer has no gate.
struct Projections {
  Matrix q;
  Matrix k;
  Matrix v;
  Matrix gate;
};
Projections Project(ForwardPass& pass, size_t layer);

// The arguments that every layer passes to rope_cache_write. The op norms heads that share one
// norm's weights, rotates q and k, and scales q by position (PositionTables). The caller adds where
// keys and values go.
RopeCacheWriteArgs CacheWriteArgs(const ForwardPass& pass, size_t layer, const Projections& in);

// x += residual_multiplier * PostNorm(W_o in + bias), where in.x [num_rows, H*Dv] and in.gate are
// rows of the step. In the last layer it keeps only the logit rows (in a parallel block they are
// kept after the layer).
void ProjectBack(ForwardPass& pass, size_t layer, LinearRows in);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_MIXERS_PROJECTIONS_H_
