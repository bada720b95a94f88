// The queue between engine and reader: order, merging, waking, back-pressure.
#include "service/scheduler/turn_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

namespace longstream {
namespace {

DeltaEvent Delta(std::string text, int32_t token, uint64_t position) {
  DeltaEvent delta;
  delta.text = std::move(text);
  delta.tokens = {token};
  delta.position = position;
  return delta;
}

TEST(TurnStream, WaitingDeltasAreMerged) {
  TurnStream stream;
  stream.Push(StartedEvent{});
  stream.Push(Delta("a", 1, 11));
  stream.Push(Delta("b", 2, 12));
  stream.Finish(TurnEnd{});
  ASSERT_TRUE(std::holds_alternative<StartedEvent>(*stream.Next()));
  EXPECT_FALSE(stream.End().has_value()) << "the end comes after every event";
  const TurnEvent merged = *stream.Next();
  const auto& delta = std::get<DeltaEvent>(merged);
  EXPECT_EQ(delta.text, "ab");
  EXPECT_EQ(delta.tokens, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(delta.position, 12u);
  EXPECT_FALSE(stream.Next().has_value());
  EXPECT_TRUE(stream.End().has_value());
  EXPECT_EQ(stream.queued_bytes(), 0u);
}

TEST(TurnStream, WakesOncePerWait) {
  TurnStream stream;
  int wakes = 0;
  stream.SetReader([&] { ++wakes; });
  stream.Push(Delta("a", 1, 1));
  stream.Push(Delta("b", 2, 2));
  EXPECT_EQ(wakes, 1) << "the reader has been woken and has not looked yet";
  while (stream.Next()) {
  }
  stream.Push(Delta("c", 3, 3));
  EXPECT_EQ(wakes, 2);
  while (stream.Next()) {
  }
  stream.Finish(TurnEnd{});
  EXPECT_EQ(wakes, 3);
}

TEST(TurnStream, FullUntilHalfIsGone) {
  TurnStream stream;
  int drained = 0;
  stream.SetWriter(4096, [&] { ++drained; });
  while (!stream.Full()) {
    // Two kinds in turn, so that nothing merges.
    stream.Push(PrefillEvent{});
    stream.Push(Delta("0123456789", 1, 1));
  }
  EXPECT_GT(stream.queued_bytes(), 4096u);
  while (stream.Full()) ASSERT_TRUE(stream.Next().has_value());
  EXPECT_LE(stream.queued_bytes(), 2048u);
  EXPECT_EQ(drained, 1);
}

TEST(TurnStream, NothingIsLostBetweenThreads) {
  constexpr int kTokens = 20000;
  TurnStream stream;
  std::atomic<int> wakes = 0;
  stream.SetReader([&] { wakes.fetch_add(1); });
  std::thread writer([&] {
    for (int i = 0; i < kTokens; ++i) stream.Push(Delta("x", i, static_cast<uint64_t>(i)));
    stream.Finish(TurnEnd{});
  });
  int next = 0;
  while (true) {
    if (const std::optional<TurnEvent> event = stream.Next()) {
      for (const int32_t token : std::get<DeltaEvent>(*event).tokens) EXPECT_EQ(token, next++);
    } else if (stream.End().has_value()) {
      break;
    }
  }
  writer.join();
  EXPECT_EQ(next, kTokens);
}

}  // namespace
}  // namespace longstream
