// Idle sessions lose their caches when memory is short, and their next turns compute them again.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/engine/restores/dense_model.h"

namespace longstream {
namespace {

const TestModel kHypenet{LONGSTREAM_BINARY_DIR "/plugins/hypenet.cpu.so",
                         LONGSTREAM_SOURCE_DIR "/models/demo/hypenet"};

// The bytes of a session that holds, or has reserved, `tokens` tokens.
uint64_t BytesFor(const TestModel& model, uint64_t tokens) {
  TestEngine engine("{}", 0, {}, model);
  return TurnDemand::Held(engine->model().backend().info(), tokens);
}

bool HasCaches(const std::shared_ptr<Session>& session) {
  const SessionBytes bytes = session->View().bytes;
  return bytes.kv + bytes.window + bytes.state > 0;
}

void SetBudget(TestEngine& engine, uint64_t bytes) {
  absl::Notification done;
  engine->SetBudget(bytes, [&done](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    done.Notify();
  });
  done.WaitForNotification();
}

// Lowers the budget so far that a turn of another session needs all of it, then raises it again.
void EvictAll(TestEngine& engine) {
  const uint64_t budget = engine->model().backend().memory().budget;
  SetBudget(engine, TurnDemand::Held(engine->model().backend().info(), 1));
  EXPECT_TRUE(RunTurn(*engine, MakeTurn(Generate(engine.Open(), "e", 1))).end.status.ok());
  SetBudget(engine, budget);
}

TEST(EngineEviction, OpensEvictTheLeastRecentlyUsed) {
  TestEngine engine;
  const uint64_t state = engine->model().backend().info().state_bytes_per_sequence;
  SetBudget(engine, 4 * state);
  std::vector<std::shared_ptr<Session>> sessions;
  for (int i = 0; i < 10; ++i) {
    sessions.push_back(engine.Open());
    absl::SleepFor(absl::Milliseconds(1));
  }
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(HasCaches(sessions[i]), i >= 6) << i;
  EXPECT_EQ(engine.model().EvictionsCounted("open"), 6);
  // A session that was evicted before it had tokens has nothing to compute again.
  const Outcome outcome =
      RunTurn(*engine, std::make_shared<SessionTurn>(Generate(sessions[0], "a", 2)));
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.end.usage.recomputed_tokens, 0u);
  EXPECT_EQ(engine.model().EvictionsCounted("turn"), 2);
  SetBudget(engine, 2 * state);  // three sessions have caches
  EXPECT_EQ(engine.model().EvictionsCounted("budget"), 1);
}

TEST(EngineEviction, ATurnComputesEvictedCachesAgainAndReportsIt) {
  TestEngine undisturbed("{}", 0, {}, kHypenet);
  TestEngine engine("{}", 64 << 20, {}, kHypenet);
  const auto same = undisturbed.Open();
  const auto session = engine.Open();
  RunTurn(*undisturbed, MakeTurn(Generate(same, std::string(200, 'a'), 30)));
  RunTurn(*engine, MakeTurn(Generate(session, std::string(200, 'a'), 30)));
  EvictAll(engine);
  ASSERT_FALSE(HasCaches(session));
  EXPECT_EQ(session->View().position, 230u);
  SessionTurnRequest request = Generate(same, "and then", 20);
  request.log_probs = true;
  const Outcome expected = RunTurn(*undisturbed, MakeTurn(request));
  request.session = session;
  const Outcome found = RunTurn(*engine, MakeTurn(request));
  EXPECT_TRUE(found.end.status.ok()) << found.end.status;
  EXPECT_EQ(found.tokens, expected.tokens);
  ASSERT_EQ(found.log_probs.size(), expected.log_probs.size());
  for (size_t i = 0; i < found.log_probs.size(); ++i) {
    EXPECT_EQ(found.log_probs[i].log_prob, expected.log_probs[i].log_prob) << i;
  }
  EXPECT_EQ(found.end.usage.reused_tokens, 0u);
  EXPECT_EQ(found.end.usage.recomputed_tokens, 229u);
  EXPECT_NE(found.end.usage.recompute_reason.find("evicted"), std::string::npos);
  EXPECT_EQ(expected.end.usage.recomputed_tokens, 0u);
  EXPECT_TRUE(HasCaches(session));
  const std::vector<FeedRun> runs{{200, false}, {229, true}, {238, false}, {257, true}};
  EXPECT_EQ(StateOf(session).feed.runs(), runs);
  EXPECT_EQ(StateOf(same).feed.runs(), runs);
}

TEST(EngineEviction, AFastSessionReadsItsHistoryAsOnePrefill) {
  TestEngine engine("{}", 64 << 20, {}, kHypenet);
  const auto session = engine.Open();
  {
    absl::StatusOr<TurnLease> lease = TurnLease::Take(session);
    ASSERT_TRUE(lease.ok());
    lease->state().recompute = Recompute::kFast;
  }
  RunTurn(*engine, MakeTurn(Generate(session, std::string(100, 'a'), 30)));
  EvictAll(engine);
  ASSERT_FALSE(HasCaches(session));
  const Outcome outcome = RunTurn(*engine, MakeTurn(Generate(session, "b", 2)));
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.end.usage.recomputed_tokens, 129u);
  EXPECT_EQ(StateOf(session).feed.runs(),
            (std::vector<FeedRun>{{129, false}, {131, false}, {132, true}}));
}

