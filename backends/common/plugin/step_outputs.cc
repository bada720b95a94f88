// The head, sampling and log-probabilities of a step.
#include "backends/common/plugin/step_outputs.h"

#include <algorithm>
#include <bit>

#include "backends/api/plugin.h"

namespace longstream {
namespace {

// Rows of logits at a time: enough that the head's weights are read for many rows at once, few
// enough that scoring a long text needs no logits of its whole length.
constexpr int64_t kBlockRows = 64;

uint32_t NumRows(const ls_batch_entry& entry, int32_t rows) {
  return rows == LS_ROWS_ALL ? entry.num_tokens : rows == LS_ROWS_LAST ? 1 : 0;
}

// The last rows of an entry that need logits.
uint32_t NumLogitRows(const ls_batch_entry& entry) {
  return std::max({NumRows(entry, entry.log_prob_rows), NumRows(entry, entry.logit_rows),
                   entry.sampling != nullptr ? 1u : 0u});
}

size_t LogitBytes(int64_t rows, int64_t vocabulary) {
  return static_cast<size_t>(rows * vocabulary) * sizeof(float);
}

// Appends items of the ABI's type as the op's, which is laid out alike.
template <typename To, typename From>
void Append(std::vector<To>* to, const From* from, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) to->push_back(std::bit_cast<To>(from[i]));
}

}  // namespace

const char* Sentence(OpStatus failure) {
  return failure == OpStatus::kUnsupported ? "an op does not serve its arguments"
                                           : "the device reported a failure";
}

TicketResults::TicketResults(int64_t max_rows, int64_t max_sequences, int64_t vocabulary)
    : results(static_cast<size_t>(max_sequences)),
      messages(static_cast<size_t>(max_sequences)),
      log_probs(static_cast<size_t>(max_rows)),
      top(static_cast<size_t>(max_rows) * LS_MAX_TOP),
      logits(HostMemory(), LogitBytes(max_rows, vocabulary), "rows of logits") {}

void TicketResults::Fail(size_t entry, ls_code code, const char* message) {
  messages[entry] = message;
  results[entry] = {};
  results[entry].code = code;
  results[entry].message = messages[entry].c_str();
  results[entry].sampled = -1;
}

StepOutputs::StepOutputs(Decoder& decoder, const OpTable& ops, Device& device,
                         const Executor& executor, int64_t vocabulary, int64_t max_rows,
                         int64_t max_sequences)
    : decoder_(decoder),
      ops_(ops),
      device_(device),
      executor_(executor),
      vocabulary_(vocabulary),
      arguments_(device),
      outputs_(device) {
  const int64_t block = std::min(kBlockRows, max_rows);
  workspace_offset_ = (LogitBytes(block, vocabulary) + 63) / 64 * 64;
  scratch_ = DeviceMemory(
      device, workspace_offset_ + SampleWorkspace(std::min(block, max_sequences), vocabulary),
      "logits");
  wanted_.reserve(static_cast<size_t>(max_rows));
  end_positions_.resize(static_cast<size_t>(max_sequences));
  const size_t rows = static_cast<size_t>(block);
  rows_.reserve(rows);
  sampling_.reserve(rows);
  sampled_index_.reserve(rows);
  finite_.resize(rows);
  sampled_.resize(rows);
  log_prob_rows_.reserve(rows);
  log_probs_.resize(rows);
  top_.resize(rows * LS_MAX_TOP);
  fixed_argument_bytes_ = TransferBytes(rows, sizeof(int32_t)) +
                          TransferBytes(rows, std::max(sizeof(SamplingRow), sizeof(LogProbsRow)));
  arguments_.Reserve(fixed_argument_bytes_);
  outputs_.Reserve(TransferBytes(rows, sizeof(int32_t)) * 2 + TransferBytes(rows, sizeof(float)) +
                   TransferBytes(rows * LS_MAX_TOP, sizeof(TopToken)));
}

Stream StepOutputs::MakeStream() const {
  return device_.MakeStream(executor_, scratch_.data() + workspace_offset_,
                            scratch_.size() - workspace_offset_);
}

float* StepOutputs::LogitsOf(size_t index) const {
  return reinterpret_cast<float*>(scratch_.data()) + index * static_cast<size_t>(vocabulary_);
}

Matrix StepOutputs::Logits(int64_t num_rows) const {
  return {LogitsOf(0), DType::kF32, num_rows, vocabulary_, vocabulary_};
}

void StepOutputs::Begin(const ls_batch& batch, TicketResults* results) {
  batch_ = &batch;
  results_ = results;
  wanted_.clear();
  used_log_probs_ = used_top_ = used_logits_ = 0;
  results->num_results = batch.num_entries;
  for (uint32_t i = 0; i < batch.num_entries; ++i) {
    results->results[i] = {};
    results->results[i].message = "";
    results->results[i].sampled = -1;
  }
}

