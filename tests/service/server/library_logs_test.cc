// The limit of the lines that clients can cause in the log.
#include "service/server/library_logs.h"

#include <gtest/gtest.h>

#include <string>

namespace longstream {
namespace {

TEST(LineLimitTest, CutsLongLines) {
  LineLimit limit(10, 5);
  EXPECT_EQ(limit.Pass("12345", MonotonicTime()), "12345");
  EXPECT_EQ(limit.Pass("123456", MonotonicTime()), "12345...");
  EXPECT_EQ(limit.Pass("", MonotonicTime()), "");
}

TEST(LineLimitTest, PassesSoManyLinesAMinute) {
  LineLimit limit(2, 100);
  const MonotonicTime begin;
  EXPECT_EQ(limit.Pass("a", begin), "a");
  EXPECT_EQ(limit.Pass("b", begin + absl::Seconds(59)), "b");
  EXPECT_EQ(limit.Pass("c", begin + absl::Seconds(59)), std::nullopt);
  EXPECT_EQ(limit.Pass("d", begin + absl::Seconds(59)), std::nullopt);
  EXPECT_EQ(limit.Pass("e", begin + absl::Seconds(60)), "e (2 lines before it were left out)");
  EXPECT_EQ(limit.Pass("f", begin + absl::Seconds(61)), "f");
  EXPECT_EQ(limit.Pass("g", begin + absl::Seconds(62)), std::nullopt);
}

}  // namespace
}  // namespace longstream
