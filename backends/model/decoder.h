// The forward pass of a model over the rows of a step. Equations: docs/models.md.
#ifndef LONGSTREAM_BACKENDS_MODEL_DECODER_H_
#define LONGSTREAM_BACKENDS_MODEL_DECODER_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "backends/caches/device_memory.h"
#include "backends/caches/sequence_cache.h"
#include "backends/model/position_tables.h"
#include "backends/model/step_buffers.h"
#include "backends/model/step_rows.h"
#include "backends/model/transfer.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "kernels/core/executor.h"
#include "kernels/core/stream.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Knows only the spec and the table of ops: no model family and no device. A step allocates
// nothing. Not thread-safe. The constructor's arguments must outlive the decoder.
class Decoder {
 public:
  // Forward and RebuildNearRings are the first to use `caches`, so `caches` may be constructed
  // after the decoder, from the memory of `device` that the decoder leaves. ring_type: see
  // StepBuffers.
  Decoder(const ModelSpec& spec, const ModelWeights& weights, const CacheStore& caches,
          DType ring_type, const OpTable& ops, const Executor& executor, int64_t max_rows,
          int64_t max_sequences, Device& device);

  // The rows of a step that need logits. The other rows end after the last layer's mixer, which has
  // filled the caches by then; in a parallel block they end after the layer.
  struct Wanted {
    const int32_t* rows = nullptr;  // [num_rows] device, each above the one before
    int64_t num_rows = 0;
    int64_t num_decode_rows = 0;  // of them
  };

  // Runs the rows through all layers: fills their caches, and keeps the last hidden states of the
  // wanted rows for Logits. rows: at most max_rows of at most max_sequences sequences, uploaded.
  // sampled: device; ids below 0 refer to it (EmbedArgs). Does not wait for the device: OpStatus
  // tells whether the ops accepted their arguments and started.
  OpStatus Forward(const StepRows& rows, const Wanted& wanted, const int32_t* sampled);

  // logits[i, :] = head(Norm(hidden state of wanted row first + i)), for num_rows rows. logits:
  // [num_rows, vocabulary] f32, device. Does not wait for the device.
  OpStatus Logits(int64_t first, int64_t num_rows, float* logits);

  // Allocates the memory that RebuildNearRings needs for a sequence of that many pages, which then
  // allocates nothing. Throws BackendError(LS_RESOURCE_EXHAUSTED).
  void PrepareRebuild(size_t num_pages);
  // Fills the near rings of a sequence from its pages, if the rings are stale.
  OpStatus RebuildNearRings(SequenceCache& cache);

  // Bytes of activations, tables and workspace.
  uint64_t bytes() const {
    return buffers_.bytes() + tables_.bytes() + rebuild_rope_.size() +
           rebuild_positions_.size() * sizeof(int64_t);
  }

 private:
  // Drops all but the wanted rows, from the residual stream and from each of `matrices` that has
  // data.
  void KeepWanted(Stream& stream, std::initializer_list<Matrix> matrices);
  // x = Norm(x), where x is the residual stream.
  void NormStream(Stream& stream, const Norm& norm);
  // x += residual_multiplier * PostNorm(Mixer_l(Norm(x)))
  void Attend(Stream& stream, const StepRows& rows, size_t layer);
  void Recur(Stream& stream, const StepRows& rows, size_t layer);
  // hidden = act(W_gate h) * (W_up h), h = Norm(x): the input of W_down, prepared for it.
  LinearInput MlpHidden(Stream& stream, size_t layer, const Norm& norm);
  // x += residual_multiplier * PostNorm(W_down hidden)
  void MlpBack(Stream& stream, size_t layer, const LinearInput& hidden);

  // The step's rows after a mixer's input projection: views into one buffer.
  struct Projections {
    Matrix q;
    Matrix k;
    Matrix v;
    Matrix gate;  // of the output (attention, lightning) or of the decay (gated RNN)
  };
  Projections Project(Stream& stream, const StepRows& rows, size_t layer);
  // The same for a gated attention unit; `gate` is u.
  Projections ProjectGau(Stream& stream, size_t layer);
  // Clips q, k and v and norms queries and keys, in place and before they rotate, where the layer
  // does so: over all heads together, or each head with its own weights.
  void ClipAndNorm(Stream& stream, const Projections& in, size_t layer);
  // x += residual_multiplier * PostNorm(in W^T + bias), without the norm where post_norm has no
  // weight.
  void AddBranch(Stream& stream, const LinearInput& in, const float* bias,
                 const NormWeights& post_norm);
  // x += residual_multiplier * W_o(mixed), normed and gated as the mixer says.
  void ProjectBack(Stream& stream, Matrix mixed, Matrix gate, size_t layer);
  // The norm of a row of the residual stream, or of a branch that is added to it.
  Norm StreamNorm(const NormWeights& norm) const {
    return {norm.weight, spec_.width, spec_.norm_eps, spec_.layer_norm, norm.bias};
  }
  Norm NormOf(const float* weight, int64_t size) const { return {weight, size, spec_.norm_eps}; }

  const ModelSpec& spec_;
  const ModelWeights& weights_;
  const CacheStore& caches_;
  const OpTable& ops_;
  const Executor executor_;
  PositionTables tables_;
  StepBuffers buffers_;
  // Positions of a block in RebuildNearRings; empty where no layer has a near ring.
  std::vector<int64_t> rebuild_positions_;
  DeviceMemory rebuild_rope_;  // f32
  Arguments rebuild_arguments_;
  // Set by the last Forward. KeepWanted sets the two numbers to those of the wanted rows.
  Wanted wanted_;
  int64_t num_rows_ = 0;
  int64_t num_decode_rows_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_DECODER_H_
