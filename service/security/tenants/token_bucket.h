// A quota of tokens a minute.
#ifndef LONGSTREAM_SERVICE_SECURITY_TENANTS_TOKEN_BUCKET_H_
#define LONGSTREAM_SERVICE_SECURITY_TENANTS_TOKEN_BUCKET_H_

#include <cstdint>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"

namespace longstream {

// A bucket that holds the tokens of one minute and fills at that rate. It is full at the beginning.
// Tokens that nobody could know before are taken afterwards: then the bucket may hold less than
// nothing, and nobody takes tokens from it until it has filled up again. Used by one thread at a
// time.
class TokenBucket {
 public:
  // `per_minute`: 0: no limit.
  explicit TokenBucket(uint64_t per_minute) : per_minute_(static_cast<double>(per_minute)) {}

  // Takes tokens, and returns zero. If there are too few, takes none and returns how long it lasts
  // until there are enough. A demand for more than a minute's tokens waits for a full bucket, and
  // takes all of it. *taken: the tokens that were taken.
  absl::Duration Take(uint64_t tokens, MonotonicTime now, uint64_t* taken);
  // How long it lasts until Take would give `tokens`, if nobody else takes any.
  absl::Duration WaitFor(uint64_t tokens, MonotonicTime now);
  // Takes tokens that were used already.
  void TakeUsed(uint64_t tokens, MonotonicTime now);
  // Gives back tokens that were taken and not used.
  void GiveBack(uint64_t tokens, MonotonicTime now);

  // How many tokens it holds; negative if more were used.
  double level(MonotonicTime now);

 private:
  void Fill(MonotonicTime now);

  const double per_minute_;
  double level_ = per_minute_;
  MonotonicTime filled_at_ = MonotonicTime::InfinitePast();
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_TENANTS_TOKEN_BUCKET_H_
