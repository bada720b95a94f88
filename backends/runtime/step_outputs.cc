// The head, sampling and log-probabilities of a step.
#include "backends/runtime/step_outputs.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <span>

#include "backends/api/plugin.h"

namespace longstream {
namespace {

size_t LogitBytes(size_t rows, int64_t vocabulary) {
  return rows * static_cast<size_t>(vocabulary) * sizeof(float);
}

int32_t BlockRows(Device& device, int64_t max_rows, int64_t max_sequences) {
  const int64_t most = device.host_memory()
                           ? StepOutputs::kBlockRows
                           : std::clamp<int64_t>(max_sequences, StepOutputs::kBlockRows,
                                                 StepOutputs::kMostDeviceRows);
  return static_cast<int32_t>(std::min(most, max_rows));
}

// Appends items of the ABI's type as items of the op's type, which has the same layout.
template <typename To, typename From>
void Append(std::vector<To>* to, const From* from, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) to->push_back(std::bit_cast<To>(from[i]));
}

}  // namespace

StepOutputs::StepOutputs(Decoder& decoder, const OpTable& ops, Device& device,
                         const Executor& executor, int64_t vocabulary, int64_t max_rows,
                         int64_t max_sequences)
    : decoder_(decoder),
      ops_(ops),
      device_(device),
      executor_(executor),
      vocabulary_(vocabulary),
      block_rows_(BlockRows(device, max_rows, max_sequences)),
      arguments_(device),
      lists_(device) {
  const auto rows = static_cast<size_t>(max_rows);
  const auto sequences = static_cast<size_t>(max_sequences);
  const auto block = static_cast<size_t>(block_rows_);
  workspace_offset_ = (LogitBytes(block, vocabulary) + 63) / 64 * 64;
  scratch_ =
      DeviceMemory(device,
                   workspace_offset_ +
                       SampleWorkspace(std::min<int64_t>(block_rows_, max_sequences), vocabulary),
                   "logits");
  results_ = DeviceMemory(device, OutputLayout(sequences, rows, rows, LS_MAX_TOP).size,
                          "results of a step");
  blocks_.reserve((rows + block - 1) / block);
  rows_.reserve(rows);
  sampling_.reserve(sequences);
  scores_.reserve(rows);
  masks_.reserve(sequences);
  device_masks_.reserve(sequences);
  arguments_.Reserve(TransferBytes(rows, sizeof(int32_t)) +
                     TransferBytes(sequences, sizeof(SamplingRow)));
}

Stream StepOutputs::MakeStream() const {
  return device_.MakeStream(executor_, scratch_.data() + workspace_offset_,
                            scratch_.size() - workspace_offset_);
}

float* StepOutputs::LogitsOf(size_t index) const {
  return reinterpret_cast<float*>(scratch_.data()) + index * static_cast<size_t>(vocabulary_);
}

Matrix StepOutputs::Logits(size_t num_rows) const {
  return {LogitsOf(0), DType::kF32, static_cast<int64_t>(num_rows), vocabulary_, vocabulary_};
}

// --- arguments

void StepOutputs::Upload(const ls_batch& batch, Ticket& ticket, int32_t num_rows) {
  DivideIntoBlocks(ticket.logit_rows());
  DescribeRows(batch, ticket);
  Pad(num_rows);
  layout_ = OutputLayout(sampling_.size(), rows_.size(), scores_.size(), ticket.most_top());
  ticket.set_layout(layout_);
  arguments_.Begin();
  device_rows_ = arguments_.Add(rows_);
  device_sampling_ = arguments_.Add(sampling_);
  arguments_.Upload();
}

void StepOutputs::DivideIntoBlocks(const std::vector<LogitRow>& logit_rows) {
  blocks_.clear();
  rows_.clear();
  Range sampled;
  Range scored;
  for (const LogitRow& row : logit_rows) {
    if (rows_.size() % static_cast<size_t>(block_rows_) == 0) {
      blocks_.push_back({{rows_.size(), 0},
                         {sampled.begin + sampled.count, 0},
                         {scored.begin + scored.count, 0}});
      sampled = blocks_.back().sampled;
      scored = blocks_.back().scored;
    }
    rows_.push_back(row.row);
    if (row.sampled >= 0) ++sampled.count;
    if (row.scored >= 0) ++scored.count;
    Block& block = blocks_.back();
    ++block.rows.count;
    block.sampled = sampled;
    block.scored = scored;
  }
}

void StepOutputs::CollectLists(const ls_batch& batch, const Ticket& ticket) {
  history_.clear();
  bias_.clear();
  masks_.clear();
  for (const LogitRow& row : ticket.logit_rows()) {
    if (row.sampled < 0) continue;
    const ls_sampling& sampling = *batch.entries[row.entry].sampling;
    Append(&history_, sampling.history, sampling.num_history);
    Append(&bias_, sampling.bias, sampling.num_bias);
    const uint32_t* allowed = AllowedTokens(sampling);
    if (allowed != nullptr) masks_.push_back(allowed);
  }
  std::sort(masks_.begin(), masks_.end(), std::less<>());
  masks_.erase(std::unique(masks_.begin(), masks_.end()), masks_.end());
  lists_.Reserve(TransferBytes(history_.size(), sizeof(TokenCount)) +
                 TransferBytes(bias_.size(), sizeof(LogitBias)) +
                 masks_.size() * TransferBytes(MaskWords(vocabulary_), sizeof(uint32_t)) +
                 TransferBytes(static_cast<size_t>(ticket.num_scored()), sizeof(LogProbsRow)));
}

