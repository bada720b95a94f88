// Turns that do not fit into memory: which turns wait, which pass them, and which are refused at
// once.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/engine/restores/dense_model.h"

namespace longstream {
namespace {

// A turn that fits into memory and soon ends.
std::shared_ptr<SessionTurn> NewSmall(std::shared_ptr<Session> session) {
  SessionTurnRequest request = Generate(std::move(session), "f", 2);
  request.deadline = MonotonicTime::Now() + absl::Seconds(20);
  return MakeTurn(request);
}

uint64_t OnePage() {
  TestEngine engine("{}", 0, {}, kDense);
  return PageBytes(engine->model().backend().info(), 1);
}

// The budget has kPages pages. A long turn holds kHeld of them, and a large turn needs more than
// the rest. So the large turn must wait, and a small turn need not: it needs one page.
class EngineRoom : public testing::Test {
 protected:
  static constexpr uint64_t kPages = 46;
  static constexpr uint64_t kHeld = 40;

  explicit EngineRoom(size_t stream_buffer_bytes, size_t max_waiting_turns = 256)
      : engine_(
            "{}", kPages * OnePage(),
            {.max_waiting_turns = max_waiting_turns, .stream_buffer_bytes = stream_buffer_bytes},
            kDense),
        page_tokens_(engine_->model().backend().info().page_tokens),
        small_session_(engine_.Open()) {
    EXPECT_TRUE(engine_.Start(holder_ = TurnOf(kHeld)).ok());
  }

  // A turn of a new session that reserves so many pages.
  std::shared_ptr<SessionTurn> TurnOf(uint64_t pages) {
    SessionTurnRequest request = Generate(engine_.Open(), "s", pages * page_tokens_ - 1);
    request.deadline = MonotonicTime::Now() + absl::Seconds(120);
    return MakeTurn(request);
  }
  // Starts a turn that must wait for memory. It soon ends when it has the memory.
  std::shared_ptr<SessionTurn> StartLarge() {
    auto large = LargeTurn();
    EXPECT_TRUE(engine_.Start(large).ok());
    return large;
  }
  std::shared_ptr<SessionTurn> LargeTurn() {
    SessionTurnRequest request;
    request.kind = TurnKind::kScore;
    request.prompt = std::vector<int32_t>((kPages - kHeld + 2) * page_tokens_, 'a');
    request.deadline = MonotonicTime::Now() + absl::Seconds(120);
    return MakeTurn(request);
  }
  static bool Waits(Turn& turn) {
    return std::holds_alternative<std::monostate>(turn.stream.Next());
  }

