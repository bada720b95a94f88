// A turn's part of a step in the backend ABI's form: the entry, and the rows of its result.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_BATCH_ENTRY_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_BATCH_ENTRY_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "backends/api/backend.h"
#include "service/engine/turn/step_parts.h"
#include "service/engine/turn/turn.h"
#include "service/engine/turn/turn_events.h"
#include "service/engine/turn/turn_history.h"

namespace longstream {

// The entry for `part`. `from_previous`: it reads the token that the step before it draws.
// `sampling`: how to draw; nullptr: the part draws nothing. Valid until the history changes.
ls_batch_entry MakeBatchEntry(const TurnHistory& history, const TurnRequest& request,
                              const StepPart& part, bool is_decode, bool from_previous,
                              const ls_sampling* sampling);

// Row `row` of a result's log-probabilities, for `token` with `num_top` alternatives.
TokenLogProb LogProbRow(const ls_result& result, uint32_t row, uint32_t num_top, int32_t token);

// The rows of a scored text from token `first_index` on. `tokens`: all tokens of the text. The
// text's first token gets a row of its own: nothing before it could predict it. INTERNAL: the
// backend gave NaN.
absl::StatusOr<ScoreEvent> ScoreRows(const ls_result& result, uint64_t first_index,
                                     std::span<const int32_t> tokens, const TurnRequest& request);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_BATCH_ENTRY_H_
