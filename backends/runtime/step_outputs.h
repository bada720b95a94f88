// From hidden states to what a host asked for: sampled tokens, log-probabilities, logits.
#ifndef LONGSTREAM_BACKENDS_RUNTIME_STEP_OUTPUTS_H_
#define LONGSTREAM_BACKENDS_RUNTIME_STEP_OUTPUTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/api/backend.h"
#include "backends/caches/device_memory.h"
#include "backends/model/decoder.h"
#include "backends/model/transfer.h"
#include "backends/runtime/ticket.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Runs the head over the rows that somebody wants, a block of them at a time, and what follows it.
// Asks the device and never waits for it: OpStatus is of the ops' arguments and of their start. Not
// thread-safe; what is referred to must outlive it.
class StepOutputs {
 public:
  // Rows of logits at a time: enough that the head's weights are read for many rows at once, few
  // enough that scoring a long text needs no logits of its whole length.
  static constexpr int32_t kBlockRows = 64;

  StepOutputs(Decoder& decoder, const OpTable& ops, Device& device, const Executor& executor,
              int64_t vocabulary, int64_t max_rows, int64_t max_sequences);

  // What the last step has sampled, by WantedRow::sampled, until Draw replaces it; -1 where it drew
  // none. Device.
  const int32_t* sampled() const { return Output<int32_t>(0); }

  // Brings the arguments of a step's head and sampling to the device; the ticket learns the layout
  // of what they leave. num_rows: of the step, where it is padded: each of them is drawn then, the
  // wanted ones being its first. 0: it is not.
  void Upload(const ls_batch& batch, Ticket& ticket, int32_t num_rows);

  // Of the step that was uploaded, whose first rows are num_decode_rows decode rows.
  Decoder::Wanted wanted(int32_t num_decode_rows) const;
  size_t num_blocks() const { return blocks_.size(); }
  // After Forward: head, check for finite rows and sampling. With the same `num_rows`, ops are
  // called with the same arguments.
  OpStatus Draw(size_t block);
  // After Draw of the block and before that of the next: log-probabilities, and rows of logits.
  OpStatus Score(size_t block, Ticket& ticket);
  // After the last Score: copies what ops have left to the ticket.
  void Download(Ticket& ticket);

  // Bytes of logits, workspace and results.
  uint64_t bytes() const { return scratch_.size() + results_.size(); }

 private:
  struct Range {
    size_t begin = 0;
    size_t count = 0;
  };
  // Of a block: its wanted rows, and among the sampled and the scored ones those in it.
  struct Block {
    Range rows;
    Range sampled;
    Range scored;
  };

  void DivideIntoBlocks(const std::vector<WantedRow>& wanted);
  void Pad(int32_t num_rows);
  // Sampled and scored rows as ops read them. Brings what is not repeated to the device: the lists
  // that sampled rows refer to, and the rows of Score.
  void DescribeRows(const ls_batch& batch, const Ticket& ticket);

  template <typename T>
  T* Output(size_t offset) const {
    return reinterpret_cast<T*>(results_.data() + offset);
  }
  float* LogitsOf(size_t index) const;
  // A block's logits, [num_rows, vocabulary].
  Matrix Logits(size_t num_rows) const;
  Stream MakeStream() const;

  Decoder& decoder_;
  const OpTable& ops_;
  Device& device_;
  const Executor executor_;
  const int64_t vocabulary_;
  DeviceMemory scratch_;         // logits of a block, workspace of sampling
  size_t workspace_offset_ = 0;  // in scratch_
  DeviceMemory results_;         // OutputLayout

  // The step.
  std::vector<Block> blocks_;
  std::vector<int32_t> rows_;          // [<= max_rows] wanted
  std::vector<SamplingRow> sampling_;  // [<= max_sequences]
  std::vector<LogProbsRow> scores_;    // [<= max_rows]
  std::vector<TokenCount> history_;
  std::vector<LogitBias> bias_;
  OutputLayout layout_;

  // As ops see it.
  Arguments arguments_;
  Arguments lists_;
  const int32_t* device_rows_ = nullptr;
  const SamplingRow* device_sampling_ = nullptr;
  const LogProbsRow* device_scores_ = nullptr;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_RUNTIME_STEP_OUTPUTS_H_
