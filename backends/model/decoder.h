// The forward pass of a model over the rows of a step. Equations: docs/models.md.
#ifndef LONGSTREAM_BACKENDS_MODEL_DECODER_H_
#define LONGSTREAM_BACKENDS_MODEL_DECODER_H_

#include <cstddef>
#include <cstdint>

#include "backends/caches/cache_layout.h"
#include "backends/caches/cache_store.h"
#include "backends/caches/sequence_cache.h"
#include "backends/model/mixers/near_rings.h"
#include "backends/model/step/forward_pass.h"
#include "backends/model/step/position_tables.h"
#include "backends/model/step/step_buffers.h"
#include "backends/model/step/step_rows.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "kernels/core/executor.h"
#include "kernels/core/stream.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// The decoder knows only the spec and the table of ops: no model family and no device. A step
// allocates nothing. Not thread-safe. The constructor's arguments must outlive the decoder.
class Decoder {
 public:
  // Forward and RebuildNearRings are the first to use `caches`, so `caches` may be constructed
  // after the decoder, from the memory of `device` that the decoder leaves. layout: that of
  // `caches`.
  Decoder(const ModelSpec& spec, const ModelWeights& weights, const CacheStore& caches,
          const CacheLayout& layout, const OpTable& ops, const Executor& executor, int64_t max_rows,
          int64_t max_sequences, Device& device);

  // Runs the rows through all layers: fills their caches, and keeps the last hidden states of the
  // logit rows for Logits. rows: at most max_rows of at most max_sequences sequences, uploaded.
  // sampled: in device memory; the tokens that ids below 0 stand for (EmbedArgs). Does not wait for
  // the device: OpStatus tells whether the ops accepted their arguments and started.
  OpStatus Forward(const StepRows& rows, const LogitRows& logit_rows, const int32_t* sampled);

  // logits[i, :] = head(Norm(hidden state of logit row first + i)), for num_rows rows. logits:
  // [num_rows, vocabulary] f32, device. Does not wait for the device.
  OpStatus Logits(int64_t first, int64_t num_rows, float* logits);

  // Allocates the memory that RebuildNearRings needs for a sequence of `num_pages` pages.
  // RebuildNearRings then allocates nothing. Throws BackendError(LS_RESOURCE_EXHAUSTED).
  void PrepareRebuild(size_t num_pages) { near_rings_.Prepare(num_pages); }
  // Fills the near rings of a sequence from its pages, if the rings are stale.
  OpStatus RebuildNearRings(SequenceCache& cache) {
    return near_rings_.Rebuild(buffers_.MakeStream(executor_), cache);
  }

  // Bytes of activations, tables and workspace.
  uint64_t bytes() const { return buffers_.bytes() + tables_.bytes() + near_rings_.bytes(); }

 private:
  const ModelSpec& spec_;
  const ModelWeights& weights_;
  const CacheStore& caches_;
  const OpTable& ops_;
  const Executor executor_;
  PositionTables tables_;
  StepBuffers buffers_;
  NearRings near_rings_;
  int64_t num_logit_rows_ = 0;  // of the last Forward
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_DECODER_H_