// A turn that is cancelled while it computes caches again keeps what it has computed.
TEST(EngineEviction, ACancelledReplayIsNotLost) {
  TestEngine undisturbed("{}", 0, {}, kHypenet);
  TestEngine engine("{}", 64 << 20, {.max_steps_in_flight = 1}, kHypenet);
  const auto same = undisturbed.Open();
  const auto session = engine.Open();
  RunTurn(*undisturbed, MakeTurn(Generate(same, "abc", 200)));
  RunTurn(*engine, MakeTurn(Generate(session, "abc", 200)));
  EvictAll(engine);
  ASSERT_FALSE(HasCaches(session));
  const auto cancelled = MakeTurn(Generate(session, "never", 50));
  ASSERT_TRUE(engine.Start(cancelled).ok());
  while (!HasCaches(session)) absl::SleepFor(absl::Microseconds(50));
  cancelled->Cancel();
  engine->Wake();
  EXPECT_TRUE(absl::IsCancelled(ReadToEnd(*cancelled).end.status));
  EXPECT_EQ(session->View().position, 203u);
  const Outcome found = RunTurn(*engine, MakeTurn(Generate(session, "go on", 20)));
  EXPECT_EQ(found.tokens, RunTurn(*undisturbed, MakeTurn(Generate(same, "go on", 20))).tokens);
  EXPECT_EQ(found.end.usage.reused_tokens + found.end.usage.recomputed_tokens, 202u);
}

TEST(EngineEviction, AForkOfAnEvictedSessionHasItsTokens) {
  TestEngine engine("{}", 64 << 20, {}, kDense);
  const auto session = engine.Open();
  RunTurn(*engine, MakeTurn(Generate(session, "abc", 40)));
  EvictAll(engine);
  ASSERT_FALSE(HasCaches(session));
  TurnLease lease = engine.NewSession(SessionId{7, 7});
  const std::shared_ptr<Session> fork = lease.session();
  ASSERT_TRUE(Fork(*engine, session, std::move(lease)).ok());
  EXPECT_FALSE(HasCaches(fork));
  EXPECT_EQ(fork->View().position, 43u);
  const Outcome of_fork = RunTurn(*engine, MakeTurn(Generate(fork, "x", 20)));
  const Outcome of_source = RunTurn(*engine, MakeTurn(Generate(session, "x", 20)));
  EXPECT_TRUE(of_fork.end.status.ok()) << of_fork.end.status;
  EXPECT_EQ(of_fork.tokens, of_source.tokens);
  EXPECT_EQ(of_fork.end.usage.recomputed_tokens, 42u);
}

