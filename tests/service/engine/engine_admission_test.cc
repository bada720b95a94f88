// Which turns run, which wait and which are refused: readers that stall, callers that send nothing,
// full queues. engine_room_test.cc has the turns that do not fit into memory, engine_places_test.cc
// the turns that wait for a place in the batch.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

std::shared_ptr<SessionTurn> NewAppend(std::shared_ptr<Session> session) {
  SessionTurnRequest request;
  request.kind = TurnKind::kAppend;
  request.session = std::move(session);
  return MakeTurn(request);
}

TEST(EngineAdmission, AnEmptySessionNeedsAPrompt) {
  TestEngine engine;
  const auto session = engine.Open();
  const Outcome outcome = RunTurn(*engine, MakeTurn(Generate(session, "", 5)));
  EXPECT_EQ(outcome.end.status.code(), absl::StatusCode::kInvalidArgument) << outcome.end.status;
  EXPECT_FALSE(session->View().turn_running);
  EXPECT_TRUE(RunTurn(*engine, MakeTurn(Generate(session, "a", 5))).end.status.ok());
}

TEST(EngineAdmission, TheHistoryNeverExceedsTheContext) {
  TestEngine engine(R"({"context_limit": 40})");
  const auto session = engine.Open();
  RunTurn(*engine, MakeTurn(Generate(session, std::string(20, 'a'), 10)));
  const Outcome outcome = RunTurn(*engine, MakeTurn(Generate(session, std::string(11, 'b'), 1)));
  EXPECT_EQ(outcome.end.status.code(), absl::StatusCode::kInvalidArgument) << outcome.end.status;
  EXPECT_EQ(session->View().position, 30u);
  const Outcome full = RunTurn(*engine, MakeTurn(Generate(session, std::string(10, 'b'), 1)));
  EXPECT_EQ(full.end.reason, FinishReason::kContext);
  EXPECT_EQ(full.end.position, 40u);
}

TEST(EngineAdmission, StalledReadersTakeNoPlaceInTheBatch) {
  TestEngine engine("{}", 0, {.max_batch_sequences = 2, .stream_buffer_bytes = 512});
  std::vector<std::shared_ptr<SessionTurn>> stalled;
  for (int i = 0; i < 6; ++i) {
    stalled.push_back(MakeTurn(Generate(engine.Open(), "s", 50000)));
    ASSERT_TRUE(engine.Start(stalled.back()).ok());
  }
  SessionTurnRequest request = Generate(engine.Open(), "f", 50);
  request.deadline = MonotonicTime::Now() + absl::Seconds(20);
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  for (const auto& turn : stalled)
    EXPECT_TRUE(turn->stream.Full()) << "a turn with a stalled reader should be paused";
  CancelAll(*engine, stalled);
}

TEST(EngineAdmission, SilentAppendsTakeNoPlaceInTheBatch) {
  TestEngine engine("{}", 0, {.max_batch_sequences = 2});
  std::vector<std::shared_ptr<SessionTurn>> silent;
  for (int i = 0; i < 6; ++i) {
    silent.push_back(NewAppend(engine.Open()));
    ASSERT_TRUE(engine.Start(silent.back()).ok());
    // Half of the callers have sent some text, but too little for the engine to read before more
    // arrives.
    if (i % 2 == 0) silent.back()->AddInput(Bytes("few"));
  }
  SessionTurnRequest request = Generate(engine.Open(), "f", 50);
  request.deadline = MonotonicTime::Now() + absl::Seconds(20);
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  CancelAll(*engine, silent);
}

// Silent callers and stalled readers do not count among the open turns, however many they are.
TEST(EngineAdmission, TurnsThatWaitForTheirClientsStopNoTurn) {
  TestEngine engine("{}", 0,
                    {.max_batch_sequences = 1,
                     .max_open_turns = 1,
                     .max_waiting_turns = 1,
                     .stream_buffer_bytes = 512});
  std::vector<std::shared_ptr<SessionTurn>> turns;
  for (int i = 0; i < 1100; ++i) {
    const bool appends = i % 100 != 0;
    turns.push_back(appends ? NewAppend(engine.Open())
                            : MakeTurn(Generate(engine.Open(), "s", 50000)));
    ASSERT_TRUE(engine.Start(turns.back()).ok()) << i;
    while (!appends && !turns.back()->stream.Full()) absl::SleepFor(absl::Milliseconds(1));
    engine->Flush();  // the engine has admitted the turn, or does so before the next message
  }
  SessionTurnRequest request = Generate(engine.Open(), "f", 50);
  request.deadline = MonotonicTime::Now() + absl::Seconds(20);
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.tokens.size(), 50u);
  // They all go on when their clients do.
  for (const size_t i : {1, 555, 1099}) {
    turns[i]->AddInput(Bytes("some text"));
    turns[i]->CloseInput();
    engine->Wake();
    const Outcome appended = ReadToEnd(*turns[i]);
    EXPECT_TRUE(appended.end.status.ok()) << appended.end.status;
    EXPECT_EQ(appended.end.position, 9u);
  }
  CancelAll(*engine, turns);
}