void StepOutputs::AddMasks() {
  device_masks_.clear();
  for (const uint32_t* mask : masks_) {
    device_masks_.push_back(lists_.Add(std::span(mask, MaskWords(vocabulary_))));
  }
}

const uint32_t* StepOutputs::DeviceMask(const uint32_t* allowed) const {
  if (allowed == nullptr) return nullptr;
  const auto mask = std::lower_bound(masks_.begin(), masks_.end(), allowed, std::less<>());
  return device_masks_[static_cast<size_t>(mask - masks_.begin())];
}

void StepOutputs::DescribeRows(const ls_batch& batch, const Ticket& ticket) {
  CollectLists(batch, ticket);
  lists_.Begin();
  const TokenCount* history = lists_.Add(history_);
  const LogitBias* bias = lists_.Add(bias_);
  AddMasks();
  sampling_.clear();
  scores_.clear();
  for (size_t i = 0; i < ticket.logit_rows().size(); ++i) {
    const LogitRow& row = ticket.logit_rows()[i];
    const ls_batch_entry& entry = batch.entries[row.entry];
    const auto row_of_block = static_cast<int32_t>(i % static_cast<size_t>(block_rows_));
    if (row.sampled >= 0) {
      const ls_sampling& sampling = *entry.sampling;
      sampling_.push_back({.row = row_of_block,
                           .seed = sampling.seed,
                           .position = ticket.part(row.entry).end,
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
                           .num_bias = static_cast<int32_t>(sampling.num_bias),
                           .allowed = DeviceMask(AllowedTokens(sampling))});
      history += sampling.num_history;
      bias += sampling.num_bias;
    }
    if (row.scored >= 0) {
      const uint32_t index = ticket.num_log_prob_rows(row.entry) - 1 - row.to_come;
      const bool has_target = entry.targets != nullptr;
      scores_.push_back(
          {.row = row_of_block,
           .target = has_target ? entry.targets[index] : -1,
           .num_top = static_cast<int32_t>(entry.num_top),
           .sampled = has_target || row.sampled < 0 ? nullptr : sampled() + row.sampled});
    }
  }
  device_scores_ = lists_.Add(scores_);
  lists_.Upload();
}

// Padding rows are sampled greedily, which reads a row once. Nothing reads their tokens.
void StepOutputs::Pad(int32_t num_rows) {
  for (auto row = static_cast<int32_t>(rows_.size()); row < num_rows; ++row) {
    rows_.push_back(row);
    sampling_.push_back({.row = row});
    ++blocks_[0].rows.count;
    ++blocks_[0].sampled.count;
  }
}

LogitRows StepOutputs::logit_rows(int32_t num_decode_rows) const {
  const auto prefill = std::lower_bound(rows_.begin(), rows_.end(), num_decode_rows);
  return {device_rows_, static_cast<int64_t>(rows_.size()), prefill - rows_.begin()};
}

// --- ops

OpStatus StepOutputs::Draw(size_t index) {
  const Block& block = blocks_[index];
  const Matrix logits = Logits(block.rows.count);
  Stream stream = MakeStream();
  stream.Fail(decoder_.Logits(static_cast<int64_t>(block.rows.begin), logits.rows, LogitsOf(0)));
  ops_.finite_rows(
      stream, {.values = logits, .finite = Output<int32_t>(layout_.finite) + block.rows.begin});
  if (block.sampled.count > 0) {
    ops_.sample(stream, {.logits = logits,
                         .rows = device_sampling_ + block.sampled.begin,
                         .num_rows = static_cast<int32_t>(block.sampled.count),
                         .sampled = Output<int32_t>(0) + block.sampled.begin});
  }
  return stream.status;
}

OpStatus StepOutputs::Score(size_t index, Ticket& ticket) {
  const Block& block = blocks_[index];
  Stream stream = MakeStream();
  if (block.scored.count > 0) {
    ops_.log_probs(stream,
                   {.logits = Logits(block.rows.count),
                    .rows = device_scores_ + block.scored.begin,
                    .num_rows = static_cast<int32_t>(block.scored.count),
                    .log_probs = Output<float>(layout_.log_probs) + block.scored.begin,
                    .top = Output<TopToken>(layout_.top) + block.scored.begin * layout_.top_stride,
                    .top_stride = static_cast<int32_t>(layout_.top_stride)});
  }
  const size_t end = std::min(block.rows.begin + block.rows.count, ticket.logit_rows().size());
  for (size_t i = block.rows.begin; i < end; ++i) {
    float* to = ticket.LogitsFor(ticket.logit_rows()[i]);
    if (to == nullptr) continue;
    device_.Download(to, LogitsOf(i - block.rows.begin), LogitBytes(1, vocabulary_));
  }
  return stream.status;
}

void StepOutputs::Download(Ticket& ticket) {
  if (layout_.size > 0) device_.Download(ticket.outputs(), results_.data(), layout_.size);
}

}  // namespace longstream
