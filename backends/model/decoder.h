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

// Written against the table of ops alone, and against the spec: it knows no model family and no
// device. A step allocates nothing. Not thread-safe; what is referred to must outlive it.
class Decoder {
 public:
  // `caches` is first used by Forward and RebuildNearRings, and may be constructed later, from what
  // memory the decoder leaves of `device`, theirs too. ring_type: as StepBuffers has it.
  Decoder(const ModelSpec& spec, const ModelWeights& weights, const CacheStore& caches,
          DType ring_type, const OpTable& ops, const Executor& executor, int64_t max_rows,
          int64_t max_sequences, Device& device);

  // Those of a step's rows that logits are wanted of. The others end behind the last layer's mixer,
  // which has filled the caches by then; in a parallel block behind the layer.
  struct Wanted {
    const int32_t* rows = nullptr;  // [num_rows] device, each above the one before
    int64_t num_rows = 0;
    int64_t num_decode_rows = 0;  // of them
  };

  // Runs the rows through all layers: fills their caches, leaves the last hidden states of those
  // wanted for Logits. rows: at most max_rows of at most max_sequences sequences, uploaded.
  // sampled: device, what ids below 0 stand for (EmbedArgs). Does not wait for the device: OpStatus
  // is of the ops' arguments and of their start.
  OpStatus Forward(const StepRows& rows, const Wanted& wanted, const int32_t* sampled);

  // logits[i, :] = head(Norm(hidden state of wanted row first + i)), for num_rows rows. logits:
  // [num_rows, vocabulary] f32, device. Does not wait either.
  OpStatus Logits(int64_t first, int64_t num_rows, float* logits);

  // Room for RebuildNearRings of a sequence of that many pages, which then allocates nothing.
  // Throws BackendError(LS_RESOURCE_EXHAUSTED).
  void PrepareRebuild(size_t num_pages);
  // Makes the near rings of a sequence anew from its pages, where they are stale.
  OpStatus RebuildNearRings(SequenceCache& cache);

  // Bytes of activations, tables and workspace.
  uint64_t bytes() const {
    return buffers_.bytes() + tables_.bytes() + rebuild_rope_.size() +
           rebuild_positions_.size() * sizeof(int64_t);
  }

 private:
  // Goes on with the wanted rows alone, of the residual stream and of those of `matrices` that have
  // data.
  void KeepWanted(Stream& stream, std::initializer_list<Matrix> matrices);
  // x = Norm(x), of the residual stream behind a layer.
  void NormStream(Stream& stream, const Norm& norm);
  // x += residual_multiplier * PostNorm(Mixer_l(Norm(x)))
  void Attend(Stream& stream, const StepRows& rows, size_t layer);
  void Recur(Stream& stream, const StepRows& rows, size_t layer);
  // hidden = act(W_gate h) * (W_up h), h = Norm(x): the input of W_down, prepared for it.
  LinearInput MlpHidden(Stream& stream, size_t layer, const Norm& norm);
  // x += residual_multiplier * PostNorm(W_down hidden)
  void MlpBack(Stream& stream, size_t layer, const LinearInput& hidden);

  // A mixer's input projections of the step's rows: views into one buffer.
  struct Projections {
    Matrix q;
    Matrix k;
    Matrix v;
    Matrix gate;  // of the output (attention, lightning) or of the decay (gated RNN)
  };
  Projections Project(Stream& stream, const StepRows& rows, size_t layer);
  // Those of a gated attention unit; `gate` is u.
  Projections ProjectGau(Stream& stream, size_t layer);
  // What a layer does to q, k and v, in place, before they rotate: clips them, and norms queries
  // and keys over all heads together or each head with weights of its own.
  void ClipAndNorm(Stream& stream, const Projections& in, size_t layer);
  // x += residual_multiplier * PostNorm(in W^T + bias), without the norm where post_norm has no
  // weight.
  void AddBranch(Stream& stream, const LinearInput& in, const float* bias,
                 const NormWeights& post_norm);
  // x += residual_multiplier * W_o(mixed), normed and gated as the mixer says.
  void ProjectBack(Stream& stream, Matrix mixed, Matrix gate, size_t layer);
  // Of the residual stream, or of a branch on its way there.
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
  // Of a block of RebuildNearRings; empty where no layer has a near ring.
  std::vector<int64_t> rebuild_positions_;
  DeviceMemory rebuild_rope_;  // f32
  Arguments rebuild_arguments_;
  // Of the last Forward. From KeepWanted on numbers of rows are those of the wanted ones.
  Wanted wanted_;
  int64_t num_rows_ = 0;
  int64_t num_decode_rows_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_DECODER_H_