  TestEngine engine_;
  const uint64_t page_tokens_;
  const std::shared_ptr<Session> small_session_;
  std::shared_ptr<SessionTurn> holder_;
};

// In these tests the long turn is paused and waits for its reader.
class RoomHeldByAReader : public EngineRoom {
 protected:
  explicit RoomHeldByAReader(size_t max_waiting_turns = 256) : EngineRoom(512, max_waiting_turns) {
    while (!holder_->stream.Full()) absl::SleepFor(absl::Milliseconds(1));
  }
};

// A turn that waits for memory held by a stalled reader stops no other turn, however long it waits.
TEST_F(RoomHeldByAReader, AnyNumberOfTurnsPassOneThatDoesNotFit) {
  const auto large = StartLarge();
  for (int i = 0; i < 300; ++i) {
    SessionTurnRequest request = Generate(small_session_, "f", 2);
    request.kept_tokens = 0;
    const Outcome small = RunTurn(*engine_, MakeTurn(request));
    ASSERT_TRUE(small.end.status.ok()) << i << ": " << small.end.status;
  }
  EXPECT_TRUE(Waits(*large));
  CancelAll(*engine_, {holder_});
  EXPECT_TRUE(ReadToEnd(*large).end.status.ok());
}

TEST_F(RoomHeldByAReader, ManyThatDoNotFitStopNobody) {
  std::vector<std::shared_ptr<SessionTurn>> large;
  for (int i = 0; i < 20; ++i) large.push_back(StartLarge());
  const Outcome small = RunTurn(*engine_, NewSmall(small_session_));
  EXPECT_TRUE(small.end.status.ok()) << small.end.status;
  for (const auto& turn : large) EXPECT_TRUE(Waits(*turn));
  CancelAll(*engine_, {holder_});
  for (const auto& turn : large) EXPECT_TRUE(ReadToEnd(*turn).end.status.ok());
}

// The session of the refused turn holds a page itself. With the pages that it asks for, that is
// more than the budget, so it does not help to wait.
TEST_F(RoomHeldByAReader, WhatCannotFitIsRefusedAtOnce) {
  const auto session = engine_.Open();
  ASSERT_TRUE(RunTurn(*engine_, NewSmall(session)).end.status.ok());
  SessionTurnRequest request = Generate(session, "x", kPages * page_tokens_ - 3);
  request.deadline = MonotonicTime::Now() + absl::Seconds(60);
  const Outcome large = RunTurn(*engine_, MakeTurn(request));
  EXPECT_EQ(large.end.status.code(), absl::StatusCode::kResourceExhausted) << large.end.status;
  const uint64_t page = OnePage();
  const std::string expected = " more bytes are needed; the budget is " +
                               std::to_string(kPages * page) + " bytes, of which " +
                               std::to_string((kPages - kHeld - 1) * page) + " are free";
  EXPECT_NE(large.end.status.message().find(std::to_string(kPages * page) + expected),
            std::string::npos)
      << large.end.status;
  EXPECT_TRUE(holder_->session->View().turn_running)
      << "the refused turn waited for the stalled one";
  CancelAll(*engine_, {holder_});
}

class ShortQueue : public RoomHeldByAReader {
 protected:
  ShortQueue() : RoomHeldByAReader(/*max_waiting_turns=*/2) {}
};

// A turn that arrives while others wait takes a place in the queue, although places to run are
// free.
TEST_F(ShortQueue, NoPlaceIsFreeWhileATurnWaits) {
  const auto first = StartLarge();
  const auto second = StartLarge();
  engine_->Flush();
  engine_->Flush();
  EXPECT_EQ(engine_.Start(LargeTurn()).code(), absl::StatusCode::kResourceExhausted);
  CancelAll(*engine_, {holder_});
  EXPECT_TRUE(ReadToEnd(*first).end.status.ok());
  EXPECT_TRUE(ReadToEnd(*second).end.status.ok());
}

// In these tests the long turn keeps computing, because its stream has room for all its events.
class RoomHeldByAStream : public EngineRoom {
 protected:
  RoomHeldByAStream() : EngineRoom(64 << 20) {}
};

TEST_F(RoomHeldByAStream, OnlySoManyTurnsPassOneThatWillFit) {
  const auto large = StartLarge();
  std::shared_ptr<SessionTurn> small;
  int passed = 0;
  while (true) {
    ASSERT_LT(passed, 1000) << "the large turn would starve";
    small = NewSmall(small_session_);
    ASSERT_TRUE(engine_.Start(small).ok());
    // A turn that may pass ends after a few rounds of the engine.
    for (int i = 0; i < 1000 && small_session_->View().turn_running; ++i) engine_->Flush();
    if (small_session_->View().turn_running) break;
    ++passed;
  }
  EXPECT_GT(passed, 10);
  EXPECT_TRUE(Waits(*large));
  CancelAll(*engine_, {holder_});
  EXPECT_TRUE(ReadToEnd(*large).end.status.ok());
  EXPECT_TRUE(ReadToEnd(*small).end.status.ok());
}

// The budget is half of the memory that a session of the whole context needs.
class RoomForHalfAContext : public testing::Test {
 protected:
  static constexpr uint64_t kBudget = 32 << 20;

  RoomForHalfAContext() : engine_("{}", kBudget, {.stream_buffer_bytes = 64 << 20}, kDense) {}

  TestEngine engine_;
};

// A turn without max_tokens asks for the whole context. The turn is refused with the reason that it
// needs more than the budget, and it stops no other turn.
TEST_F(RoomForHalfAContext, MoreThanTheBudgetIsRefusedBesideARunningTurn) {
  const ls_model_info& info = engine_->model().backend().info();
  ASSERT_EQ(info.context_limit * info.kv_bytes_per_token, 2 * kBudget);
  const auto stream = MakeTurn(Generate(engine_.Open(), "abc", info.context_limit / 4));
  ASSERT_TRUE(engine_.Start(stream).ok());
  SessionTurnRequest whole = Generate(engine_.Open(), "abc", 0);
  whole.deadline = MonotonicTime::Now() + absl::Seconds(60);
  const Outcome refused = RunTurn(*engine_, MakeTurn(whole));
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
// running turn has already used much of its reservation: its session can be evicted later.
TEST_F(RoomForHalfAContext, ATurnWaitsForTheEndOfAnother) {
  const ls_model_info& info = engine_->model().backend().info();
  const auto running = MakeTurn(Generate(engine_.Open(), "abc", info.context_limit / 4));
  ASSERT_TRUE(engine_.Start(running).ok());
  while (running->session->View().position < 2 * info.page_tokens) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  const auto large = MakeTurn(Generate(engine_.Open(), "abc", info.context_limit / 2 - 3));
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
