// Buckets hold their steps, are few, and have different keys.
#include "backends/runtime/decode_bucket.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace longstream {
namespace {

TEST(DecodeBucketTest, IsTheSmallestThatHoldsTheRows) {
  const std::pair<int32_t, int32_t> expected[] = {{1, 1},   {2, 2},   {3, 4},   {5, 8},   {9, 16},
                                                  {17, 24}, {25, 32}, {33, 48}, {49, 64}, {64, 64}};
  for (const auto& [rows, bucket] : expected) {
    EXPECT_EQ(DecodeBucketFor(rows, 0, 64, 4095).num_rows, bucket) << rows;
  }
  const std::pair<int32_t, int32_t> many[] = {{65, 96},   {96, 96},   {97, 128},  {129, 160},
                                              {191, 192}, {193, 224}, {225, 256}, {256, 256}};
  for (const auto& [rows, bucket] : many) {
    EXPECT_EQ(DecodeBucketFor(rows, 0, 256, 4095).num_rows, bucket) << rows;
  }
  // A bucket has at most the rows that a step may have.
  EXPECT_EQ(DecodeBucketFor(17, 0, 20, 4095).num_rows, 20);
  EXPECT_EQ(DecodeBucketFor(3, 0, 3, 4095).num_rows, 3);
}

TEST(DecodeBucketTest, ReachesAsFarAsAPowerOfTwoOfParts) {
  const std::pair<int64_t, int64_t> expected[] = {{0, 127},     {127, 127},    {128, 255},
                                                  {256, 511},   {511, 511},    {512, 1023},
                                                  {2047, 2047}, {2048, 99999}, {99999, 99999}};
  for (const auto& [position, reach] : expected) {
    EXPECT_EQ(DecodeBucketFor(1, position, 64, 99999).max_position, reach) << position;
  }
  EXPECT_EQ(DecodeBucketFor(1, 100, 64, 110).max_position, 110);  // the model's last position
}

TEST(DecodeBucketTest, KeysAreThoseOfTheBuckets) {
  std::set<std::pair<int32_t, int64_t>> buckets;
  std::set<uint64_t> keys;
  for (int32_t rows = 1; rows <= 256; ++rows) {
    for (int64_t position = 0; position < 5000; position += 100) {
      const DecodeBucket bucket = DecodeBucketFor(rows, position, 256, 4999);
      buckets.insert({bucket.num_rows, bucket.max_position});
      keys.insert(bucket.key());
    }
  }
  EXPECT_EQ(keys.size(), buckets.size());
  EXPECT_EQ(keys.size(), 15u * 6u);
}

}  // namespace
}  // namespace longstream
