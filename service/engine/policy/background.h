// When turns in the background may take memory and time.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_BACKGROUND_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_BACKGROUND_H_

#include <cstdint>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"

namespace longstream {

// Whether a background turn may take `wanted` bytes of a budget of `total`, of which `free` are
// free. It evicts nothing. And it leaves an eighth of the budget free, so that most turns that
// arrive find memory and do not have to end it.
inline bool BackgroundMayTake(uint64_t wanted, uint64_t free, uint64_t total) {
  const uint64_t kept = total / 8;
  return free >= kept && wanted <= free - kept;
}

// Whether background turns may keep their memory when other work takes `wanted` bytes. A step of
// that work may have to copy a page that was not counted, so a sixteenth of the budget stays free.
inline bool BackgroundMayKeep(uint64_t wanted, uint64_t free, uint64_t total) {
  return free >= wanted && free - wanted >= total / 16;
}

// When background work may begin. `quiet_since`: when the last live work ended; InfiniteFuture:
// there is some. A client that sends its next turn at once finds the engine without background
// work, because of `pause`.
inline MonotonicTime BackgroundBegins(MonotonicTime quiet_since, absl::Duration pause) {
  return quiet_since + pause;
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_BACKGROUND_H_
