// Turns that do not fit into memory: which turns wait, which pass them, and which are refused at
// once.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

std::shared_ptr<SessionTurn> NewTurn(SessionTurnRequest request) {
  return std::make_shared<SessionTurn>(std::move(request));
}

// A turn that fits into memory and soon ends.
std::shared_ptr<SessionTurn> NewSmall(std::shared_ptr<Session> session) {
  SessionTurnRequest request = Generate(std::move(session), "f", 2);
  request.deadline = MonotonicTime::Now() + absl::Seconds(20);
  return NewTurn(request);
}

std::shared_ptr<SessionTurn> NewScore() {
  SessionTurnRequest request;
  request.kind = TurnKind::kScore;
  request.prompt = Bytes("scored");
  request.deadline = MonotonicTime::Now() + absl::Seconds(60);
  return NewTurn(request);
}

void CancelAll(Engine& engine, const std::vector<std::shared_ptr<SessionTurn>>& turns) {
  for (const auto& turn : turns) turn->Cancel();
  engine.Wake();
  for (const auto& turn : turns) ReadToEnd(*turn);
}

uint64_t StateBytes() {
  TestEngine engine;
  return engine->model().backend().info().state_bytes_per_sequence;
}

// A scored text needs memory for caches and for a rollback copy. A turn of an open session needs
// memory only for a rollback copy. There is room for three sessions and two rollback copies. A long
// turn takes one of the rollback copies. Then a score must wait, and a small turn need not.
class EngineRoom : public testing::Test {
 protected:
  EngineRoom(const std::string& options_json, size_t stream_buffer_bytes)
      : engine_(options_json, 5 * StateBytes(), {.stream_buffer_bytes = stream_buffer_bytes}) {
    for (int i = 0; i < 3; ++i) sessions_.push_back(engine_.Open());
    EXPECT_TRUE(engine_.Start(holder_ = NewTurn(Generate(sessions_[0], "s", 60000))).ok());
  }

  // Starts a large turn, which must wait for memory.
  std::shared_ptr<SessionTurn> StartLarge() {
    auto large = NewScore();
    EXPECT_TRUE(engine_.Start(large).ok());
    return large;
  }
  static bool Waits(Turn& turn) {
    return std::holds_alternative<std::monostate>(turn.stream.Next());
  }

  TestEngine engine_;
  std::vector<std::shared_ptr<Session>> sessions_;
  std::shared_ptr<SessionTurn> holder_;
};

// In these tests the long turn is paused and waits for its reader.
class RoomHeldByAReader : public EngineRoom {
 protected:
  RoomHeldByAReader() : EngineRoom("{}", 512) {
    while (!holder_->stream.Full()) absl::SleepFor(absl::Milliseconds(1));
  }
};

// A turn that waits for memory held by a stalled reader stops no other turn, however long it waits.
TEST_F(RoomHeldByAReader, AnyNumberOfTurnsPassOneThatDoesNotFit) {
  const auto large = StartLarge();
  for (int i = 0; i < 300; ++i) {
    const Outcome small = RunTurn(*engine_, NewSmall(sessions_[1]));
    ASSERT_TRUE(small.end.status.ok()) << i << ": " << small.end.status;
  }
  EXPECT_TRUE(Waits(*large));
  CancelAll(*engine_, {holder_});
  EXPECT_TRUE(ReadToEnd(*large).end.status.ok());
}

TEST_F(RoomHeldByAReader, ManyThatDoNotFitStopNobody) {
  std::vector<std::shared_ptr<SessionTurn>> large;
  for (int i = 0; i < 20; ++i) large.push_back(StartLarge());
  const Outcome small = RunTurn(*engine_, NewSmall(sessions_[1]));
  EXPECT_TRUE(small.end.status.ok()) << small.end.status;
  for (const auto& turn : large) EXPECT_TRUE(Waits(*turn));
  CancelAll(*engine_, {holder_});
  for (const auto& turn : large) EXPECT_TRUE(ReadToEnd(*turn).end.status.ok());
}

TEST_F(RoomHeldByAReader, WhatNoTurnCanGiveBackIsRefusedAtOnce) {
  engine_.Open();  // with a fourth session a score would not fit even if all turns ended
  const Outcome large = ReadToEnd(*StartLarge());
  EXPECT_EQ(large.end.status.code(), absl::StatusCode::kResourceExhausted) << large.end.status;
  const uint64_t state = StateBytes();
  const std::string expected =
      "the turn asks for room up to position 6; " + std::to_string(2 * state) +
      " more bytes are needed; the budget is " + std::to_string(5 * state) +
      " bytes, of which 0 are free; running turns give back " + std::to_string(state) +
      " at most, and sessions keep " + std::to_string(4 * state);
  EXPECT_EQ(large.end.status.message(), expected);
  EXPECT_TRUE(holder_->session->View().turn_running)
      << "the refused turn waited for the stalled one";
  CancelAll(*engine_, {holder_});
}

// In these tests the long turn keeps computing, because its stream has room for all its events.
class RoomHeldByAStream : public EngineRoom {
 protected:
  RoomHeldByAStream() : EngineRoom(R"({"step_delay_us": 200})", 64 << 20) {}
};

