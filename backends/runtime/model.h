// An opened model: weights, caches and decoder behind the operations of the ABI, in C++.
#ifndef LONGSTREAM_BACKENDS_RUNTIME_MODEL_H_
#define LONGSTREAM_BACKENDS_RUNTIME_MODEL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/api/backend.h"
#include "backends/api/plugin.h"
#include "backends/caches/cache_store.h"
#include "backends/model/decoder.h"
#include "backends/model/step_rows.h"
#include "backends/runtime/definition.h"
#include "backends/runtime/model_description.h"
#include "backends/runtime/sequence.h"
#include "backends/runtime/step_outputs.h"
#include "backends/runtime/ticket.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "kernels/core/device.h"
#include "kernels/core/executor.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// What every backend built on this layer can do on any device, ls_backend.capabilities.
inline constexpr uint64_t kCapabilities = LS_CAP_SNAPSHOT | LS_CAP_FORK | LS_CAP_SCORE |
                                          LS_CAP_QUANTISED_WEIGHTS | LS_CAP_IN_FLIGHT_TOKENS;

struct ModelLimits {
  uint64_t cache_bytes_budget = 0;  // 0: the machine's memory
  uint32_t max_batch_tokens = 1;
  uint32_t max_batch_sequences = 1;
};

// Each operation does what the function of the same name in backends/api/backend.h says, with the
// same codes, thrown as Failure (plugin.h) or BackendError. Submit asks the device for a step,
// which in the host's memory means that it runs there; Wait waits for it.
//
// Used by one thread at a time, except info and memory, which any thread may call at any time.
class Model {
 public:
  // Throws BackendError(LS_INVALID_ARGUMENT) for a budget that does not hold one sequence of one
  // token, BackendError(LS_RESOURCE_EXHAUSTED) where the device's memory does not hold what it
  // needs. `ops` and `device`, whose memory they take, must outlive the model, and so must what
  // `executor` borrows.
  Model(ModelSpec spec, ModelWeights weights, DType cache_type, const OpTable& ops,
        const Executor& executor, const ModelLimits& limits, Device& device = HostMemory());
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ls_model_info& info() const { return description_.info(); }
  ls_memory memory() const;
  const ModelSpec& spec() const { return spec_; }
  const ModelWeights& weights() const { return weights_; }

  std::unique_ptr<ls_sequence> Create();
  std::unique_ptr<ls_sequence> Fork(ls_sequence& source);
  void Reserve(ls_sequence& sequence, uint64_t tokens);
  void MarkRollbackPoint(ls_sequence& sequence);
  uint64_t Truncate(ls_sequence& sequence, uint64_t position);
  void Export(const ls_sequence& sequence, const ls_writer& writer) const;
  std::unique_ptr<ls_sequence> Import(const ls_reader& reader);

  uint64_t Submit(const ls_batch& batch);
  ls_results Wait(uint64_t ticket);

 private:
  void CheckBatch(const ls_batch& batch);
  // Adds an entry to the step, or fails it.
  void Enter(const ls_batch_entry& entry, size_t index, Ticket& ticket);
  // Asks for the step, and for the ticket's done() behind it.
  void Begin(const ls_batch& batch, Ticket& ticket);
  OpStatus RunStep(const ls_batch& batch, Ticket& ticket);
  // The forward pass, and as many rows drawn as the head takes at a time.
  OpStatus ForwardAndDraw();
  Ticket& TicketOf(uint64_t number) { return tickets_[number % tickets_.size()]; }
  void RebuildNearRings(ls_sequence& sequence);
  void PreparePageTables(int64_t tokens);

  Device& device_;
  const ModelSpec spec_;
  const ModelWeights weights_;
  const ModelLimits limits_;
  const CacheLayout layout_;
  Decoder decoder_;
  StepRows rows_;
  StepOutputs outputs_;
  std::array<Ticket, kMaxStepsInFlight> tickets_;
  CacheStore caches_;  // of what memory those above leave
  const ModelDescription description_;
  BatchCheck batch_check_;
  // Pages of a sequence that rows_ has room for. Atomic, because memory reads it.
  std::atomic<int64_t> longest_table_{0};
  uint64_t next_ticket_ = 1;
  uint64_t oldest_ticket_ = 1;  // in flight; next_ticket_ where none is
};

// Reads a model directory: config, plan, checkpoint, weights. The devices of `options` are left to
// the caller, who gives the one that they name; it must outlive the model. Throws BackendError.
std::unique_ptr<Model> OpenModel(const BackendDefinition& definition,
                                 const ls_model_options& options, const OpTable& ops,
                                 Device& device = HostMemory());

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_RUNTIME_MODEL_H_
