// A bucket of tokens, with times that the tests choose.
#include "service/security/tenants/token_bucket.h"

#include <gtest/gtest.h>

namespace longstream {
namespace {

const MonotonicTime kStart = MonotonicTime() + absl::Hours(1);

uint64_t Taken(TokenBucket& bucket, uint64_t tokens, MonotonicTime now) {
  uint64_t taken = 0;
  EXPECT_EQ(bucket.Take(tokens, now, &taken), absl::ZeroDuration());
  return taken;
}

TEST(TokenBucket, WithoutALimitItTakesNothing) {
  TokenBucket bucket(0);
  bucket.TakeUsed(1000, kStart);
  EXPECT_EQ(Taken(bucket, 1'000'000, kStart), 0u);
}

TEST(TokenBucket, BeginsFullAndSaysHowLongToWait) {
  TokenBucket bucket(600);  // 10 a second
  EXPECT_EQ(Taken(bucket, 400, kStart), 400u);
  uint64_t taken = 7;
  EXPECT_EQ(bucket.Take(300, kStart, &taken), absl::Seconds(10));
  EXPECT_EQ(taken, 0u);
  EXPECT_EQ(bucket.level(kStart), 200.0) << "a refusal takes nothing";
  EXPECT_EQ(bucket.Take(300, kStart + absl::Seconds(9), &taken), absl::Seconds(1));
  EXPECT_EQ(Taken(bucket, 300, kStart + absl::Seconds(10)), 300u);
}

TEST(TokenBucket, HoldsNoMoreThanAMinute) {
  TokenBucket bucket(600);
  EXPECT_EQ(Taken(bucket, 100, kStart), 100u);
  EXPECT_EQ(bucket.level(kStart + absl::Hours(5)), 600.0);
  bucket.GiveBack(50, kStart + absl::Hours(5));
  EXPECT_EQ(bucket.level(kStart + absl::Hours(5)), 600.0);
}

TEST(TokenBucket, WhatWasUsedMakesADebt) {
  TokenBucket bucket(600);
  bucket.TakeUsed(700, kStart);
  EXPECT_EQ(bucket.level(kStart), -100.0);
  uint64_t taken = 0;
  EXPECT_EQ(bucket.Take(0, kStart, &taken), absl::Seconds(10.1)) << "even a turn without tokens";
  EXPECT_EQ(Taken(bucket, 0, kStart + absl::Seconds(10.1)), 0u);
}

TEST(TokenBucket, ALargeDemandWaitsForAFullBucket) {
  TokenBucket bucket(600);
  EXPECT_EQ(Taken(bucket, 60, kStart), 60u);
  uint64_t taken = 0;
  EXPECT_EQ(bucket.Take(5000, kStart, &taken), absl::Seconds(6));
  EXPECT_EQ(Taken(bucket, 5000, kStart + absl::Seconds(6)), 600u);
  EXPECT_EQ(bucket.level(kStart + absl::Seconds(6)), 0.0);
}

TEST(TokenBucket, TimeDoesNotGoBack) {
  TokenBucket bucket(600);
  EXPECT_EQ(Taken(bucket, 600, kStart), 600u);
  EXPECT_EQ(bucket.level(kStart - absl::Hours(1)), 0.0);
  EXPECT_EQ(bucket.level(kStart + absl::Seconds(1)), 10.0);
}

}  // namespace
}  // namespace longstream