// A turn that computes until it is cancelled.
std::shared_ptr<SessionTurn> NewBusy(std::shared_ptr<Session> session) {
  return MakeTurn(Generate(std::move(session), "b", 60000));
}

constexpr char kStepsOfHalfAMs[] = R"({"step_delay_us": 500})";

TEST(EngineAdmission, OpenTurnsAreBounded) {
  TestEngine engine(kStepsOfHalfAMs, 0, {.max_batch_sequences = 2, .max_open_turns = 3});
  std::vector<std::shared_ptr<SessionTurn>> busy;
  for (int i = 0; i < 3; ++i) {
    busy.push_back(NewBusy(engine.Open()));
    ASSERT_TRUE(engine.Start(busy.back()).ok());
  }
  const auto next = MakeTurn(Generate(engine.Open(), "f", 50));
  ASSERT_TRUE(engine.Start(next).ok());
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(next->stream.Next()))
      << "the fourth turn should wait";
  CancelAll(*engine, {busy[1]});
  EXPECT_TRUE(ReadToEnd(*next).end.status.ok());
  CancelAll(*engine, busy);
}

// At most max_waiting_turns turns wait, to be admitted or for a place in the batch.
TEST(EngineAdmission, TheQueueIsBounded) {
  TestEngine engine(kStepsOfHalfAMs, 0,
                    {.max_batch_sequences = 8, .max_open_turns = 3, .max_waiting_turns = 2});
  std::vector<std::shared_ptr<SessionTurn>> turns;
  for (int i = 0; i < 5; ++i) {
    turns.push_back(NewBusy(engine.Open()));
    ASSERT_TRUE(engine.Start(turns.back()).ok()) << i;
  }
  engine->Flush();
  const auto session = engine.Open();
  const absl::Status full = engine.Start(NewBusy(session));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_EQ(full.message(), "model m: the queue has no room for another turn; it holds at most 2");
  // A place in the queue becomes free when a turn is admitted, and when a waiting turn is
  // cancelled.
  turns[0]->Cancel();
  turns[4]->Cancel();
  engine->Wake();
  ReadToEnd(*turns[0]);
  ReadToEnd(*turns[4]);
  turns.erase(turns.begin() + 4);
  turns.erase(turns.begin());
  engine->Flush();
  engine->Flush();
  for (int i = 0; i < 2; ++i) {
    turns.push_back(NewBusy(engine.Open()));
    ASSERT_TRUE(engine.Start(turns.back()).ok()) << i;
  }
  EXPECT_EQ(engine.Start(NewBusy(session)).code(), absl::StatusCode::kResourceExhausted);
  CancelAll(*engine, turns);
}

// A turn first takes a place in the queue. If its session then refuses it, it gives the place back.
TEST(EngineAdmission, SecondWritersTakeNoPlaceInTheQueue) {
  TestEngine engine("{}", 0,
                    {.max_batch_sequences = 2, .max_open_turns = 2, .max_waiting_turns = 2});
  const auto session = engine.Open();
  const auto first = NewAppend(session);
  ASSERT_TRUE(engine.Start(first).ok());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(engine.Start(NewAppend(session)).code(), absl::StatusCode::kAborted) << i;
  }
  EXPECT_TRUE(RunTurn(*engine, MakeTurn(Generate(engine.Open(), "f", 5))).end.status.ok());
  CancelAll(*engine, {first});
}

// A turn that finds no place in the queue drops its session's lease.
TEST(EngineAdmission, ARefusedTurnGivesTheSessionBack) {
  TestEngine engine(kStepsOfHalfAMs, 0,
                    {.max_batch_sequences = 1, .max_open_turns = 1, .max_waiting_turns = 0});
  const auto running = NewBusy(engine.Open());
  ASSERT_TRUE(engine.Start(running).ok());
  engine->Flush();
  engine->Flush();
  const auto session = engine.Open();
  EXPECT_EQ(engine.Start(MakeTurn(Generate(session, "f", 5))).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(session->View().turn_running);
  CancelAll(*engine, {running});
}

// Eight turns arrive while the engine is busy. Four of the eight turns will run, so only the other
// four count as waiting.
TEST(EngineAdmission, ARefusalCountsNoTurnsThatHaveOnlyJustCome) {
  TestEngine engine("{}", 0,
                    {.max_batch_sequences = 8, .max_open_turns = 4, .max_waiting_turns = 4});
  std::vector<std::shared_ptr<Session>> sessions;
  for (int i = 0; i < 9; ++i) sessions.push_back(engine.Open());
  absl::Notification go_on;
  engine->Close(engine.Open(), [&go_on](uint64_t) { go_on.WaitForNotification(); });
  std::vector<std::shared_ptr<SessionTurn>> turns;
  for (int i = 0; i < 8; ++i) {
    turns.push_back(NewAppend(sessions[static_cast<size_t>(i)]));
    ASSERT_TRUE(engine.Start(turns.back()).ok()) << i;
  }
  const absl::Status full = engine.Start(NewAppend(sessions[8]));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_EQ(full.message(), "model m: the queue has no room for another turn; it holds at most 4");
  go_on.Notify();
  CancelAll(*engine, turns);
}

}  // namespace
}  // namespace longstream
