// How many tokens a step in the background reads, so that it stays short.
#ifndef LONGSTREAM_SERVICE_ENGINE_COSTS_CHUNK_PACE_H_
#define LONGSTREAM_SERVICE_ENGINE_COSTS_CHUNK_PACE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace longstream {

// A turn that arrives waits for the step that runs. Therefore a step in the background is planned
// to take at most `limit`. If even one grid interval takes longer, the step reads one: that is the
// smallest piece of a prompt.
//
// The model learns `c`, the time of a token in such a step. A slower step raises c at once, a
// faster one lowers it slowly. The first step reads one grid interval, and a step reads at most
// twice as many tokens as the longest step that was measured. Used by one thread.
class ChunkPace {
 public:
  ChunkPace(uint32_t prefill_grid, absl::Duration limit) : grid_(prefill_grid), limit_(limit) {}

  // A step with so many tokens took `time`. A `time` <= 0 and a step without tokens are ignored.
  void Learn(uint64_t tokens, absl::Duration time);

  // Whether a step was measured.
  bool is_known() const { return token_seconds_ > 0.0; }

  // The most tokens of the next step: limit / c, rounded down to a multiple of the grid, and at
  // least one grid interval.
  uint64_t MostTokens() const;

 private:
  const uint64_t grid_;
  const absl::Duration limit_;
  double token_seconds_ = 0.0;  // c; 0: unknown
  uint64_t most_read_ = 0;      // by one step so far
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_COSTS_CHUNK_PACE_H_
