// Which idle sessions lose their caches first when memory is short.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_EVICTION_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_EVICTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "service/clock/monotonic_time.h"
#include "service/engine/costs/reading_times.h"
#include "service/engine/policy/restore_choice.h"

namespace longstream {

// The caches of a session that no admitted turn uses.
struct EvictionCandidate {
  uint64_t bytes = 0;      // bytes that are free if only these caches are evicted
  Replay whole;            // the tokens to read again without a snapshot
  bool is_leased = false;  // a turn of the session waits, or its input is being read
  MonotonicTime last_use;
  std::optional<RestoreOption> stored = std::nullopt;  // the snapshot in the store
};

// Returns the indices of the candidates in the order in which they should be evicted:
//   1. sessions without a lease, because a leased session needs its caches soon;
//   2. the least time per byte to have the caches back, computed again or read from the store. Two
//      such costs count as equal if they have the same power of two, because the measured times
//      vary;
//   3. the session that was used least recently.
// The shared pages of forks are free when the last of the forks is evicted. `bytes` does not count
// them, so forks come late.
std::vector<uint32_t> EvictionOrder(std::span<const EvictionCandidate> candidates,
                                    const RestoreCosts& costs);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_EVICTION_H_
