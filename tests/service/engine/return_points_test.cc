// Return points: a session returns to the end of an earlier turn without computing it again.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

class ReturnPoints : public testing::Test {
 protected:
  explicit ReturnPoints(uint64_t cache_bytes = 0, uint64_t rollback_bytes = uint64_t{1} << 20)
      : engine_("{}", cache_bytes, Options(rollback_bytes)) {}

  static Engine::Options Options(uint64_t rollback_bytes) {
    Engine::Options options;
    options.rollback_bytes = rollback_bytes;
    return options;
  }

  Outcome Run(const std::shared_ptr<Session>& session, const std::string& text) {
    Outcome outcome = RunTurn(*engine_, std::make_shared<SessionTurn>(Generate(session, text, 10)));
    EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    engine_->Flush();  // the return point is made after the end has been told
    engine_->Flush();
    return outcome;
  }

  absl::Status Rewind(const std::shared_ptr<Session>& session, const SessionState& state) {
    absl::StatusOr<TurnLease> lease = TurnLease::Take(session);
    if (!lease.ok()) return lease.status();
    absl::Notification done;
    absl::Status result;
    engine_->Rewind(*std::move(lease), state, "rewound", [&](const absl::Status& status) {
      result = status;
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  std::shared_ptr<Session> ForkAt(const std::shared_ptr<Session>& source,
                                  const SessionState& state) {
    TurnLease target = engine_.NewSession(SessionId{9, next_fork_++});
    std::shared_ptr<Session> fork = target.session();
    absl::StatusOr<TurnLease> lease = TurnLease::Take(source);
    EXPECT_TRUE(lease.ok()) << lease.status();
    absl::Notification done;
    engine_->ForkAt(*std::move(lease), std::move(target), state, "forked",
                    [&](const absl::Status& status) {
                      EXPECT_TRUE(status.ok()) << status;
                      done.Notify();
                    });
    done.WaitForNotification();
    return fork;
  }

  void Close(const std::shared_ptr<Session>& session) {
    session->Close();
    absl::Notification closed;
    engine_->Close(session, [&](uint64_t) { closed.Notify(); });
    closed.WaitForNotification();
  }

  uint64_t States() { return engine_->model().backend().memory().states; }

  TestEngine engine_;
  uint64_t next_fork_ = 1;
};

TEST_F(ReturnPoints, MakeARewindFree) {
  const auto session = engine_.Open();
  std::vector<SessionState> states;
  std::vector<Outcome> outcomes;
  for (int i = 0; i < 4; ++i) {
    outcomes.push_back(Run(session, "hello"));
    states.push_back(StateOf(session));
  }
  for (const size_t place : {2u, 1u, 0u}) {
    SCOPED_TRACE(place);
    ASSERT_TRUE(Rewind(session, states[place]).ok());
    EXPECT_EQ(session->View().position, states[place].tokens.size());
    EXPECT_EQ(session->View().recompute_tokens, 0u);
    const Outcome again = Run(session, "hello");
    EXPECT_EQ(again.tokens, outcomes[place + 1].tokens);
    EXPECT_EQ(again.end.usage.recomputed_tokens, 0u);
  }
}

TEST_F(ReturnPoints, MakeAForkFree) {
  const auto session = engine_.Open();
  Run(session, "hello");
  const SessionState first = StateOf(session);
  const Outcome second = Run(session, "hello");
  const Outcome third = Run(session, "hello");
  const auto fork = ForkAt(session, first);
  EXPECT_EQ(fork->View().recompute_tokens, 0u);
  EXPECT_EQ(Run(fork, "hello").tokens, second.tokens);
  EXPECT_EQ(Run(fork, "hello").tokens, third.tokens);
  EXPECT_EQ(session->View().recompute_tokens, 0u) << "the source has its caches";
  Close(fork);
  Close(session);
  EXPECT_EQ(States(), 0u) << "a closed session leaves no return points";
}

// From the nearest return point on the rest is computed again.
TEST_F(ReturnPoints, AreUsedForPlacesBehindThem) {
  const auto session = engine_.Open();
  Run(session, "hello");
  const uint64_t end = session->View().position;
  Run(session, "hello");
  SessionState within = StateOf(session);
  const auto control = engine_.Open();
  within.tokens.resize(end + 9);
  within.generated.resize(end + 9);
  within.feed.GoBack(end + 8, 16);
  ASSERT_TRUE(Rewind(session, within).ok());
  EXPECT_EQ(session->View().recompute_tokens, end + 8 - (end - 1));
  const Outcome again = Run(session, "more");
  EXPECT_EQ(again.end.usage.recomputed_tokens, end + 8 - (end - 1));
  EXPECT_EQ(again.end.usage.recompute_reason, "rewound");
  // Without return points the same tokens come.
  ASSERT_TRUE(Rewind(control, within).ok());
  EXPECT_EQ(Run(control, "more").tokens, again.tokens);
}

TEST_F(ReturnPoints, OfALongSessionAreFew) {
  const auto session = engine_.Open();
  for (int i = 0; i < 60; ++i) Run(session, "hello");
  const std::vector<ReturnPoint>& points = session->caches().return_points;
  EXPECT_GE(points.size(), 6u);
  EXPECT_LE(points.size(), 12u);
  const uint64_t end = points.back().position;
  for (size_t i = 1; i + 4 < points.size(); ++i) {
    EXPECT_GE(end - points[i - 1].position, 2 * (end - points[i + 1].position));
  }
}

class ScarceReturnPoints : public ReturnPoints {
 protected:
  // Memory for three sequences and the rollback point of one.
  ScarceReturnPoints() : ReturnPoints(kBytes * 4) {}
  static constexpr uint64_t kBytes = 64;
};

TEST_F(ScarceReturnPoints, AreFreedBeforeCaches) {
  const uint64_t state = [&] {
    const auto session = engine_.Open();
    const uint64_t bytes = States();
    Close(session);
    return bytes;
  }();
  ASSERT_GT(state, 0u);
  const auto session = engine_.Open();
  for (int i = 0; i < 20; ++i) Run(session, "hello");
  // Sessions take the memory of the return points, and the first one keeps its caches.
  std::vector<std::shared_ptr<Session>> others;
  const uint64_t budget = engine_->model().backend().memory().budget;
  for (uint64_t i = 2; i * state <= budget; ++i) others.push_back(engine_.Open());
  EXPECT_EQ(engine_.model().EvictionsCounted("open"), 0.0);
  EXPECT_TRUE(session->caches().return_points.empty());
  EXPECT_GT(session->View().bytes.state, 0u);
}

class NoReturnPoints : public ReturnPoints {
 protected:
  NoReturnPoints() : ReturnPoints(0, /*rollback_bytes=*/0) {}
};

TEST_F(NoReturnPoints, AreKeptWithoutABudget) {
  const auto session = engine_.Open();
  const uint64_t one = States();
  Run(session, "hello");
  Run(session, "hello");
  EXPECT_EQ(States(), one);
}

}  // namespace
}  // namespace longstream
