// How much of the context and of the cache budget a turn asks for.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_TURN_DEMAND_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_TURN_DEMAND_H_

#include <cstdint>
#include <optional>

#include "backends/api/backend.h"
#include "service/engine/policy/pool_bytes.h"

namespace longstream {

// One turn's need of memory.
struct TurnDemand {
  bool generates = false;
  bool keeps_caches = true;    // false: the caches are freed with the turn, as for a scored text
  uint64_t start_tokens = 0;   // of the history that the turn adds to
  uint64_t prompt_tokens = 0;  // that the turn adds
  uint64_t max_tokens = 0;     // that it generates; 0: up to the end of the context
  uint64_t context_limit = 0;

  // The position behind the prompt.
  uint64_t PromptEnd() const { return start_tokens + prompt_tokens; }
  // The prompt of a generating turn fills the context: no token is drawn, no memory is needed.
  bool FillsContext() const { return generates && PromptEnd() >= context_limit; }
  // The position up to which the turn asks for room.
  uint64_t RequestedEnd() const;

  // Bytes to reserve besides the session's own. `cached`: tokens in the session's caches; absent:
  // it has none. A shared page that a step must copy after a fork is not counted: it may be one
  // more.
  PoolBytes Wanted(const ls_model_info& info, std::optional<uint64_t> cached) const;

  // Bytes that the turn's end gives back of a reservation up to `reserved_end`, if its caches then
  // have `position` tokens.
  uint64_t GivenBack(const ls_model_info& info, uint64_t reserved_end, uint64_t position) const;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_TURN_DEMAND_H_
