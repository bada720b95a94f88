// Turns whose caches are read from the store: slowly, never, or wrong; and turns that end
// meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "service/engine/policy/turn_demand.h"
#include "tests/service/engine/restores/restores_fixture.h"

namespace longstream {
namespace {

using testing::HasSubstr;

TEST_F(EngineRestores, GiveTheTokensOfAnUndisturbedSession) {
  Evict();
  const auto turn = Start();
  const auto fill = stored_->WaitForFill();
  EXPECT_TRUE(fill->Write(bytes()).ok());
  EXPECT_TRUE(fill->End());
  stored_->Done(absl::OkStatus());
  const Outcome outcome = ReadToEnd(*turn);
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.tokens, expected_);
  EXPECT_EQ(outcome.end.usage.restored_tokens, position_);
  EXPECT_EQ(outcome.end.usage.recomputed_tokens, 0u);
}

class SlowEngineRestores : public EngineRestores {
 protected:
  SlowEngineRestores() : EngineRestores(absl::Milliseconds(1)) {}
};

TEST_F(SlowEngineRestores, EndWithTheLimitAndTheLateResultIsDropped) {
  Evict();
  const uint64_t reserved = Reserved();
  const auto turn = Start();
  const auto fill = stored_->WaitForFill();
  EXPECT_TRUE(fill->Write(bytes().first(1000)).ok() || fill->taken());
  const Outcome outcome = ReadToEnd(*turn);
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.tokens, expected_);
  EXPECT_EQ(outcome.end.usage.restored_tokens, 0u);
  EXPECT_EQ(outcome.end.usage.recomputed_tokens, position_);
  EXPECT_THAT(outcome.end.usage.recompute_reason, HasSubstr("longer than computing"));
  EXPECT_TRUE(absl::IsCancelled(fill->Write(bytes())));
  EXPECT_FALSE(fill->End());
  stored_->Done(absl::OkStatus());
  engine_->Flush();
  Evict();
  EXPECT_EQ(Reserved(), reserved);
}

TEST_F(EngineRestores, ACancelEndsTheTurnAtOnceAndFreesWhatItHeld) {
  Evict();
  const uint64_t reserved = Reserved();
  for (const size_t written : {size_t{0}, bytes_.size() / 2, bytes_.size()}) {
    SCOPED_TRACE(written);
    const auto turn = Start();
    const auto fill = stored_->WaitForFill();
    EXPECT_TRUE(fill->Write(bytes().first(written)).ok());
    EXPECT_GT(Reserved(), reserved);
    Cancel(turn);
    EXPECT_EQ(Reserved(), reserved) << "the reader has not ended";
    EXPECT_TRUE(absl::IsCancelled(fill->Write(bytes().subspan(written))));
    stored_->Done(absl::OkStatus());
    engine_->Flush();
    EXPECT_EQ(session_->View().position, 320u);
  }
  // The reader ends before the cancel, or at the same time.
  for (const bool flushes : {false, true}) {
    const auto turn = Start();
    const auto fill = stored_->WaitForFill();
    EXPECT_TRUE(fill->Write(bytes()).ok());
    stored_->Done(absl::OkStatus());
    if (flushes) engine_->Flush();
    turn->Cancel();
    engine_->Wake();
    ReadToEnd(*turn);
    engine_->Flush();
    Evict();
    EXPECT_EQ(Reserved(), reserved);
    if (session_->View().position != 320u) return;  // the turn was faster
  }
  ExpectGoesOn();
}

TEST_F(EngineRestores, ADeadlineEndsTheTurn) {
  Evict();
  SessionTurnRequest request = Generate(session_, kSecond, 20);
  request.deadline = MonotonicTime::Now() + absl::Milliseconds(50);
  const auto turn = std::make_shared<SessionTurn>(request);
  ASSERT_TRUE(engine_.Start(turn).ok());
  EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kDeadlineExceeded);
  engine_->Flush();
  // On a busy machine the deadline may pass before the engine wants the snapshot.
  const auto fill = stored_->TakeFill();
  EXPECT_TRUE(fill == nullptr || fill->taken());
  ExpectGoesOn();
}

TEST_F(EngineRestores, ACloseFreesTheMemoryBeforeItAnswers) {
  Evict();
  const uint64_t reserved = Reserved();
  const auto turn = Start();
  const auto fill = stored_->WaitForFill();
  ASSERT_TRUE(session_->Close());
  absl::Notification closed;
  uint64_t left = 0;
  engine_->Close(session_, [&](uint64_t) {
    left = Reserved();
    closed.Notify();
  });
  closed.WaitForNotification();
  EXPECT_EQ(left, reserved);
  EXPECT_TRUE(fill->taken());
  EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kCancelled);
}

TEST_F(EngineRestores, TheEndOfTheEngineTakesTheMemoryBack) {
  std::shared_ptr<CacheFill> fill;
  {
    TestEngine engine("{}", kBudget, Options(absl::Hours(1)), kDense);
    TurnLease lease = engine.NewSession(SessionId{8, 8});
    const std::shared_ptr<Session> session = lease.session();
    session->SetStoredCaches(stored_);
    engine->Open(std::move(lease), [](const absl::Status&) {});
    engine->Flush();
    ASSERT_TRUE(RunTurn(*engine, NewTurn(session, kFirst)).end.status.ok());
    engine->SetBudget(LeastBudget(), [](const absl::Status&) {});
    engine->SetBudget(kBudget, [](const absl::Status&) {});
    ASSERT_TRUE(engine.Start(NewTurn(session, kSecond)).ok());
    fill = stored_->WaitForFill();
  }
  EXPECT_TRUE(fill->taken());
}

