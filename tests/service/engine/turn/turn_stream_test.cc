// The queue between engine and reader: order, merging, wakes and back-pressure.
#include "service/engine/turn/turn_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace longstream {
namespace {

DeltaEvent Delta(std::string text, int32_t token, uint64_t position) {
  DeltaEvent delta;
  delta.text = std::move(text);
  delta.tokens = {token};
  delta.position = position;
  return delta;
}

// Reads until the queue is empty.
void Empty(TurnStream& stream) {
  while (!std::holds_alternative<std::monostate>(stream.Next())) {
  }
}

TEST(TurnStream, WaitingDeltasAreMerged) {
  TurnStream stream;
  stream.Push(StartedEvent{});
  stream.Push(Delta("a", 1, 11));
  stream.Push(Delta("b", 2, 12));
  stream.Finish(TurnEnd{});
  ASSERT_TRUE(std::holds_alternative<StartedEvent>(std::get<TurnEvent>(stream.Next())));
  const TurnStream::Item merged = stream.Next();
  const auto& delta = std::get<DeltaEvent>(std::get<TurnEvent>(merged));
  EXPECT_EQ(delta.text, "ab");
  EXPECT_EQ(delta.tokens, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(delta.position, 12u);
  EXPECT_EQ(stream.queued_bytes(), 0u);
  EXPECT_TRUE(std::holds_alternative<TurnEnd>(stream.Next()));
}

// Returns `count` rows. Each row has a token and 20 alternatives, which is the largest row that a
// caller can ask for.
std::vector<TokenLogProb> Rows(int32_t first, int count) {
  std::vector<TokenLogProb> rows;
  for (int i = 0; i < count; ++i) {
    rows.push_back({first + i, -1.0f, std::vector<ls_top_token>(20)});
  }
  return rows;
}

size_t Named(size_t rows) { return 21 * rows; }

TEST(TurnStream, ALongScoreIsSplit) {
  TurnStream stream;
  stream.Push(ScoreEvent{100, Rows(0, 1000)});
  stream.Finish(TurnEnd{});
  uint64_t next = 0;
  int events = 0;
  TurnStream::Item item = stream.Next();
  for (; std::holds_alternative<TurnEvent>(item); item = stream.Next(), ++events) {
    const auto& score = std::get<ScoreEvent>(std::get<TurnEvent>(item));
    EXPECT_LE(Named(score.tokens.size()), TurnStream::kMaxNamedTokens);
    EXPECT_EQ(score.first_index, 100 + next);
    for (const TokenLogProb& token : score.tokens) EXPECT_EQ(token.token, next++);
  }
  EXPECT_TRUE(std::holds_alternative<TurnEnd>(item));
  EXPECT_EQ(next, 1000u);
  EXPECT_EQ(events, 6) << "each event but the last should have 195 rows";
  EXPECT_EQ(stream.queued_bytes(), 0u);
}

TEST(TurnStream, DeltasAreMergedUpToALimit) {
  TurnStream stream;
  for (int i = 0; i < 1000; ++i) {
    DeltaEvent delta = Delta("x", i, static_cast<uint64_t>(i));
    delta.log_probs = Rows(i, 1);
    stream.Push(std::move(delta));
  }
  stream.Finish(TurnEnd{});
  int32_t next = 0;
  int events = 0;
  TurnStream::Item item = stream.Next();
  for (; std::holds_alternative<TurnEvent>(item); item = stream.Next(), ++events) {
    const auto& delta = std::get<DeltaEvent>(std::get<TurnEvent>(item));
    EXPECT_LE(delta.tokens.size() + Named(delta.log_probs.size()), TurnStream::kMaxNamedTokens);
    ASSERT_EQ(delta.tokens.size(), delta.log_probs.size());
    EXPECT_EQ(delta.text.size(), delta.tokens.size());
    for (const int32_t token : delta.tokens) EXPECT_EQ(token, next++);
    EXPECT_EQ(delta.position, static_cast<uint64_t>(next - 1))
        << "a delta's position is that of its last token";
  }
  EXPECT_EQ(next, 1000);
  EXPECT_EQ(events, 6) << "each event but the last should have 186 tokens";
  EXPECT_EQ(stream.queued_bytes(), 0u);
}

TEST(TurnStream, WakesOncePerWait) {
  TurnStream stream;
  int wakes = 0;
  stream.SetReader([&] { ++wakes; });
  stream.Push(Delta("a", 1, 1));
  stream.Push(Delta("b", 2, 2));
  EXPECT_EQ(wakes, 1) << "a reader is woken once until it reads";
  Empty(stream);
  stream.Push(Delta("c", 3, 3));
  EXPECT_EQ(wakes, 2);
  Empty(stream);
  stream.Finish(TurnEnd{});
  EXPECT_EQ(wakes, 3);
}

TEST(TurnStream, FullUntilHalfIsGone) {
  TurnStream stream;
  int drained = 0;
  stream.SetWriter(4096, [&] { ++drained; });
  while (!stream.Full()) {
    // Events of two kinds alternate, so that none can be merged.
    stream.Push(PrefillEvent{});
    stream.Push(Delta("0123456789", 1, 1));
  }
  EXPECT_GT(stream.queued_bytes(), 4096u);
  while (stream.Full()) ASSERT_TRUE(std::holds_alternative<TurnEvent>(stream.Next()));
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
    const TurnStream::Item item = stream.Next();
    if (std::holds_alternative<TurnEnd>(item)) break;
    const auto* event = std::get_if<TurnEvent>(&item);
    if (event == nullptr) continue;
    for (const int32_t token : std::get<DeltaEvent>(*event).tokens) EXPECT_EQ(token, next++);
  }
  writer.join();
  EXPECT_EQ(next, kTokens);
}

// Reads as a gRPC reactor does, one message at a time. The next read comes from the thread that
// completes the write, or from the writer's wake if the queue was empty. Only one of the two
// threads may get the end.
TEST(TurnStream, TheEndIsTakenOnce) {
  for (int round = 0; round < 2000; ++round) {
    TurnStream stream;
    std::atomic<int> ends = 0;
    std::atomic<bool> written = false;
    const auto pump = [&] {
      const TurnStream::Item item = stream.Next();
      if (std::holds_alternative<TurnEvent>(item)) written = true;
      if (std::holds_alternative<TurnEnd>(item)) ends.fetch_add(1);
    };
    stream.SetReader(pump);
    std::thread transport([&] {
      while (ends.load() == 0) {
        if (written.exchange(false)) pump();
      }
    });
    stream.Push(Delta("a", 1, 1));
    stream.Push(PrefillEvent{});
    stream.Finish(TurnEnd{});
    transport.join();
    EXPECT_EQ(ends.load(), 1);
  }
}

}  // namespace
}  // namespace longstream