TEST_F(RoomHeldByAStream, OnlySoManyTurnsPassOneThatWillFit) {
  const auto large = StartLarge();
  std::shared_ptr<SessionTurn> small;
  int passed = 0;
  while (true) {
    ASSERT_LT(passed, 1000) << "the large turn would starve";
    small = NewSmall(sessions_[1]);
    ASSERT_TRUE(engine_.Start(small).ok());
    // A turn that may pass ends after a few rounds of the engine.
    for (int i = 0; i < 1000 && sessions_[1]->View().turn_running; ++i) engine_->Flush();
    if (sessions_[1]->View().turn_running) break;
    ++passed;
  }
  EXPECT_GT(passed, 10);
  EXPECT_TRUE(Waits(*large));
  CancelAll(*engine_, {holder_});
  EXPECT_TRUE(ReadToEnd(*large).end.status.ok());
  EXPECT_TRUE(ReadToEnd(*small).end.status.ok());
}

// A turn that arrives while others wait takes a place in the queue, although places to run are
// free.
TEST(EngineRoomQueue, NoPlaceIsFreeWhileATurnWaits) {
  TestEngine engine("{}", 5 * StateBytes(), {.max_waiting_turns = 2, .stream_buffer_bytes = 512});
  std::vector<std::shared_ptr<Session>> sessions;
  for (int i = 0; i < 3; ++i) sessions.push_back(engine.Open());
  const auto holder = NewTurn(Generate(sessions[0], "s", 60000));
  ASSERT_TRUE(engine.Start(holder).ok());
  while (!holder->stream.Full()) absl::SleepFor(absl::Milliseconds(1));
  const auto first = NewScore();
  const auto second = NewScore();
  ASSERT_TRUE(engine.Start(first).ok());
  ASSERT_TRUE(engine.Start(second).ok());
  engine->Flush();
  engine->Flush();
  EXPECT_EQ(engine.Start(NewScore()).code(), absl::StatusCode::kResourceExhausted);
  CancelAll(*engine, {holder});
  EXPECT_TRUE(ReadToEnd(*first).end.status.ok());
  EXPECT_TRUE(ReadToEnd(*second).end.status.ok());
}

// The budget is half of the memory that a session of the whole context needs.
class RoomForHalfAContext : public testing::Test {
 protected:
  static constexpr uint64_t kBudget = 32 << 20;

  RoomForHalfAContext()
      : engine_("{}", kBudget, {.stream_buffer_bytes = 64 << 20},
                {LONGSTREAM_BINARY_DIR "/plugins/dense.cpu.so",
                 LONGSTREAM_SOURCE_DIR "/models/demo/dense"}) {}

  TestEngine engine_;
};

// A turn without max_tokens asks for the whole context. The turn is refused with the reason that it
// needs more than the budget, and it stops no other turn.
TEST_F(RoomForHalfAContext, MoreThanTheBudgetIsRefusedBesideARunningTurn) {
  const ls_model_info& info = engine_->model().backend().info();
  ASSERT_EQ(info.context_limit * info.kv_bytes_per_token, 2 * kBudget);
  const auto stream = NewTurn(Generate(engine_.Open(), "abc", info.context_limit / 4));
  ASSERT_TRUE(engine_.Start(stream).ok());
  SessionTurnRequest whole = Generate(engine_.Open(), "abc", 0);
  whole.deadline = MonotonicTime::Now() + absl::Seconds(60);
  const Outcome refused = RunTurn(*engine_, NewTurn(whole));
  EXPECT_EQ(refused.end.status.code(), absl::StatusCode::kResourceExhausted) << refused.end.status;
  const std::string message(refused.end.status.message());
  EXPECT_NE(message.find("max_tokens 0 (the whole context)"), std::string::npos) << message;
  EXPECT_NE(message.find(std::to_string(2 * kBudget) + " more bytes are needed; the budget is " +
                         std::to_string(kBudget)),
            std::string::npos)
      << message;
  EXPECT_TRUE(stream->session->View().turn_running)
      << "the refused turn waited for the running one";
  CancelAll(*engine_, {stream});
}

// A large turn waits while a running turn holds memory that the large turn needs, even if the
// running turn has already used much of its reservation: a rollback gives that memory back, too.
TEST_F(RoomForHalfAContext, ATurnWaitsForWhatARollbackGivesBack) {
  const ls_model_info& info = engine_->model().backend().info();
  const auto running = NewTurn(Generate(engine_.Open(), "abc", info.context_limit / 4));
  ASSERT_TRUE(engine_.Start(running).ok());
  while (running->session->View().position < 2 * info.page_tokens) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  const auto large = NewTurn(Generate(engine_.Open(), "abc", info.context_limit / 2 - 3));
  ASSERT_TRUE(engine_.Start(large).ok());
  engine_->Flush();
  engine_->Flush();
  const TurnStream::Item item = large->stream.Next();
  EXPECT_TRUE(std::holds_alternative<std::monostate>(item)) << "it should wait";
  CancelAll(*engine_, {running});
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  while (large->session->View().position == 0 && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_GT(large->session->View().position, 0u) << "it should run";
  CancelAll(*engine_, {large});
}

}  // namespace
}  // namespace longstream
