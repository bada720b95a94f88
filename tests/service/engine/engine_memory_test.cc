// The cache budget, the bounded queue and slow readers.
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

// Idle sessions are evicted, so only sessions with running turns stop an open.
TEST(EngineMemory, OpenBeyondTheBudgetIsResourceExhausted) {
  TestEngine engine("{}", /*cache_bytes=*/1 << 12);
  std::vector<std::shared_ptr<SessionTurn>> turns;
  absl::Status refused;
  while (refused.ok() && turns.size() < 10000) {
    auto session = engine.TryOpen();
    refused = session.status();
    if (!session.ok()) break;
    SessionTurnRequest request;
    request.kind = TurnKind::kAppend;  // holds its memory and waits for input
    request.session = *session;
    turns.push_back(MakeTurn(request));
    ASSERT_TRUE(engine.Start(turns.back()).ok());
    engine->Flush();
    engine->Flush();
  }
  ASSERT_FALSE(turns.empty());
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  // The end of a turn makes room for a session.
  turns.front()->CloseInput();
  engine->Wake();
  EXPECT_TRUE(ReadToEnd(*turns.front()).end.status.ok());
  EXPECT_TRUE(engine.TryOpen().ok());
  for (const auto& turn : turns) turn->Cancel();
  engine->Wake();
  for (size_t i = 1; i < turns.size(); ++i) ReadToEnd(*turns[i]);
}

TEST(EngineMemory, FullQueueIsResourceExhausted) {
  TestEngine engine(R"({"step_delay_us": 5000})", 0,
                    {.max_batch_sequences = 2, .max_waiting_turns = 3});
  std::vector<std::shared_ptr<SessionTurn>> turns;
  for (int i = 0; i < 5; ++i) {
    turns.push_back(MakeTurn(Generate(engine.Open(), "a", 60000)));
    ASSERT_TRUE(engine.Start(turns.back()).ok()) << i;
  }
  const auto session = engine.Open();
  EXPECT_EQ(engine.Start(MakeTurn(Generate(session, "a", 5))).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(session->View().turn_running) << "a refused turn holds its session";
  for (const auto& turn : turns) turn->Cancel();
  engine->Wake();
  for (const auto& turn : turns) ReadToEnd(*turn);
  EXPECT_TRUE(RunTurn(*engine, MakeTurn(Generate(session, "a", 5))).end.status.ok());
}

// A caller that has learned of a turn's end finds the room that the turn had in the queue. Many
// turns end in the same round of the engine, so that the first one is told its end well before the
// last one has left the queue (ThreadSanitizer makes this time long enough to be hit).
TEST(EngineMemory, AnEndedTurnHasLeftTheQueue) {
  constexpr size_t kWaiting = 100;
  TestEngine engine(R"({"step_delay_us": 5000})", 0,
                    {.max_batch_sequences = 1, .max_waiting_turns = kWaiting});
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<SessionTurn>> turns;
    for (size_t i = 0; i < kWaiting + 1; ++i) {
      turns.push_back(MakeTurn(Generate(engine.Open(), "a", 60000)));
      ASSERT_TRUE(engine.Start(turns.back()).ok()) << i;
    }
    const auto next = MakeTurn(Generate(engine.Open(), "a", 1));
    for (const auto& turn : turns) turn->Cancel();
    engine->Wake();
    SessionTurn& first = *turns[1];
    while (!std::holds_alternative<TurnEnd>(first.stream.Next())) {
    }
    EXPECT_TRUE(engine.Start(next).ok()) << round;
    for (const auto& turn : turns) {
      if (turn.get() != &first) ReadToEnd(*turn);
    }
    ReadToEnd(*next);
  }
}

// If a reader stops reading, only its own turn pauses, and the reader loses nothing.
TEST(EngineMemory, SlowReaderPausesItselfAlone) {
  TestEngine engine("{}", 0, {.stream_buffer_bytes = 2048});
  const std::string expected = RunTurn(*engine, MakeTurn(Generate(engine.Open(), "s", 3000))).text;
  const auto slow = MakeTurn(Generate(engine.Open(), "s", 3000));
  ASSERT_TRUE(engine.Start(slow).ok());
  while (!slow->stream.Full()) absl::SleepFor(absl::Milliseconds(1));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(RunTurn(*engine, MakeTurn(Generate(engine.Open(), "f", 500))).end.status.ok());
  }
  EXPECT_TRUE(slow->session->View().turn_running) << "the slow turn should be paused";
  EXPECT_LT(slow->stream.queued_bytes(), 4096u);
  EXPECT_EQ(ReadToEnd(*slow).text, expected);
}

TEST(EngineMemory, HighPriorityOvertakesInTheQueue) {
  TestEngine engine(R"({"step_delay_us": 3000})", 0, {.max_batch_sequences = 1});
  const auto running = MakeTurn(Generate(engine.Open(), "a", 10));
  const auto low = MakeTurn(Generate(engine.Open(), "b", 10));
  SessionTurnRequest request = Generate(engine.Open(), "c", 10);
  request.priority = Priority::kHigh;
  const auto high = MakeTurn(request);
  ASSERT_TRUE(engine.Start(running).ok());
  ASSERT_TRUE(engine.Start(low).ok());
  ASSERT_TRUE(engine.Start(high).ok());
  const Outcome high_outcome = ReadToEnd(*high);
  EXPECT_TRUE(low->session->View().turn_running);
  EXPECT_LT(high_outcome.end.usage.queue_time, ReadToEnd(*low).end.usage.queue_time);
  ReadToEnd(*running);
}

}  // namespace
}  // namespace longstream
