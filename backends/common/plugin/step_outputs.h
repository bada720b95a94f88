// From hidden states to what a host asked for: sampled tokens, log-probabilities, logits.
#ifndef LONGSTREAM_BACKENDS_COMMON_PLUGIN_STEP_OUTPUTS_H_
#define LONGSTREAM_BACKENDS_COMMON_PLUGIN_STEP_OUTPUTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/api/backend.h"
#include "backends/common/cache/device_memory.h"
#include "backends/common/layers/decoder.h"
#include "backends/common/layers/transfer.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Why a step failed, for the results of its entries. REQUIRES: not kOk.
const char* Sentence(OpStatus failure);

// The results of one ticket, in memory that the next ticket but one writes again.
struct TicketResults {
  TicketResults(int64_t max_rows, int64_t max_sequences, int64_t vocabulary);

  void Fail(size_t entry, ls_code code, const char* message);
  bool failed(size_t entry) const { return results[entry].code != LS_OK; }

  uint32_t num_results = 0;
  std::vector<ls_result> results;     // [max_sequences]
  std::vector<std::string> messages;  // [max_sequences]
  std::vector<float> log_probs;       // [max_rows]
  std::vector<ls_top_token> top;      // [max_rows, LS_MAX_TOP]
  DeviceMemory logits;                // [max_rows, vocabulary] f32 of the host, touched if wanted
};

// Runs the head over the rows that somebody wants, some at a time, and what follows it. Not
// thread-safe; what is referred to must outlive it.
class StepOutputs {
 public:
  StepOutputs(Decoder& decoder, const OpTable& ops, Device& device, const Executor& executor,
              int64_t vocabulary, int64_t max_rows, int64_t max_sequences);

  // Begins a step; its outputs go to `results`, as LS_OK results without rows at first.
  void Begin(const ls_batch& batch, TicketResults* results);
  // Entry `entry` of the batch is part of the step: its first token is row `first_row`, and
  // `end_position` the position after its last.
  void Add(size_t entry, int32_t first_row, int64_t end_position);
  // After Forward: fills the results of the entries added, or fails them. Waits for the device
  // where anything is wanted of it; rows of full logits are there after the next Synchronize.
  // kDeviceError: the device failed, so that entries of which nothing is wanted have failed too.
  OpStatus Compute();

  // Bytes of logits and workspace.
  uint64_t bytes() const { return scratch_.size(); }

 private:
  // One row of logits and what it is wanted for.
  struct WantedRow {
    size_t entry = 0;
    int32_t row = 0;       // of the step
    uint32_t to_come = 0;  // rows of the entry behind it
  };

  OpStatus ComputeBlock(std::span<const WantedRow> rows);
  // Arguments of a block's head and of its sampling, uploaded together.
  void PrepareSampling(std::span<const WantedRow> rows);
  // Head, check for finite rows and sampling.
  OpStatus RunHead(int64_t num_rows);
  void FailNonFinite(std::span<const WantedRow> rows);
  void TakeSampled(std::span<const WantedRow> rows);
  OpStatus LogProbs(std::span<const WantedRow> rows);
  OpStatus RunLogProbs(int64_t num_rows);
  void CopyLogits(std::span<const WantedRow> rows);
  // Returns `status`.
  OpStatus FailBlock(std::span<const WantedRow> rows, OpStatus status);

  const ls_batch_entry& EntryOf(const WantedRow& row) const { return batch_->entries[row.entry]; }
  ls_result& ResultOf(const WantedRow& row) { return results_->results[row.entry]; }
  bool IsFailed(const WantedRow& row) const { return results_->failed(row.entry); }
  bool IsSampled(const WantedRow& row) const {
    return row.to_come == 0 && EntryOf(row).sampling != nullptr;
  }
  float* LogitsOf(size_t index) const;
  // A block's logits, [num_rows, vocabulary].
  Matrix Logits(int64_t num_rows) const;
  Stream MakeStream() const;

  Decoder& decoder_;
  const OpTable& ops_;
  Device& device_;
  const Executor executor_;
  const int64_t vocabulary_;
  DeviceMemory scratch_;         // logits of a block, workspace of sampling
  size_t workspace_offset_ = 0;  // in scratch_

  // The step.
  const ls_batch* batch_ = nullptr;
  TicketResults* results_ = nullptr;
  std::vector<WantedRow> wanted_;       // [<= max_rows], in the order of the batch
  std::vector<int64_t> end_positions_;  // [max_sequences]
  size_t used_log_probs_ = 0;           // of results_, by entries added
  size_t used_top_ = 0;
  size_t used_logits_ = 0;

  // A block: arguments of its ops.
  std::vector<int32_t> rows_;
  std::vector<int32_t> finite_;
  std::vector<SamplingRow> sampling_;
  std::vector<size_t> sampled_index_;  // of sampling_[i] in the block
  std::vector<int32_t> sampled_;
  std::vector<TokenCount> history_;
  std::vector<LogitBias> bias_;
  std::vector<LogProbsRow> log_prob_rows_;
  std::vector<float> log_probs_;
  std::vector<TopToken> top_;
  Arguments arguments_;
  Results outputs_;
  size_t fixed_argument_bytes_ = 0;  // of arguments_, without history and bias
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_COMMON_PLUGIN_STEP_OUTPUTS_H_
