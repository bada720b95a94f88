// Fills a bucket with time.
#include "service/security/tenants/token_bucket.h"

#include <algorithm>

namespace longstream {

void TokenBucket::Fill(MonotonicTime now) {
  if (filled_at_ == MonotonicTime::InfinitePast()) filled_at_ = now;
  if (now <= filled_at_) return;
  level_ += per_minute_ * absl::FDivDuration(now - filled_at_, absl::Minutes(1));
  level_ = std::min(level_, per_minute_);
  filled_at_ = now;
}

absl::Duration TokenBucket::WaitFor(uint64_t tokens, MonotonicTime now) {
  if (per_minute_ == 0) return absl::ZeroDuration();
  Fill(now);
  // A turn begins only if something is left.
  const double needed = std::clamp(static_cast<double>(tokens), 1.0, std::max(per_minute_, 1.0));
  return level_ < needed ? absl::Minutes((needed - level_) / per_minute_) : absl::ZeroDuration();
}

absl::Duration TokenBucket::Take(uint64_t tokens, MonotonicTime now, uint64_t* taken) {
  *taken = 0;
  if (per_minute_ == 0) return absl::ZeroDuration();
  if (const auto wait = WaitFor(tokens, now); wait > absl::ZeroDuration()) return wait;
  const double wanted = std::min(static_cast<double>(tokens), per_minute_);
  level_ -= wanted;
  *taken = static_cast<uint64_t>(wanted);
  return absl::ZeroDuration();
}

void TokenBucket::TakeUsed(uint64_t tokens, MonotonicTime now) {
  if (per_minute_ == 0) return;
  Fill(now);
  level_ -= static_cast<double>(tokens);
}

void TokenBucket::GiveBack(uint64_t tokens, MonotonicTime now) {
  if (per_minute_ == 0) return;
  Fill(now);
  level_ = std::min(level_ + static_cast<double>(tokens), per_minute_);
}

double TokenBucket::level(MonotonicTime now) {
  Fill(now);
  return level_;
}

}  // namespace longstream
