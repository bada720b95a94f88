// Cuts a scored text into pieces at grid lines.
#include "service/engine/logits/step_rows.h"

#include <algorithm>

namespace longstream {

uint64_t MostLogitRows(uint32_t vocabulary_size, uint32_t prefill_grid) {
  const uint64_t rows = kLogitBytesOfStep / (uint64_t{vocabulary_size} * sizeof(float));
  return std::max<uint64_t>(rows / prefill_grid, 1) * prefill_grid;
}

uint64_t TokensOfStep(uint64_t position, uint64_t remaining, uint64_t first_row, uint64_t most_rows,
                      uint32_t prefill_grid) {
  const uint64_t free_end = first_row / prefill_grid * prefill_grid;
  if (position < free_end) return std::min(remaining, free_end - position);
  if (remaining <= most_rows) return remaining;
  const uint64_t end = (position + most_rows) / prefill_grid * prefill_grid;
  return end - position;  // > 0, because most_rows is at least one grid
}

}  // namespace longstream