// Sessions of admitted turns are never evicted. If nothing else holds memory, an open is refused
// and the error names the bytes; a turn waits.
TEST(EngineEviction, RunningTurnsKeepTheirCaches) {
  TestEngine engine("{}", 0, {.stream_buffer_bytes = 512});
  const uint64_t state = engine->model().backend().info().state_bytes_per_sequence;
  const auto running = MakeTurn(Generate(engine.Open(), "s", 60000));
  ASSERT_TRUE(engine.Start(running).ok());
  while (!running->stream.Full()) absl::SleepFor(absl::Milliseconds(1));
  SetBudget(engine, 3 * state);  // the turn holds its state and a rollback copy
  const auto idle = engine.Open();
  const auto next = engine.Open();
  EXPECT_FALSE(HasCaches(idle));
  const auto waiting = MakeTurn(Generate(next, "w", 5));
  ASSERT_TRUE(engine.Start(waiting).ok());
  engine->Flush();
  engine->Flush();
  EXPECT_TRUE(std::holds_alternative<std::monostate>(waiting->stream.Next()));
  SetBudget(engine, 2 * state);
  const absl::StatusOr<std::shared_ptr<Session>> refused = engine.TryOpen();
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_NE(refused.status().message().find(std::to_string(state)), std::string::npos)
      << refused.status();
  EXPECT_TRUE(HasCaches(running->session));
  running->Cancel();
  engine->Wake();
  ReadToEnd(*running);
  EXPECT_TRUE(ReadToEnd(*waiting).end.status.ok());
  EXPECT_FALSE(HasCaches(running->session)) << "the waiting turn needed the memory";
}

// Caches that were just computed again stay for a while, and a turn that needs them waits.
TEST(EngineEviction, RestoredCachesAreSafeForAWhile) {
  const absl::Duration safe = absl::Milliseconds(700);
  TestEngine engine("{}", BytesFor(kDense, 200), {.restored_safe = safe}, kDense);
  const auto first = engine.Open();
  const auto second = engine.Open();
  RunTurn(*engine, MakeTurn(Generate(first, "abc", 100)));
  RunTurn(*engine, MakeTurn(Generate(second, "abc", 180)));
  EXPECT_FALSE(HasCaches(first));
  RunTurn(*engine, MakeTurn(Generate(first, "d", 60)));
  EXPECT_FALSE(HasCaches(second));
  const Outcome waited = RunTurn(*engine, MakeTurn(Generate(second, "d", 10)));
  EXPECT_TRUE(waited.end.status.ok()) << waited.end.status;
  EXPECT_GT(waited.end.usage.queue_time, safe / 2);
  EXPECT_FALSE(HasCaches(first));
}

// Two forks share nearly all of their pages. To evict one of them frees little, so both are kept
// and another session goes.
TEST(EngineEviction, SharedPagesCountOnlyIfTheyBecomeFree) {
  TestEngine engine("{}", BytesFor(kDense, 1000), {}, kDense);
  const auto source = engine.Open();
  RunTurn(*engine, MakeTurn(Generate(source, std::string(640, 'a'), 1)));
  TurnLease lease = engine.NewSession(SessionId{7, 7});
  const std::shared_ptr<Session> fork = lease.session();
  ASSERT_TRUE(Fork(*engine, source, std::move(lease)).ok());
  const auto other = engine.Open();
  RunTurn(*engine, MakeTurn(Generate(other, std::string(192, 'b'), 1)));
  const auto next = engine.Open();
  EXPECT_TRUE(RunTurn(*engine, MakeTurn(Generate(next, std::string(256, 'c'), 1))).end.status.ok());
  EXPECT_TRUE(HasCaches(source));
  EXPECT_TRUE(HasCaches(fork));
  EXPECT_FALSE(HasCaches(other));
  // A turn that needs all memory evicts the forks too.
  EXPECT_TRUE(
      RunTurn(*engine, MakeTurn(Generate(other, std::string(700, 'd'), 1))).end.status.ok());
  EXPECT_FALSE(HasCaches(source));
  EXPECT_FALSE(HasCaches(fork));
}

}  // namespace
}  // namespace longstream
