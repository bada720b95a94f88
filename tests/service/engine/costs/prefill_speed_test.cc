// The estimate of a model's prefill speed, and how long it is kept.
#include "service/engine/costs/prefill_speed.h"

#include <gtest/gtest.h>

namespace longstream {
namespace {

constexpr MonotonicTime kStart;

TEST(PrefillSpeed, TheFirstSamplesTellNothing) {
  PrefillSpeed speed;
  for (int i = 0; i < PrefillSpeed::kWarmUpSamples; ++i) {
    speed.Learn(100, absl::Seconds(100), kStart);
    EXPECT_EQ(speed.TimeFor(1000, kStart), absl::ZeroDuration());
  }
  speed.Learn(100, absl::Seconds(1), kStart);
  EXPECT_EQ(speed.TimeFor(1000, kStart), absl::Seconds(10));
}

TEST(PrefillSpeed, TheQuickestCounts) {
  PrefillSpeed speed;
  for (const int seconds : {9, 9, 4, 1, 4}) speed.Learn(100, absl::Seconds(seconds), kStart);
  EXPECT_GE(speed.TimeFor(100, kStart), absl::Seconds(1));
  EXPECT_LT(speed.TimeFor(100, kStart), absl::Seconds(1.1));
}

TEST(PrefillSpeed, NoTimeOrLessTellsNothing) {
  PrefillSpeed speed;
  for (int i = 0; i < 4; ++i) speed.Learn(100, absl::Seconds(1), kStart);
  speed.Learn(100, absl::ZeroDuration(), kStart);
  speed.Learn(100, -absl::Hours(1), kStart);
  EXPECT_EQ(speed.TimeFor(100, kStart), absl::Seconds(1));
}

// An estimate must be forgotten if no later prefill confirms it. Otherwise one slow prefill could
// make the engine refuse every later turn, and then no prefill would correct the estimate.
TEST(PrefillSpeed, WhatIsNotConfirmedIsForgotten) {
  PrefillSpeed speed;
  for (int i = 0; i <= PrefillSpeed::kWarmUpSamples; ++i) {
    speed.Learn(100, absl::Seconds(100), kStart);
  }
  const MonotonicTime later = kStart + PrefillSpeed::kMaxAge;
  EXPECT_GT(speed.TimeFor(100, later), absl::ZeroDuration());
  EXPECT_EQ(speed.TimeFor(100, later + absl::Seconds(1)), absl::ZeroDuration());
  speed.Learn(100, absl::Seconds(2), later + absl::Seconds(1));
  EXPECT_EQ(speed.TimeFor(100, later + absl::Seconds(1)), absl::Seconds(2))
      << "the forgotten estimate must not influence the new one";
}

}  // namespace
}  // namespace longstream