// The snapshot is cut short, but its reader has not noticed.
TEST_F(EngineRestores, ASnapshotThatIsNoSequenceIsRejected) {
  Evict();
  const auto turn = Start();
  const auto fill = stored_->WaitForFill();
  EXPECT_TRUE(fill->Write(bytes().first(bytes_.size() - 1)).ok());
  stored_->Done(absl::OkStatus());
  const Outcome outcome = ReadToEnd(*turn);
  EXPECT_EQ(outcome.tokens, expected_);
  EXPECT_EQ(outcome.end.usage.recomputed_tokens, position_);
  EXPECT_EQ(stored_->num_rejected(), 1);
}

TEST_F(EngineRestoresWithoutRoom, WaitAgainAndThenGoOn) {
  for (const bool is_read : {true, false}) {
    SCOPED_TRACE(is_read);
    const auto turn = StartAndLowerTheBudget();
    stored_->Done(is_read ? absl::OkStatus() : absl::UnavailableError("the disk failed"));
    ASSERT_NO_FATAL_FAILURE(WaitUntilItWaits());
    EndHolder();
    const Outcome outcome = ReadToEnd(*turn);
    EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    EXPECT_EQ(outcome.tokens, expected_);
    EXPECT_EQ(outcome.end.usage.restored_tokens, is_read ? position_ : 0);
    EXPECT_EQ(outcome.end.usage.recomputed_tokens, is_read ? 0 : position_);
    EXPECT_EQ(stored_->num_fills(), is_read ? 1 : 2) << "a failed snapshot is not read again";
    if (!is_read) return;
    // Back to the end of the first turn.
    SetBudget(kBudget);
    absl::StatusOr<TurnLease> lease = TurnLease::Take(session_);
    ASSERT_TRUE(lease.ok());
    SessionState state = lease->state();
    state.tokens.resize(320);
    state.generated.resize(320);
    state.feed.Truncate(319);
    absl::Notification rewound;
    engine_->Rewind(*std::move(lease), state, "", [&](const absl::Status&) { rewound.Notify(); });
    rewound.WaitForNotification();
  }
}

TEST_F(EngineRestoresWithoutRoom, CanBeCancelledWhileTheyWait) {
  const auto turn = StartAndLowerTheBudget();
  stored_->Done(absl::OkStatus());
  ASSERT_NO_FATAL_FAILURE(WaitUntilItWaits());
  Cancel(turn);
  EXPECT_EQ(session_->View().position, 320u);
  EndHolder();
  SetBudget(kBudget);
  ExpectGoesOn();
}

TEST_F(EngineRestoresWithoutRoom, AreRefusedIfNoMemoryCanCome) {
  Evict();
  const auto turn = Start();
  fill_ = stored_->WaitForFill();
  SetBudget(LeastBudget());
  stored_->Done(absl::UnavailableError("the disk failed"));
  const absl::Status status = ReadToEnd(*turn).end.status;
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the budget is"));
  EXPECT_EQ(session_->View().position, 320u);
  SetBudget(kBudget);
  ExpectGoesOn();
}

TEST_F(EngineRestoresWithCaches, TakeTheirPlace) {
  const auto turn = Start();
  EXPECT_TRUE(stored_->WaitForFill()->Write(bytes()).ok());
  stored_->Done(absl::OkStatus());
  const Outcome outcome = ReadToEnd(*turn);
  EXPECT_EQ(outcome.tokens, expected_);
  EXPECT_EQ(outcome.end.usage.restored_tokens, position_);
  EXPECT_EQ(outcome.end.usage.recomputed_tokens, 0u);
}

TEST_F(EngineRestoresWithCaches, LeaveThemWhenTheSnapshotCannotBeRead) {
  const auto turn = Start();
  stored_->WaitForFill();
  stored_->Done(absl::DataLossError("damaged"));
  ExpectComputesTheRest(ReadToEnd(*turn));
}

TEST_F(EngineRestoresWithCaches, LeaveThemWhenThereIsNoRoomForTheSnapshot) {
  // The fork shares the pages of the session, so giving them up would free nothing.
  ASSERT_TRUE(Fork(*engine_, session_, engine_.NewSession(SessionId{9, 9})).ok());
  const uint64_t page = PageBytes(info(), 1);
  const uint64_t more = PageBytes(info(), position_ + 100) - PageBytes(info(), 319);
  SetBudget(Reserved() + more + page);
  ExpectComputesTheRest(ReadToEnd(*Start()));
  EXPECT_EQ(stored_->num_fills(), 0);
}

TEST_F(EngineRestoresWithCaches, MakeRoomForTheSnapshotIfNothingElseDoes) {
  const uint64_t end = TurnDemand::Held(info(), position_ + 100);
  SetBudget(end);
  const auto turn = Start();
  EXPECT_TRUE(stored_->WaitForFill()->Write(bytes()).ok());
  stored_->Done(absl::OkStatus());
  const Outcome outcome = ReadToEnd(*turn);
  EXPECT_EQ(outcome.tokens, expected_);
  EXPECT_EQ(outcome.end.usage.restored_tokens, position_);
}

}  // namespace
}  // namespace longstream
