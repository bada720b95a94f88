// Turns rows of logits into the outputs that the host asked for: sampled tokens, log-probabilities
// and the logits themselves. Like every backend, uses the shared ops for sampling and
// log-probabilities.
#ifndef LONGSTREAM_BACKENDS_MINIMAL_OUTPUTS_H_
#define LONGSTREAM_BACKENDS_MINIMAL_OUTPUTS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/api/backend.h"
#include "backends/api/plugin.h"
#include "kernels/ops/op_table.h"

namespace longstream::toy {

// The number of rows that `rows` (LS_ROWS_*) asks for. They are the last rows of the entry.
inline uint32_t NumRows(const ls_batch_entry& entry, int32_t rows) {
  return rows == LS_ROWS_ALL ? entry.num_tokens : rows == LS_ROWS_LAST ? 1 : 0;
}
// The number of rows that need logits. They are the last rows of the entry.
inline uint32_t NumLogitRows(const ls_batch_entry& entry) {
  return std::max({NumRows(entry, entry.log_prob_rows), NumRows(entry, entry.logit_rows),
                   entry.sampling != nullptr ? 1u : 0u});
}

// The outputs of one step. The constructor allocates room for the largest step, because a step must
// not run out of memory. Not thread-safe.
class Outputs {
 public:
  Outputs(int32_t vocabulary, size_t max_tokens, size_t max_sequences)
      : vocabulary_(vocabulary),
        logits_(max_tokens * static_cast<size_t>(vocabulary)),
        log_probs_(max_tokens),
        top_(max_tokens * LS_MAX_TOP),
        results_(max_sequences),
        messages_(max_sequences),
        scratch_(SampleWorkspace(1, vocabulary) / sizeof(CacheLine) + 1) {}

  uint64_t bytes() const {
    return (logits_.size() + log_probs_.size()) * sizeof(float) +
           top_.size() * sizeof(ls_top_token) + scratch_.size() * sizeof(CacheLine);
  }
  ls_results results() const { return {results_.data(), num_results_}; }

  // Begins a step and discards the outputs of the previous one.
  void Clear() { rows_ = num_results_ = 0; }

  // The place for the logits that body() of the next Add writes: [NumLogitRows(entry), vocabulary].
  float* Logits() { return logits_.data() + rows_ * static_cast<size_t>(vocabulary_); }

  // Adds the next entry's result. body() writes the logits to Logits(); if it throws, the result
  // has the code and the sentence. `position` is the position of the token to be sampled.
  template <typename Body>
  const ls_result& Add(const ls_batch_entry& entry, uint64_t position, Body&& body) {
    ls_result& result = results_[num_results_];
    std::array<char, 200>& message = messages_[num_results_++];
    const ls_code code = Guarded({message.data(), message.size()}, [&] {
      body();
      result = Compute(entry, position);
    });
    if (code != LS_OK) {
      result = {code, message.data(), -1, 0, nullptr, nullptr, 0, nullptr};
    }
    return result;
  }

 private:
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };

  ls_result Compute(const ls_batch_entry& entry, uint64_t position) {
    const uint32_t rows = NumLogitRows(entry);
    float* logits = Logits();
    const auto row = [&](uint32_t i) { return logits + i * static_cast<size_t>(vocabulary_); };
    const int32_t sampled =
        entry.sampling != nullptr ? Sample(*entry.sampling, row(rows - 1), position) : -1;

    float* log_probs = log_probs_.data() + rows_;
    ls_top_token* top = top_.data() + rows_ * LS_MAX_TOP;
    const uint32_t scored = NumRows(entry, entry.log_prob_rows);
    for (uint32_t i = 0; i < scored; ++i) {
      const int32_t by_default = i + 1 == scored ? sampled : -1;
      const int32_t target = entry.targets != nullptr ? entry.targets[i] : by_default;
      log_probs[i] =
          LogProb(row(rows - scored + i), target, entry.num_top, top + i * entry.num_top);
    }
    rows_ += rows;
    const uint32_t shown = NumRows(entry, entry.logit_rows);
    return {LS_OK, "", sampled, scored, log_probs, top, shown, row(rows - shown)};
  }

  int32_t Sample(const ls_sampling& sampling, float* logits, uint64_t position) {
    const auto history = Copy<TokenCount>(sampling.history, sampling.num_history);
    const auto bias = Copy<LogitBias>(sampling.bias, sampling.num_bias);
    const SamplingRow row{.row = 0,
                          .seed = sampling.seed,
                          .position = static_cast<int64_t>(position),
                          .temperature = sampling.temperature,
                          .top_k = sampling.top_k,
                          .top_p = sampling.top_p,
                          .min_p = sampling.min_p,
                          .repetition_penalty = sampling.repetition_penalty,
                          .presence_penalty = sampling.presence_penalty,
                          .frequency_penalty = sampling.frequency_penalty,
                          .history = history.data(),
                          .num_history = static_cast<int32_t>(history.size()),
                          .bias = bias.data(),
                          .num_bias = static_cast<int32_t>(bias.size()),
                          .allowed = AllowedTokens(sampling)};
    int32_t token = -1;
    Run([&](Stream& stream) { DeviceOps().sample(stream, {OneRow(logits), &row, 1, &token}); });
    Require(token >= 0, LS_INVALID_ARGUMENT, WhyNoToken(sampling, vocabulary_));
    return token;
  }

  // Returns the log-probability of `target`, NaN for -1. Writes the most probable tokens to `top`,
  // [num_top].
  float LogProb(float* logits, int32_t target, uint32_t num_top, ls_top_token* top) {
    const LogProbsRow row{0, target, static_cast<int32_t>(num_top)};
    std::array<TopToken, LS_MAX_TOP> found;
    float log_prob = 0.0f;
    Run([&](Stream& stream) {
      DeviceOps().log_probs(stream, {OneRow(logits), &row, 1, &log_prob, found.data(), LS_MAX_TOP});
    });
    for (uint32_t i = 0; i < num_top; ++i) top[i] = {found[i].token, found[i].log_prob};
    return log_prob;
  }

  template <typename Op>
  void Run(Op&& op) {
    Stream stream;
    stream.workspace = scratch_.data()->bytes;
    stream.workspace_bytes = scratch_.size() * sizeof(CacheLine);
    op(stream);
    Require(stream.ok(), LS_INTERNAL, "an op failed");
  }

  Matrix OneRow(float* logits) const { return {logits, DType::kF32, 1, vocabulary_, vocabulary_}; }

  // Copies structures of the ABI to those of the ops, which have the same layout.
  template <typename To, typename From>
  static std::vector<To> Copy(const From* from, uint32_t count) {
    std::vector<To> to(count);
    std::transform(from, from + count, to.begin(),
                   [](const From& item) { return std::bit_cast<To>(item); });
    return to;
  }

  const int32_t vocabulary_;
  std::vector<float> logits_;                    // [max_tokens, vocabulary]
  std::vector<float> log_probs_;                 // [max_tokens]
  std::vector<ls_top_token> top_;                // [max_tokens, LS_MAX_TOP]
  size_t rows_ = 0;                              // rows in use of the three arrays above
  std::vector<ls_result> results_;               // [max_sequences]
  std::vector<std::array<char, 200>> messages_;  // [max_sequences]
  uint32_t num_results_ = 0;
  std::vector<CacheLine> scratch_;  // workspace of the ops
};

}  // namespace longstream::toy

#endif  // LONGSTREAM_BACKENDS_MINIMAL_OUTPUTS_H_