void StepOutputs::Add(size_t index, int32_t first_row, int64_t end_position) {
  const ls_batch_entry& entry = batch_->entries[index];
  ls_result& result = results_->results[index];
  end_positions_[index] = end_position;
  for (uint32_t to_come = NumLogitRows(entry); to_come-- > 0;) {
    const int32_t row = first_row + static_cast<int32_t>(entry.num_tokens - 1 - to_come);
    wanted_.push_back({index, row, to_come});
  }
  result.num_log_prob_rows = NumRows(entry, entry.log_prob_rows);
  result.log_probs = results_->log_probs.data() + used_log_probs_;
  result.top = results_->top.data() + used_top_;
  used_log_probs_ += result.num_log_prob_rows;
  used_top_ += size_t{result.num_log_prob_rows} * entry.num_top;
  result.num_logit_rows = NumRows(entry, entry.logit_rows);
  result.logits = reinterpret_cast<const float*>(results_->logits.data()) +
                  used_logits_ * static_cast<size_t>(vocabulary_);
  used_logits_ += result.num_logit_rows;
}

OpStatus StepOutputs::Compute() {
  for (size_t first = 0; first < wanted_.size(); first += kBlockRows) {
    const size_t count = std::min<size_t>(kBlockRows, wanted_.size() - first);
    const OpStatus status = ComputeBlock({wanted_.data() + first, count});
    if (status == OpStatus::kDeviceError) return status;
  }
  return OpStatus::kOk;
}

OpStatus StepOutputs::ComputeBlock(std::span<const WantedRow> rows) {
  rows_.clear();
  for (const WantedRow& row : rows) rows_.push_back(row.row);
  PrepareSampling(rows);
  const OpStatus status = RunHead(static_cast<int64_t>(rows.size()));
  if (status != OpStatus::kOk) return FailBlock(rows, status);
  FailNonFinite(rows);
  TakeSampled(rows);
  const OpStatus scored = LogProbs(rows);
  CopyLogits(rows);
  return scored;
}

OpStatus StepOutputs::FailBlock(std::span<const WantedRow> rows, OpStatus status) {
  for (const WantedRow& row : rows) results_->Fail(row.entry, LS_INTERNAL, Sentence(status));
  return status;
}

void StepOutputs::PrepareSampling(std::span<const WantedRow> rows) {
  history_.clear();
  bias_.clear();
  for (const WantedRow& row : rows) {
    if (!IsSampled(row)) continue;
    const ls_sampling& sampling = *EntryOf(row).sampling;
    Append(&history_, sampling.history, sampling.num_history);
    Append(&bias_, sampling.bias, sampling.num_bias);
  }
  arguments_.Begin();
  arguments_.Reserve(fixed_argument_bytes_ + TransferBytes(history_.size(), sizeof(TokenCount)) +
                     TransferBytes(bias_.size(), sizeof(LogitBias)));
  const TokenCount* history = arguments_.Add(history_);
  const LogitBias* bias = arguments_.Add(bias_);
  sampling_.clear();
  sampled_index_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!IsSampled(rows[i])) continue;
    const ls_sampling& sampling = *EntryOf(rows[i]).sampling;
    sampled_index_.push_back(i);
    sampling_.push_back({.row = static_cast<int32_t>(i),
                         .seed = sampling.seed,
                         .position = end_positions_[rows[i].entry],
                         .temperature = sampling.temperature,
                         .top_k = sampling.top_k,
                         .top_p = sampling.top_p,
                         .min_p = sampling.min_p,
                         .repetition_penalty = sampling.repetition_penalty,
                         .presence_penalty = sampling.presence_penalty,
                         .frequency_penalty = sampling.frequency_penalty,
                         .history = history,
                         .num_history = static_cast<int32_t>(sampling.num_history),
                         .bias = bias,
                         .num_bias = static_cast<int32_t>(sampling.num_bias)});
    history += sampling.num_history;
    bias += sampling.num_bias;
  }
}

OpStatus StepOutputs::RunHead(int64_t num_rows) {
  const int32_t* head_rows = arguments_.Add(rows_);
  const SamplingRow* sampling_rows = arguments_.Add(sampling_);
  arguments_.Upload();
  outputs_.Begin();
  int32_t* finite = outputs_.Add(std::span(finite_));
  int32_t* sampled = outputs_.Add(std::span(sampled_));
  Stream stream = MakeStream();
  stream.Fail(decoder_.Logits(head_rows, num_rows, LogitsOf(0)));
  ops_.finite_rows(stream, {.values = Logits(num_rows), .finite = finite});
  if (!sampling_.empty()) {
    ops_.sample(stream, {.logits = Logits(num_rows),
                         .rows = sampling_rows,
                         .num_rows = static_cast<int32_t>(sampling_.size()),
                         .sampled = sampled});
  }
  stream.Fail(outputs_.Download());
  return stream.status;
}

