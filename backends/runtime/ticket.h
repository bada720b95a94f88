// A step from Submit to Wait: its logit rows, its ops' outputs and its results.
#ifndef LONGSTREAM_BACKENDS_RUNTIME_TICKET_H_
#define LONGSTREAM_BACKENDS_RUNTIME_TICKET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/api/backend.h"
#include "backends/caches/device_memory.h"
#include "backends/model/step/transfer.h"
#include "kernels/core/device.h"

namespace longstream {

// One row of logits and its uses. Sampled rows are numbered among themselves, in the order of the
// rows, and so are rows with log-probabilities. The number is -1 if the row is not one of them.
struct LogitRow {
  size_t entry = 0;
  int32_t row = 0;       // in the step
  uint32_t to_come = 0;  // rows behind it in the entry
  int32_t sampled = -1;
  int32_t scored = -1;
};

// Layout of a step's outputs, one array after another, in one block of memory: ops write it in
// device memory, and it is copied to host memory. Offsets in bytes.
struct OutputLayout {
  OutputLayout() = default;
  OutputLayout(size_t num_sampled, size_t num_rows, size_t num_scored, uint32_t num_top);

  // [num_sampled] int32 is always at 0: the next step finds its tokens there.
  size_t finite = 0;        // [num_rows] int32, of the logit rows
  size_t log_probs = 0;     // [num_scored] f32
  size_t top = 0;           // [num_scored, top_stride] TopToken
  uint32_t top_stride = 0;  // the largest number that a row wants
  size_t size = 0;
};

// The ticket is reused by the next step but one. Not thread-safe.
class Ticket {
 public:
  // An entry's part of the step.
  struct Part {
    ls_sequence* sequence = nullptr;  // nullptr: not in the step; its result says why
    int64_t begin = 0;                // positions of its tokens
    int64_t end = 0;
    uint32_t num_top = 0;
    const char* why_no_token = "";  // the reason if sampling draws no token
  };

  // Throws std::bad_alloc. `device` must outlive the ticket.
  Ticket(Device& device, int64_t max_rows, int64_t max_sequences, int64_t vocabulary);

  // --- Submit

  // Starts a new step. Its results are LS_OK without rows at first.
  void Begin(const ls_batch& batch);
  // Adds entry `index` to the step: its first token is row `first_row`, at position `begin`.
  void Add(size_t index, const ls_batch_entry& entry, int32_t first_row, int64_t begin);
  void Fail(size_t index, ls_code code, const char* message);

  const std::vector<LogitRow>& logit_rows() const { return logit_rows_; }
  int32_t num_sampled() const { return num_sampled_; }
  int32_t num_scored() const { return num_scored_; }
  uint32_t most_top() const { return most_top_; }
  const Part& part(size_t index) const { return parts_[index]; }
  uint32_t num_log_prob_rows(size_t index) const { return results_[index].num_log_prob_rows; }
  // The destination of a row's logits; nullptr: nobody asked for them.
  float* LogitsFor(const LogitRow& row);

  // The layout of outputs().
  void set_layout(const OutputLayout& layout) { layout_ = layout; }
  const OutputLayout& layout() const { return layout_; }
  std::byte* outputs() { return outputs_.data(); }

  // The whole step failed: all its entries fail with this sentence. The last call counts.
  void Spoil(ls_code code, const char* message) {
    spoilt_code_ = code;
    spoilt_ = message;
  }
  bool spoilt() const { return !spoilt_.empty(); }
  DeviceEvent& done() { return *done_; }

  // --- Wait, after done()

  // Turns the ops' outputs into results, or fails the entries.
  void Collect();
  uint32_t num_entries() const { return num_entries_; }
  bool failed(size_t index) const { return results_[index].code != LS_OK; }
  ls_results results() const { return {results_.data(), num_entries_}; }

 private:
  template <typename T>
  const T* Output(size_t offset) const {
    return reinterpret_cast<const T*>(outputs_.data() + offset);
  }
  void CollectRow(const LogitRow& row, int32_t is_finite);
  void CollectScores(const LogitRow& row);

  const int64_t vocabulary_;
  const std::unique_ptr<DeviceEvent> done_;
  StagingMemory outputs_;  // laid out as layout_

  uint32_t num_entries_ = 0;
  std::vector<Part> parts_;           // [max_sequences]
  std::vector<LogitRow> logit_rows_;  // [<= max_rows], by row
  int32_t num_sampled_ = 0;
  int32_t num_scored_ = 0;
  uint32_t most_top_ = 0;
  OutputLayout layout_;
  ls_code spoilt_code_ = LS_OK;  // valid if spoilt_
  std::string spoilt_;

  std::vector<ls_result> results_;     // [max_sequences]
  std::vector<std::string> messages_;  // [max_sequences]
  std::vector<float> log_probs_;       // [max_rows]
  std::vector<ls_top_token> top_;      // [max_rows, LS_MAX_TOP]
  DeviceMemory logits_;        // [max_rows, vocabulary] f32, host memory, touched if asked for
  size_t used_log_probs_ = 0;  // log-probabilities of the entries added so far
  size_t used_top_ = 0;
  size_t used_logits_ = 0;  // rows of logits of the entries added so far
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_RUNTIME_TICKET_H_
