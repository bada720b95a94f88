// From hidden states to the outputs that the host asked for: sampled tokens, log-probabilities,
// logits.
#ifndef LONGSTREAM_BACKENDS_RUNTIME_STEP_OUTPUTS_H_
#define LONGSTREAM_BACKENDS_RUNTIME_STEP_OUTPUTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/api/backend.h"
#include "backends/caches/device_memory.h"
#include "backends/model/decoder.h"
#include "backends/model/step/transfer.h"
#include "backends/runtime/ticket.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Runs the head over the logit rows, one block at a time, then sampling and log-probabilities. It
// never waits for the device: OpStatus only reports the ops' arguments and their start. Not
// thread-safe; the constructor's arguments must outlive it.
class StepOutputs {
 public:
  // How many rows of logits the head computes at a time. So many rows share one read of the head's
  // weights, and scoring a long text needs no memory for the logits of the whole text. On a device
  // of its own, all sequences of a step share one read, up to kMostDeviceRows of them.
  static constexpr int32_t kBlockRows = 64;
  static constexpr int32_t kMostDeviceRows = 256;

  StepOutputs(Decoder& decoder, const OpTable& ops, Device& device, const Executor& executor,
              int64_t vocabulary, int64_t max_rows, int64_t max_sequences);

  int32_t block_rows() const { return block_rows_; }

  // The last step's tokens, indexed by LogitRow::sampled, in device memory. They are valid until
  // Draw replaces them. -1: sampling drew no token.
  const int32_t* sampled() const { return Output<int32_t>(0); }

  // Uploads the arguments of a step's head and sampling, and tells the ticket the layout of the
  // outputs. num_rows: the rows of a padded step. All of them are drawn, and the first ones are the
  // logit rows. 0: the step is not padded.
  void Upload(const ls_batch& batch, Ticket& ticket, int32_t num_rows);

  // The logit rows of the uploaded step, whose first num_decode_rows rows are decode rows.
  LogitRows logit_rows(int32_t num_decode_rows) const;
  size_t num_blocks() const { return blocks_.size(); }
  // After Forward: runs the head, the check for finite rows, and sampling. With the same
  // `num_rows`, it calls ops with the same arguments.
  OpStatus Draw(size_t block);
  // After Draw of this block, before Draw of the next: log-probabilities, and rows of logits.
  OpStatus Score(size_t block, Ticket& ticket);
  // After the last Score: copies the ops' outputs to the ticket.
  void Download(Ticket& ticket);

  // Bytes of logits, workspace and outputs.
  uint64_t bytes() const { return scratch_.size() + results_.size(); }

 private:
  struct Range {
    size_t begin = 0;
    size_t count = 0;
  };
  // A block: its logit rows, and its share of the sampled rows and of the scored rows.
  struct Block {
    Range rows;
    Range sampled;
    Range scored;
  };

  void DivideIntoBlocks(const std::vector<LogitRow>& logit_rows);
  void Pad(int32_t num_rows);
  // Describes sampled and scored rows for the ops. Uploads the arguments whose place may change
  // from step to step: the lists and masks to which sampled rows refer, and the rows of Score.
  void DescribeRows(const ls_batch& batch, const Ticket& ticket);
  // Collects the lists and masks of the step, and makes room for them and for the rows of Score.
  void CollectLists(const ls_batch& batch, const Ticket& ticket);
  // Adds the masks to lists_.
  void AddMasks();
  // A mask of the batch as ops see it, after AddMasks.
  const uint32_t* DeviceMask(const uint32_t* allowed) const;

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
  const int32_t block_rows_;
  DeviceMemory scratch_;         // logits of a block, workspace of sampling
  size_t workspace_offset_ = 0;  // in scratch_
  DeviceMemory results_;         // laid out as OutputLayout

  // The step.
  std::vector<Block> blocks_;
  std::vector<int32_t> rows_;          // [<= max_rows] the logit rows
  std::vector<SamplingRow> sampling_;  // [<= max_sequences]
  std::vector<LogProbsRow> scores_;    // [<= max_rows]
  std::vector<TokenCount> history_;
  std::vector<LogitBias> bias_;
  // The distinct masks of allowed tokens in the host's memory, in rising order of addresses, and
  // the same masks as ops see them. Entries of a batch may share a mask.
  std::vector<const uint32_t*> masks_;         // [<= max_sequences]
  std::vector<const uint32_t*> device_masks_;  // [<= max_sequences]
  OutputLayout layout_;

  // The arguments in device memory.
  Arguments arguments_;
  Arguments lists_;
  const int32_t* device_rows_ = nullptr;
  const SamplingRow* device_sampling_ = nullptr;
  const LogProbsRow* device_scores_ = nullptr;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_RUNTIME_STEP_OUTPUTS_H_