void StepOutputs::FailNonFinite(std::span<const WantedRow> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (finite_[i] != 0) continue;
    const int64_t position = end_positions_[rows[i].entry] - 1 - rows[i].to_come;
    results_->Fail(rows[i].entry, LS_INTERNAL,
                   ("NaN or infinite logits after position " + std::to_string(position)).c_str());
  }
}

void StepOutputs::TakeSampled(std::span<const WantedRow> rows) {
  for (size_t i = 0; i < sampling_.size(); ++i) {
    const WantedRow& row = rows[sampled_index_[i]];
    if (IsFailed(row)) continue;
    ResultOf(row).sampled = sampled_[i];
    if (sampled_[i] < 0) {
      results_->Fail(row.entry, LS_INVALID_ARGUMENT,
                     WhyNoToken(*EntryOf(row).sampling, static_cast<int32_t>(vocabulary_)));
    }
  }
}

OpStatus StepOutputs::LogProbs(std::span<const WantedRow> rows) {
  const auto is_wanted = [&](const WantedRow& row) {
    return row.to_come < ResultOf(row).num_log_prob_rows && !IsFailed(row);
  };
  log_prob_rows_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!is_wanted(rows[i])) continue;
    const ls_batch_entry& entry = EntryOf(rows[i]);
    const ls_result& result = ResultOf(rows[i]);
    const uint32_t index = result.num_log_prob_rows - 1 - rows[i].to_come;
    const int32_t sampled = rows[i].to_come == 0 ? result.sampled : -1;
    log_prob_rows_.push_back({.row = static_cast<int32_t>(i),
                              .target = entry.targets != nullptr ? entry.targets[index] : sampled,
                              .num_top = static_cast<int32_t>(entry.num_top)});
  }
  if (log_prob_rows_.empty()) return OpStatus::kOk;
  const OpStatus status = RunLogProbs(static_cast<int64_t>(rows.size()));
  if (status != OpStatus::kOk) return FailBlock(rows, status);
  for (size_t i = 0; i < log_prob_rows_.size(); ++i) {
    const WantedRow& row = rows[static_cast<size_t>(log_prob_rows_[i].row)];
    const ls_result& result = ResultOf(row);
    const uint32_t num_top = EntryOf(row).num_top;
    const size_t index = result.num_log_prob_rows - 1 - row.to_come;
    const size_t at = static_cast<size_t>(result.log_probs - results_->log_probs.data()) + index;
    const size_t top_at = static_cast<size_t>(result.top - results_->top.data()) + index * num_top;
    results_->log_probs[at] = log_probs_[i];
    std::transform(top_.data() + i * LS_MAX_TOP, top_.data() + i * LS_MAX_TOP + num_top,
                   results_->top.data() + top_at,
                   [](const TopToken& token) { return std::bit_cast<ls_top_token>(token); });
  }
  return OpStatus::kOk;
}

OpStatus StepOutputs::RunLogProbs(int64_t num_rows) {
  arguments_.Begin();
  const LogProbsRow* rows = arguments_.Add(log_prob_rows_);
  arguments_.Upload();
  outputs_.Begin();
  float* log_probs = outputs_.Add(std::span(log_probs_));
  TopToken* top = outputs_.Add(std::span(top_));
  Stream stream = MakeStream();
  ops_.log_probs(stream, {.logits = Logits(num_rows),
                          .rows = rows,
                          .num_rows = static_cast<int32_t>(log_prob_rows_.size()),
                          .log_probs = log_probs,
                          .top = top,
                          .top_stride = LS_MAX_TOP});
  stream.Fail(outputs_.Download());
  return stream.status;
}

void StepOutputs::CopyLogits(std::span<const WantedRow> rows) {
  auto* out = reinterpret_cast<float*>(results_->logits.data());
  for (size_t i = 0; i < rows.size(); ++i) {
    const ls_result& result = ResultOf(rows[i]);
    if (rows[i].to_come >= result.num_logit_rows || IsFailed(rows[i])) continue;
    const size_t index = result.num_logit_rows - 1 - rows[i].to_come;
    const size_t first = static_cast<size_t>(result.logits - out);
    device_.Download(out + first + index * static_cast<size_t>(vocabulary_), LogitsOf(i),
                     LogitBytes(1, vocabulary_));
  }
}

}  // namespace longstream
