// Turns the ops' outputs into the results that a host asked for.
#include "backends/runtime/ticket.h"

#include <algorithm>
#include <bit>

#include "backends/api/plugin.h"
#include "kernels/ops/sampling/log_probs.h"

namespace longstream {
namespace {

uint32_t NumRows(const ls_batch_entry& entry, int32_t rows) {
  return rows == LS_ROWS_ALL ? entry.num_tokens : rows == LS_ROWS_LAST ? 1 : 0;
}

// The number of an entry's last rows that need logits.
uint32_t NumLogitRows(const ls_batch_entry& entry) {
  return std::max({NumRows(entry, entry.log_prob_rows), NumRows(entry, entry.logit_rows),
                   entry.sampling != nullptr ? 1u : 0u});
}

OutputLayout LargestLayout(int64_t max_rows, int64_t max_sequences) {
  const auto rows = static_cast<size_t>(max_rows);
  return {static_cast<size_t>(max_sequences), rows, rows, LS_MAX_TOP};
}

}  // namespace

OutputLayout::OutputLayout(size_t num_sampled, size_t num_rows, size_t num_scored, uint32_t num_top)
    : finite(TransferBytes(num_sampled, sizeof(int32_t))),
      log_probs(finite + TransferBytes(num_rows, sizeof(int32_t))),
      top(log_probs + TransferBytes(num_scored, sizeof(float))),
      top_stride(num_top),
      size(top + TransferBytes(num_scored * num_top, sizeof(TopToken))) {}

Ticket::Ticket(Device& device, int64_t max_rows, int64_t max_sequences, int64_t vocabulary)
    : vocabulary_(vocabulary),
      done_(device.MakeEvent()),
      outputs_(device, LargestLayout(max_rows, max_sequences).size),
      parts_(static_cast<size_t>(max_sequences)),
      results_(static_cast<size_t>(max_sequences)),
      messages_(static_cast<size_t>(max_sequences)),
      log_probs_(static_cast<size_t>(max_rows)),
      top_(static_cast<size_t>(max_rows) * LS_MAX_TOP),
      logits_(HostMemory(), static_cast<size_t>(max_rows * vocabulary) * sizeof(float),
              "rows of logits") {
  logit_rows_.reserve(static_cast<size_t>(max_rows));
}

void Ticket::Begin(const ls_batch& batch) {
  num_entries_ = batch.num_entries;
  logit_rows_.clear();
  num_sampled_ = num_scored_ = 0;
  most_top_ = 0;
  spoilt_.clear();
  used_log_probs_ = used_top_ = used_logits_ = 0;
  for (uint32_t i = 0; i < num_entries_; ++i) {
    parts_[i] = {};
    results_[i] = {};
    results_[i].message = "";
    results_[i].sampled = -1;
  }
}

void Ticket::Add(size_t index, const ls_batch_entry& entry, int32_t first_row, int64_t begin) {
  const bool is_sampled = entry.sampling != nullptr;
  parts_[index] = {
      .sequence = entry.sequence,
      .begin = begin,
      .end = begin + entry.num_tokens,
      .num_top = entry.num_top,
      .why_no_token =
          is_sampled ? WhyNoToken(*entry.sampling, static_cast<int32_t>(vocabulary_)) : ""};
  ls_result& result = results_[index];
  result.num_log_prob_rows = NumRows(entry, entry.log_prob_rows);
  result.log_probs = log_probs_.data() + used_log_probs_;
  result.top = top_.data() + used_top_;
  used_log_probs_ += result.num_log_prob_rows;
  used_top_ += size_t{result.num_log_prob_rows} * entry.num_top;
  result.num_logit_rows = NumRows(entry, entry.logit_rows);
  result.logits = reinterpret_cast<const float*>(logits_.data()) +
                  used_logits_ * static_cast<size_t>(vocabulary_);
  used_logits_ += result.num_logit_rows;

  if (result.num_log_prob_rows > 0) most_top_ = std::max(most_top_, entry.num_top);
  for (uint32_t to_come = NumLogitRows(entry); to_come-- > 0;) {
    LogitRow row{.entry = index,
                 .row = first_row + static_cast<int32_t>(entry.num_tokens - 1 - to_come),
                 .to_come = to_come};
    if (is_sampled && to_come == 0) row.sampled = num_sampled_++;
    if (to_come < result.num_log_prob_rows) row.scored = num_scored_++;
    logit_rows_.push_back(row);
  }
}

void Ticket::Fail(size_t index, ls_code code, const char* message) {
  messages_[index] = message;
  results_[index] = {};
  results_[index].code = code;
  results_[index].message = messages_[index].c_str();
  results_[index].sampled = -1;
}

float* Ticket::LogitsFor(const LogitRow& row) {
  const ls_result& result = results_[row.entry];
  if (row.to_come >= result.num_logit_rows) return nullptr;
  auto* all = reinterpret_cast<float*>(logits_.data());
  const size_t index = result.num_logit_rows - 1 - row.to_come;
  return all + (result.logits - all) + index * static_cast<size_t>(vocabulary_);
}

void Ticket::Collect() {
  if (spoilt()) {
    for (uint32_t i = 0; i < num_entries_; ++i) {
      if (parts_[i].sequence != nullptr) Fail(i, spoilt_code_, spoilt_.c_str());
    }
    return;
  }
  const auto* finite = Output<int32_t>(layout_.finite);
  for (size_t i = 0; i < logit_rows_.size(); ++i) {
    if (!failed(logit_rows_[i].entry)) CollectRow(logit_rows_[i], finite[i]);
  }
}

void Ticket::CollectRow(const LogitRow& row, int32_t is_finite) {
  const Part& part = parts_[row.entry];
  if (is_finite == 0) {
    const std::string position = std::to_string(part.end - 1 - row.to_come);
    return Fail(row.entry, LS_INTERNAL,
                ("NaN or infinite logits after position " + position).c_str());
  }
  if (row.sampled >= 0) {
    const int32_t token = Output<int32_t>(0)[row.sampled];
    if (token < 0) return Fail(row.entry, LS_INVALID_ARGUMENT, part.why_no_token);
    results_[row.entry].sampled = token;
  }
  if (row.scored >= 0) CollectScores(row);
}

void Ticket::CollectScores(const LogitRow& row) {
  const ls_result& result = results_[row.entry];
  const uint32_t num_top = parts_[row.entry].num_top;
  const size_t index = result.num_log_prob_rows - 1 - row.to_come;
  const size_t at = static_cast<size_t>(result.log_probs - log_probs_.data()) + index;
  const size_t top_at = static_cast<size_t>(result.top - top_.data()) + index * num_top;
  const auto scored = static_cast<size_t>(row.scored);
  log_probs_[at] = Output<float>(layout_.log_probs)[scored];
  const auto* top = Output<TopToken>(layout_.top) + scored * layout_.top_stride;
  std::transform(top, top + num_top, top_.data() + top_at,
                 [](const TopToken& token) { return std::bit_cast<ls_top_token>(token); });
}

}  // namespace longstream
