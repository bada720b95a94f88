// Waiting for a condition without waiting for ever.
#ifndef LONGSTREAM_TESTS_SERVICE_WAIT_UNTIL_H_
#define LONGSTREAM_TESTS_SERVICE_WAIT_UNTIL_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace longstream {

// Calls `condition` until it returns true, for at most 30 s. Returns whether it did.
template <typename Condition>
[[nodiscard]] bool WaitUntil(const Condition& condition) {
  const absl::Time give_up = absl::Now() + absl::Seconds(30);
  while (!condition()) {
    if (absl::Now() > give_up) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_WAIT_UNTIL_H_
