// Makes a turn's batch entry, and reads the rows of the entry's result.
#include "service/engine/turn/batch_entry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

// A score says whether a token is the most probable one, so it needs at least one alternative.
uint32_t ScoreAlternatives(const TurnRequest& request) {
  return std::max(1u, request.top_log_probs);
}

// `text`: see LogitRow.
absl::Status PushLogits(const ls_result& result, uint32_t row, uint32_t vocabulary_size,
                        const TokenLogProb& token, std::string_view text,
                        const TurnRequest& request) {
  if (row >= result.num_logit_rows || result.logits == nullptr) {
    return absl::InternalError(absl::StrCat("the backend gave ", result.num_logit_rows,
                                            " rows of logits, row ", row, " was asked for"));
  }
  LogitRow pushed;
  pushed.token = token.token;
  pushed.log_prob = token.log_prob;
  pushed.top =
      std::span(token.top).first(std::min<size_t>(token.top.size(), request.top_log_probs));
  pushed.text = text;
  pushed.logits = {result.logits + size_t{row} * vocabulary_size, vocabulary_size};
  request.logits->Push(pushed);
  return absl::OkStatus();
}

}  // namespace

bool WantsScores(const TurnRequest& request, uint64_t end) {
  return request.logits == nullptr || end >= request.logits_from;
}

ls_batch_entry MakeBatchEntry(const TurnHistory& history, const TurnRequest& request,
                              const StepPart& part, const DrawPart& draw) {
  ls_batch_entry entry{};
  entry.sequence = history.sequence().handle();
  entry.tokens = draw.reads.has_value() ? &*draw.reads : &history.tokens()[part.begin];
  entry.num_tokens = static_cast<uint32_t>(part.end - part.begin);
  entry.is_decode = part.is_decode ? 1 : 0;
  entry.sampling = draw.sampling;
  const bool gives_logits = request.logits != nullptr && request.logits->WantsRows();
  if (draw.sampling != nullptr && (request.log_probs || gives_logits)) {
    entry.log_prob_rows = LS_ROWS_LAST;
    if (draw.stands.has_value()) entry.targets = &*draw.stands;
    entry.num_top = request.top_log_probs;
  } else if (request.kind == TurnKind::kScore && WantsScores(request, part.end)) {
    entry.log_prob_rows = LS_ROWS_ALL;
    entry.targets = entry.tokens + 1;
    entry.num_top = ScoreAlternatives(request);
  }
  if (gives_logits) {
    entry.logit_rows = draw.sampling != nullptr ? LS_ROWS_LAST : entry.log_prob_rows;
  }
  return entry;
}

TokenLogProb LogProbRow(const ls_result& result, uint32_t row, uint32_t num_top, int32_t token) {
  TokenLogProb log_prob;
  log_prob.token = token;
  log_prob.log_prob = result.log_probs[row];
  const ls_top_token* top = result.top + static_cast<size_t>(row) * num_top;
  log_prob.top.assign(top, top + num_top);
  return log_prob;
}

absl::StatusOr<ScoreEvent> ScoreRows(const ls_result& result, uint64_t first_index,
                                     std::span<const int32_t> tokens, const TurnRequest& request) {
  ScoreEvent event;
  event.first_index = first_index;
  if (first_index == 0) {
    TokenLogProb first;
    first.token = tokens.front();
    first.log_prob = std::numeric_limits<float>::quiet_NaN();
    event.tokens.push_back(std::move(first));
  }
  for (uint32_t row = 0; row < result.num_log_prob_rows; ++row) {
    const uint64_t index = first_index + event.tokens.size();
    if (std::isnan(result.log_probs[row])) {
      return absl::InternalError(absl::StrCat("the backend gave no log-probability for token ",
                                              index, " of the text: the logits are NaN"));
    }
    event.tokens.push_back(LogProbRow(result, row, ScoreAlternatives(request), tokens[index]));
  }
  return event;
}

absl::Status PushDrawn(const ls_result& result, const std::optional<TokenLogProb>& log_prob,
                       std::string_view text, uint32_t vocabulary_size,
                       const TurnRequest& request) {
  if (!log_prob.has_value()) {
    return absl::InternalError("the backend gave no log-probability of a drawn token");
  }
  if (std::isnan(log_prob->log_prob)) {
    return absl::InternalError(absl::StrCat("the backend gave NaN as the log-probability of token ",
                                            log_prob->token, ", which it has drawn"));
  }
  return PushLogits(result, 0, vocabulary_size, *log_prob, text, request);
}

absl::Status PushScores(const ls_result& result, const ScoreEvent& event, uint32_t vocabulary_size,
                        const TurnRequest& request) {
  // The first token of the text has no row.
  const size_t before = event.tokens.size() - result.num_log_prob_rows;
  for (uint32_t row = 0; row < result.num_log_prob_rows; ++row) {
    if (event.first_index + before + row < request.logits_from) continue;
    absl::Status status =
        PushLogits(result, row, vocabulary_size, event.tokens[before + row], "", request);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace longstream
