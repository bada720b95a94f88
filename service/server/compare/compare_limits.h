// The limits of a comparison.
#ifndef LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_LIMITS_H_
#define LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_LIMITS_H_

#include <cstdint>

#include "absl/time/time.h"

namespace longstream {

struct CompareLimits {
  uint64_t buffer_bytes = uint64_t{8} << 20;  // RowJoin::Options
  // Looks so often for arms that have no memory or place yet while others wait for them. An
  // arm of which two looks in a row find this is lost. So two comparisons do not wait for each
  // other's memory for ever.
  absl::Duration start_limit = absl::Seconds(10);
  // When a turn with a twin has ended, its call waits for the twin for this long, or as long as the
  // turn has taken, if that is longer; never longer than half of the time until its deadline.
  absl::Duration twin_limit = absl::Seconds(10);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_LIMITS_H_
