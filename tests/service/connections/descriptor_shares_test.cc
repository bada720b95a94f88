// How the descriptors of the process are divided.
#include "service/connections/descriptor_shares.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <limits>

namespace longstream {
namespace {

TEST(DescriptorSharesTest, TheProgramKeepsSomeForItself) {
  EXPECT_EQ(ShareDescriptors(64).calls, 32u);
  EXPECT_EQ(ShareDescriptors(64).scrapes, 8u);
  EXPECT_EQ(ShareDescriptors(1024).calls, 896u);
  EXPECT_EQ(ShareDescriptors(1024).scrapes, 32u);
}

TEST(DescriptorSharesTest, ThereIsAlwaysRoomForOneConnection) {
  for (const uint64_t limit : {0u, 1u, 2u, 7u}) {
    EXPECT_GE(ShareDescriptors(limit).calls, 1u);
    EXPECT_GE(ShareDescriptors(limit).scrapes, 1u);
  }
}

TEST(DescriptorSharesTest, TheConfiguredLimitDoesNotExceedTheDescriptors) {
  EXPECT_EQ(MaxConnections(5, 1024), 5u);
  EXPECT_EQ(MaxConnections(5000, 1024), 896u);
  EXPECT_EQ(MaxConnections(0, 1024), 896u);
  EXPECT_EQ(MaxConnections(0, 1 << 20), 10000u);
  EXPECT_EQ(MaxConnections(20000, 1 << 20), 20000u);
  EXPECT_EQ(MaxConnections(0, std::numeric_limits<uint64_t>::max()), 10000u) << "no limit";
}

TEST(DescriptorSharesTest, TheLimitIsTheSoftLimitOfTheProcess) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = before.rlim_cur / 2;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  EXPECT_EQ(DescriptorLimit(), lower.rlim_cur);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace longstream
