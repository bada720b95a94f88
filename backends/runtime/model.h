// An opened model: the operations of the ABI in C++, on weights, caches and decoder.
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
#include "backends/caches/segments/snapshot_memory.h"
#include "backends/model/decoder.h"
#include "backends/model/step/step_rows.h"
#include "backends/runtime/definition.h"
#include "backends/runtime/model_description.h"
#include "backends/runtime/segments.h"
#include "backends/runtime/sequence.h"
#include "backends/runtime/step_outputs.h"
#include "backends/runtime/ticket.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "kernels/core/device.h"
#include "kernels/core/executor.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// The capabilities of every backend built on this layer, on any device (ls_backend.capabilities).
inline constexpr uint64_t kCapabilities = LS_CAP_SNAPSHOT | LS_CAP_FORK | LS_CAP_SCORE |
                                          LS_CAP_QUANTISED_WEIGHTS | LS_CAP_IN_FLIGHT_TOKENS |
                                          LS_CAP_SEGMENTS | LS_CAP_ALLOWED_TOKENS;

struct ModelLimits {
  uint64_t cache_bytes_budget = 0;  // 0: the machine's memory
  uint32_t max_batch_tokens = 1;
  uint32_t max_batch_sequences = 1;
};

// Each operation does what backends/api/backend.h says of the function with the same name, with the
// same codes, thrown as Failure (plugin.h) or BackendError. Submit starts a step on the device; in
// the host's memory it runs the whole step. Wait waits for it.
//
// Used by one thread at a time; any thread may call info and memory at any time. Another thread may
// read snapshots and write imports meanwhile.
class Model {
 public:
  // Throws BackendError: LS_INVALID_ARGUMENT if the budget does not hold one sequence of one token,
  // LS_RESOURCE_EXHAUSTED if the device has too little memory. These must outlive the model: `ops`,
  // `device` (whose memory the ops use) and everything that `executor` borrows.
  Model(ModelSpec spec, ModelWeights weights, DType cache_type, const OpTable& ops,
        const Executor& executor, const ModelLimits& limits, Device& device = HostMemory());
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ls_model_info& info() const { return description_.info(); }
  ls_memory memory() const;
  const ModelSpec& spec() const { return spec_; }
  const ModelWeights& weights() const { return weights_; }

  // ls_backend.model_set_budget. Throws BackendError(LS_INVALID_ARGUMENT).
  void SetBudget(uint64_t cache_bytes_budget);

  std::unique_ptr<ls_sequence> Create();
  std::unique_ptr<ls_sequence> Fork(ls_sequence& source);
  void Reserve(ls_sequence& sequence, uint64_t tokens);
  void MarkRollbackPoint(ls_sequence& sequence);
  uint64_t Truncate(ls_sequence& sequence, uint64_t position);
  void Export(const ls_sequence& sequence, const ls_writer& writer) const;
  std::unique_ptr<ls_sequence> Import(const ls_reader& reader);
  std::unique_ptr<ls_snapshot> BeginSnapshot(ls_sequence& sequence, uint64_t from);
  std::unique_ptr<ls_import> BeginImport(uint64_t position);
  // Leaves the import empty, to be destroyed. If it throws, the import stays as it was.
  std::unique_ptr<ls_sequence> Attach(ls_import& import);

  uint64_t Submit(const ls_batch& batch);
  ls_results Wait(uint64_t ticket);

 private:
  void CheckBatch(const ls_batch& batch);
  // Adds an entry to the step, or fails the entry.
  void Enter(const ls_batch_entry& entry, size_t index, Ticket& ticket);
  // Starts the step and records the ticket's done() behind it.
  void Begin(const ls_batch& batch, Ticket& ticket);
  OpStatus RunStep(const ls_batch& batch, Ticket& ticket);
  // The forward pass, then the head and sampling of the first block.
  OpStatus ForwardAndDraw();
  Ticket& TicketOf(uint64_t number) { return tickets_[number % tickets_.size()]; }
  void RebuildNearRings(SequenceCache& cache);
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
  CacheStore caches_;  // after the members above: it takes from the memory that they leave
  SnapshotMemoryPool snapshot_memory_;
  const ModelDescription description_;
  BatchCheck batch_check_;
  // Pages per sequence for which rows_ has room. Atomic, because memory reads it.
  std::atomic<int64_t> longest_table_{0};
  uint64_t next_ticket_ = 1;
  uint64_t oldest_ticket_ = 1;  // the oldest in flight; next_ticket_ if none is
};

// Reads a model directory: config, spec, checkpoint, weights. Ignores the devices of `options`: the
// caller passes the device that they name, which must outlive the model. Throws BackendError.
std::unique_ptr<Model> OpenModel(const BackendDefinition& definition,
                                 const ls_model_options& options, const OpTable& ops,
                                 Device& device = HostMemory());

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_RUNTIME_MODEL_H_
