// How much of the context and of the cache budget a turn needs.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_TURN_DEMAND_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_TURN_DEMAND_H_

#include <cstdint>
#include <optional>

#include "backends/api/backend.h"
#include "service/engine/policy/pool_bytes.h"

namespace longstream {

// The values that decide how much memory a turn needs.
struct TurnDemand {
  bool generates = false;
  bool keeps_caches = true;    // false for scored texts: the turn's end frees the caches
  uint64_t start_tokens = 0;   // tokens of the history that the turn adds to
  uint64_t prompt_tokens = 0;  // tokens that the turn adds
  uint64_t max_tokens = 0;     // tokens to generate; 0: up to the end of the context
  uint64_t context_limit = 0;

  // The position after the prompt.
  uint64_t PromptEnd() const { return start_tokens + prompt_tokens; }
  // Whether the prompt of a generating turn fills the context. Then no token is drawn, and the turn
  // needs no memory.
  bool FillsContext() const { return generates && PromptEnd() >= context_limit; }
  // The position up to which the turn needs memory.
  uint64_t RequestedEnd() const;

  // Bytes to reserve in addition to the bytes that the session holds already. `cached`: the number
  // of tokens in the session's caches; absent if it has no caches. After a fork, a step may have to
  // copy a shared page; this extra page is not counted.
  PoolBytes Wanted(const ls_model_info& info, std::optional<uint64_t> cached) const;

  // Bytes of the rings and states of a sequence, which it holds at every position.
  static uint64_t SlotBytes(const ls_model_info& info) {
    return info.window_bytes_per_sequence + info.state_bytes_per_sequence;
  }

  // Bytes of the caches of a sequence at `position`, without a reservation; about as many as a
  // snapshot of it has.
  static uint64_t CacheBytes(const ls_model_info& info, uint64_t position) {
    return PageBytes(info, position) + SlotBytes(info);
  }

  // Bytes that the session of an admitted turn holds, if the turn has reserved memory up to
  // `reserved_end`. They are free when the turn has ended and the session is evicted.
  static uint64_t Held(const ls_model_info& info, uint64_t reserved_end);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_TURN_DEMAND_H_
