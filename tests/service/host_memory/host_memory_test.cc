// Charges, their sum and its limit.
#include "service/host_memory/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace longstream {
namespace {

using ::testing::HasSubstr;

TEST(HostMemoryTest, BlocksOfTheAllocator) {
  EXPECT_EQ(BlockBytes(0), 0u);
  EXPECT_EQ(BlockBytes(1), 32u);
  EXPECT_EQ(BlockBytes(24), 32u);
  EXPECT_EQ(BlockBytes(25), 48u);
  EXPECT_EQ(BlockBytes(40), 48u);
  EXPECT_EQ(BlockBytes(41), 64u);
  EXPECT_EQ(BlockBytes(200000), 200704u) << "whole pages";
}

TEST(HostMemoryTest, ChargesCountUntilTheyEnd) {
  HostMemory memory(0);
  {
    HostCharge one(&memory);
    HostCharge two(&memory);
    ASSERT_TRUE(one.Add(100).ok());
    ASSERT_TRUE(one.Add(20).ok());
    two.Set(7);
    EXPECT_EQ(memory.held_bytes(), 127u);
    two.Set(3);
    EXPECT_EQ(memory.held_bytes(), 123u);
    {
      const HostCharge part = one.Split(50);
      EXPECT_EQ(part.bytes(), 50u);
      EXPECT_EQ(one.bytes(), 70u);
      EXPECT_EQ(memory.held_bytes(), 123u);
    }
    EXPECT_EQ(memory.held_bytes(), 73u);
    HostCharge moved = std::move(one);
    EXPECT_EQ(moved.bytes(), 70u);
    EXPECT_EQ(memory.held_bytes(), 73u);
    two = std::move(moved);
    EXPECT_EQ(memory.held_bytes(), 70u);
  }
  EXPECT_EQ(memory.held_bytes(), 0u);
}

TEST(HostMemoryTest, TheLimit) {
  HostMemory memory(1000);
  HostCharge charge(&memory);
  HostCharge other(&memory);
  ASSERT_TRUE(charge.Add(990).ok());
  EXPECT_TRUE(memory.CheckRoom(10).ok());
  for (const uint64_t bytes : {uint64_t{11}, UINT64_MAX}) {
    const absl::Status status = other.Add(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(memory.CheckRoom(bytes), status);
    EXPECT_THAT(status.message(), HasSubstr("sessions.host_bytes: sessions and turns hold 990"));
    EXPECT_THAT(status.message(), HasSubstr(std::to_string(bytes) + " more; the limit is 1000"));
  }
  EXPECT_EQ(other.bytes(), 0u);
  EXPECT_EQ(memory.held_bytes(), 990u);
  ASSERT_TRUE(other.Add(10).ok());
  other.Set(500);  // allocated already
  EXPECT_EQ(memory.held_bytes(), 1490u);
  EXPECT_FALSE(charge.Add(0).ok()) << "there is more than the limit allows";
  other.Set(0);
  EXPECT_TRUE(charge.Add(10).ok());
}

TEST(HostMemoryTest, TheLimitOfAConversation) {
  const HostMemory memory(1000, 100);
  EXPECT_TRUE(memory.CheckConversation(100).ok());
  EXPECT_EQ(memory.CheckConversation(101),
            absl::ResourceExhaustedError(
                "sessions.conversation_bytes: the conversation of the session would take 101 bytes "
                "of the host's memory; the limit is 100"));
  EXPECT_TRUE(HostMemory(1000).CheckConversation(UINT64_MAX).ok()) << "no limit";
}

TEST(HostMemoryTest, WithoutAMemoryAChargeKnowsItsBytes) {
  HostCharge charge;
  ASSERT_TRUE(charge.Add(UINT64_MAX / 2).ok());
  EXPECT_EQ(charge.bytes(), UINT64_MAX / 2);
}

TEST(HostMemoryTest, ThreadsTogetherStayWithinTheLimit) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20000;
  HostMemory memory(3 * 100);
  std::vector<std::thread> threads;
  std::vector<int> refused(kThreads, 0);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        HostCharge charge(&memory);
        if (!charge.Add(100).ok()) ++refused[static_cast<size_t>(t)];
        EXPECT_LE(memory.held_bytes(), memory.limit());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory.held_bytes(), 0u);
}

}  // namespace
}  // namespace longstream
