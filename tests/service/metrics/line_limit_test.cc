// The limit of the lines that clients can cause in the log.
#include "service/metrics/line_limit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace longstream {
namespace {

using std::chrono::seconds;

TEST(LineLimitTest, CutsLongLines) {
  LineLimit limit(10, 5);
  EXPECT_EQ(limit.Pass("12345", LineLimit::Clock::time_point()), "12345");
  EXPECT_EQ(limit.Pass("123456", LineLimit::Clock::time_point()), "12345...");
  EXPECT_EQ(limit.Pass("", LineLimit::Clock::time_point()), "");
}

TEST(LineLimitTest, PassesSoManyLinesAMinute) {
  LineLimit limit(2, 100);
  const LineLimit::Clock::time_point begin;
  EXPECT_EQ(limit.Pass("a", begin), "a");
  EXPECT_EQ(limit.Pass("b", begin + seconds(59)), "b");
  EXPECT_EQ(limit.Pass("c", begin + seconds(59)), std::nullopt);
  EXPECT_EQ(limit.Pass("d", begin + seconds(59)), std::nullopt);
  EXPECT_EQ(limit.Pass("e", begin + seconds(60)), "e (2 lines before it were left out)");
  EXPECT_EQ(limit.Pass("f", begin + seconds(61)), "f");
  EXPECT_EQ(limit.Pass("g", begin + seconds(62)), std::nullopt);
}

}  // namespace
}  // namespace longstream
