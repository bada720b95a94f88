// The forward pass of one step while it runs: its rows, their residual stream, and what a layer's
// parts (mixers, feed-forward parts) may use.
#ifndef LONGSTREAM_BACKENDS_MODEL_STEP_FORWARD_PASS_H_
#define LONGSTREAM_BACKENDS_MODEL_STEP_FORWARD_PASS_H_

#include <cstdint>
#include <initializer_list>

#include "backends/caches/cache_store.h"
#include "backends/model/step/position_tables.h"
#include "backends/model/step/step_buffers.h"
#include "backends/model/step/step_rows.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "kernels/core/matrix.h"
#include "kernels/core/norm.h"
#include "kernels/core/stream.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// The rows of a step that need logits. The other rows end after the last layer's mixer, which has
// filled the caches by then; in a parallel block they end after the layer.
struct LogitRows {
  const int32_t* rows = nullptr;  // [num_rows] in device memory, in ascending order
  int64_t num_rows = 0;
  int64_t num_decode_rows = 0;  // how many of the logit rows are decode rows
};

// The norm of a row of the residual stream, or of a branch that is added to it.
inline Norm StreamNorm(const ModelSpec& spec, const NormWeights& norm) {
  return {norm.weight, spec.width, spec.norm_eps, spec.layer_norm, norm.bias};
}

// Lives as long as one step. Ops do not wait for the device: `stream.status` tells whether the ops
// accepted their arguments and started.
struct ForwardPass {
  const ModelSpec& spec;
  const ModelWeights& weights;
  const CacheStore& caches;
  const OpTable& ops;
  const PositionTables& tables;
  const StepBuffers& buffers;
  const StepRows& rows;
  const LogitRows logit_rows;
  Stream stream;
  // The rows that are left: all rows of the step, or after KeepLogitRows the rows that need logits.
  int64_t num_rows = 0;
  int64_t num_decode_rows = 0;

  // [num_rows, d]
  Matrix Residual() const { return buffers.Residual(num_rows); }

  Norm StreamNorm(const NormWeights& norm) const { return longstream::StreamNorm(spec, norm); }
  // A norm that is not of the residual stream, over `size` numbers. If `weight` is nullptr, there
  // is no norm.
  Norm NormOf(const float* weight, int64_t size) const { return {weight, size, spec.norm_eps}; }

  // x = Norm(x), where x is the residual stream. Does nothing if there is no norm.
  void NormResidual(const NormWeights& norm);

  // x += residual_multiplier * PostNorm(in W^T + bias), without the norm where post_norm has no
  // weight.
  void AddBranch(const LinearInput& in, const float* bias, const NormWeights& post_norm);

  // Drops all but the logit rows, from the residual stream and from each of `matrices` that has
  // data.
  void KeepLogitRows(std::initializer_list<Matrix> matrices);
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_STEP_FORWARD_PASS_H_
