// How many rows of logits a turn may ask of one step.
#ifndef LONGSTREAM_SERVICE_ENGINE_LOGITS_STEP_ROWS_H_
#define LONGSTREAM_SERVICE_ENGINE_LOGITS_STEP_ROWS_H_

#include <cstdint>

namespace longstream {

// A scored text whose rows go to a LogitSink is read in pieces, so that the rows of a step take
// about so many bytes. Results do not depend on it, because pieces end on grid lines.
inline constexpr uint64_t kLogitBytesOfStep = uint64_t{4} << 20;

// The most rows of logits that a turn gets from one step: as many whole grids as kLogitBytesOfStep
// has room for, and at least one grid.
uint64_t MostLogitRows(uint32_t vocabulary_size, uint32_t prefill_grid);

// The number of tokens that a scored text may read in the next step. `position`: of the next token.
// `remaining`: tokens that are left to read, > 0. `first_row`: the first position whose logits are
// wanted. Before it a piece is not limited, but ends at the last grid line there.
uint64_t TokensOfStep(uint64_t position, uint64_t remaining, uint64_t first_row, uint64_t most_rows,
                      uint32_t prefill_grid);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_LOGITS_STEP_ROWS_H_
