// Converts a turn's part of a step to the types of the backend ABI, and the rows of its result
// back.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_BATCH_ENTRY_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_BATCH_ENTRY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/api/backend.h"
#include "service/engine/logits/logit_sink.h"
#include "service/engine/turn/step_parts.h"
#include "service/engine/turn/turn.h"
#include "service/engine/turn/turn_events.h"
#include "service/engine/turn/turn_history.h"

namespace longstream {

// Whether a part of a scored text that ends at position `end` gives rows that somebody wants. Its
// last row is that of token `end`.
bool WantsScores(const TurnRequest& request, uint64_t end);

// How a part draws a token.
struct DrawPart {
  // nullptr: the part draws none.
  const ls_sampling* sampling = nullptr;
  // The token that the part reads, if the history does not have it yet: LS_TOKEN_FROM_PREVIOUS, or
  // the token that will stand. Absent: the part reads from the history.
  std::optional<int32_t> reads;
  // The token that stands, whatever is drawn: the one whose probability is wanted. Absent: the
  // drawn one.
  std::optional<int32_t> stands;
};

// Returns the batch entry for `part`. The entry is valid until the history or `draw` changes.
ls_batch_entry MakeBatchEntry(const TurnHistory& history, const TurnRequest& request,
                              const StepPart& part, const DrawPart& draw);

// Returns row `row` of the log-probabilities in `result`: `token` and `num_top` alternatives.
TokenLogProb LogProbRow(const ls_result& result, uint32_t row, uint32_t num_top, int32_t token);

// Returns the rows of a scored text from token `first_index` on. `tokens`: all tokens of the text.
// The first token of the text gets a row without a probability, because no token before it could
// predict it. INTERNAL: the backend gave NaN.
absl::StatusOr<ScoreEvent> ScoreRows(const ls_result& result, uint64_t first_index,
                                     std::span<const int32_t> tokens, const TurnRequest& request);

// Passes the token to the request's sink, with the logits in `result`. `log_prob`: of LogProbRow;
// absent: there is none. `text`: see LogitRow. INTERNAL: the backend gave no logits, or no
// log-probability.
absl::Status PushDrawn(const ls_result& result, const std::optional<TokenLogProb>& log_prob,
                       std::string_view text, uint32_t vocabulary_size, const TurnRequest& request);

// The same for all tokens of a scored text that the request wants. `event`: of ScoreRows.
absl::Status PushScores(const ls_result& result, const ScoreEvent& event, uint32_t vocabulary_size,
                        const TurnRequest& request);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_BATCH_ENTRY_H_
