// Pauses between tries that become longer while nothing changes.
#ifndef LONGSTREAM_SERVICE_CLOCK_GROWING_PAUSE_H_
#define LONGSTREAM_SERVICE_CLOCK_GROWING_PAUSE_H_

#include <algorithm>

#include "absl/time/time.h"

namespace longstream {

// Each pause is twice as long as the one before it, from `least` to `most`. Not thread-safe.
class GrowingPause {
 public:
  GrowingPause(absl::Duration least, absl::Duration most)
      : least_(least), most_(most), next_(least) {}

  // The pause before the next try.
  absl::Duration Next() {
    const absl::Duration pause = next_;
    next_ = std::min(2 * next_, most_);
    return pause;
  }
  // Something has changed: the next pause is `least` again.
  void Reset() { next_ = least_; }

 private:
  absl::Duration least_;
  absl::Duration most_;
  absl::Duration next_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CLOCK_GROWING_PAUSE_H_
