// Few snapshots begin at once; a session waits once.
#include "service/serving/caches/save_queue.h"

#include <gtest/gtest.h>

#include <optional>

namespace longstream {
namespace {

TEST(SaveQueue, FewBeginAtOnce) {
  SaveQueue<int> queue(2, 10);
  EXPECT_TRUE(queue.Begin(1));
  EXPECT_TRUE(queue.Begin(2));
  EXPECT_FALSE(queue.Begin(3));
  EXPECT_FALSE(queue.Begin(4));
  queue.End(1);
  EXPECT_EQ(queue.Next(), 3);
  EXPECT_TRUE(queue.Begin(3));
  queue.End(2);
  EXPECT_EQ(queue.Next(), 4);
  EXPECT_TRUE(queue.Begin(4));
  queue.End(3);
  EXPECT_EQ(queue.Next(), std::nullopt);
  EXPECT_EQ(queue.num_begun(), 1u);
}

TEST(SaveQueue, ASessionWaitsOnceForAllItsTurns) {
  SaveQueue<int> queue(2, 10);
  EXPECT_TRUE(queue.Begin(1));
  for (int turn = 0; turn < 5; ++turn) EXPECT_FALSE(queue.Begin(1));
  EXPECT_EQ(queue.num_waiting(), 1u);
  EXPECT_TRUE(queue.Begin(2)) << "it does not wait for the session";
  queue.End(2);
  EXPECT_EQ(queue.Next(), std::nullopt) << "the first snapshot is not written yet";
  queue.End(1);
  EXPECT_EQ(queue.Next(), 1);
  EXPECT_TRUE(queue.Begin(1));
  EXPECT_EQ(queue.num_waiting(), 0u);
}

TEST(SaveQueue, ASessionThatBeginsDoesNotWaitAnyMore) {
  SaveQueue<int> queue(1, 10);
  EXPECT_TRUE(queue.Begin(1));
  EXPECT_FALSE(queue.Begin(2));
  EXPECT_FALSE(queue.Begin(3));
  queue.End(1);
  EXPECT_EQ(queue.Next(), 2);
  EXPECT_TRUE(queue.Begin(3));
  queue.End(3);
  EXPECT_EQ(queue.Next(), std::nullopt);
}

TEST(SaveQueue, IsBounded) {
  SaveQueue<int> queue(1, 2);
  EXPECT_TRUE(queue.Begin(0));
  for (int session = 1; session < 9; ++session) EXPECT_FALSE(queue.Begin(session));
  EXPECT_EQ(queue.num_waiting(), 2u);
}

TEST(SaveQueue, BeginsNothingWhileItIsPaused) {
  SaveQueue<int> queue(2, 10);
  EXPECT_TRUE(queue.Begin(1));
  queue.SetPaused(true);
  EXPECT_FALSE(queue.Begin(2));
  queue.End(1);
  EXPECT_EQ(queue.Next(), std::nullopt);
  queue.SetPaused(false);
  EXPECT_EQ(queue.Next(), 2);
  EXPECT_EQ(queue.Next(), std::nullopt);
}

}  // namespace
}  // namespace longstream
