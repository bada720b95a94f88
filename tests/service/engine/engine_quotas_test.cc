// The caches of a tenant's sessions in its quota of bytes. Sessions of these tests have no host's
// part.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/errors/retry_after.h"
#include "service/security/tenants/tenants.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

// The minimal model has a state of this size, and a second one while a turn runs.
constexpr uint64_t kState = 32;

std::shared_ptr<SessionTurn> NewHello(std::shared_ptr<Session> session, uint64_t max_tokens = 5) {
  return std::make_shared<SessionTurn>(Generate(std::move(session), "hello", max_tokens));
}

class EngineQuotasTest : public testing::Test {
 protected:
  explicit EngineQuotasTest(uint64_t session_bytes = 4 * kState)
      : tenants_({{.name = "a", .quotas = {.session_bytes = session_bytes}},
                  {.name = "b", .quotas = {}}},
                 std::make_shared<HostMemory>(0)),
        engine_("{}", 0, WithTenants()) {
    EXPECT_EQ(engine_->model().backend().info().state_bytes_per_sequence, kState);
  }
  Engine::Options WithTenants() const {
    Engine::Options options;
    options.tenants = tenants_.all();
    options.restored_safe = absl::ZeroDuration();
    return options;
  }

  const std::shared_ptr<Tenant>& a() const { return tenants_.all()[0]; }
  const std::shared_ptr<Tenant>& b() const { return tenants_.all()[1]; }
  uint64_t CacheBytes() const { return a()->use().cache_bytes; }
  static bool HasCaches(const std::shared_ptr<Session>& session) {
    return session->View().bytes.state > 0;
  }
  void Close(const std::shared_ptr<Session>& session) {
    ASSERT_TRUE(session->Close());
    engine_->Close(session, [](uint64_t) {});
    engine_->Flush();
  }

  const Tenants tenants_;
  TestEngine engine_;
};

TEST_F(EngineQuotasTest, IdleSessionsOfTheTenantAreEvicted) {
  const std::shared_ptr<Session> other = engine_.Open(b());
  std::vector<std::shared_ptr<Session>> sessions;
  for (int i = 0; i < 10; ++i) {
    sessions.push_back(engine_.Open(a()));
    const Outcome outcome = RunTurn(*engine_, NewHello(sessions.back()));
    ASSERT_TRUE(outcome.end.status.ok()) << i << ": " << outcome.end.status;
    ASSERT_LE(CacheBytes(), 4 * kState);
  }
  const auto with_caches = std::count_if(sessions.begin(), sessions.end(), HasCaches);
  EXPECT_EQ(static_cast<uint64_t>(with_caches) * kState, CacheBytes());
  EXPECT_GE(with_caches, 3);
  EXPECT_FALSE(HasCaches(sessions[0])) << "it was used least recently";
  EXPECT_TRUE(HasCaches(other)) << "another tenant's sessions stay";
  EXPECT_EQ(engine_.model().EvictionsCounted("quota"), 10.0 - with_caches);

  const Outcome again = RunTurn(*engine_, NewHello(sessions[0]));
  EXPECT_TRUE(again.end.status.ok()) << again.end.status;
  EXPECT_EQ(again.end.usage.recomputed_tokens, 9u);
  for (const std::shared_ptr<Session>& session : sessions) Close(session);
  EXPECT_EQ(CacheBytes(), 0u);
}

TEST_F(EngineQuotasTest, ATurnWaitsForTheTenantsOtherTurns) {
  std::vector<std::shared_ptr<Session>> sessions;
  for (int i = 0; i < 8; ++i) sessions.push_back(engine_.Open(a()));
  std::vector<std::shared_ptr<SessionTurn>> turns;
  for (const std::shared_ptr<Session>& session : sessions) {
    turns.push_back(NewHello(session, 200));
    ASSERT_TRUE(engine_.Start(turns.back()).ok());
    EXPECT_LE(CacheBytes(), 4 * kState);
  }
  for (const auto& turn : turns) {
    EXPECT_TRUE(ReadToEnd(*turn).end.status.ok());
    EXPECT_LE(CacheBytes(), 4 * kState);
  }
}

TEST_F(EngineQuotasTest, AForkTakesItsPart) {
  const std::shared_ptr<Session> source = engine_.Open(a());
  ASSERT_TRUE(RunTurn(*engine_, NewHello(source)).end.status.ok());
  std::vector<std::shared_ptr<Session>> forks;
  for (uint64_t i = 0; i < 6; ++i) {
    TurnLease target = engine_.NewSession(SessionId{7, i}, a());
    forks.push_back(target.session());
    ASSERT_TRUE(Fork(*engine_, source, std::move(target)).ok()) << i;
    EXPECT_LE(CacheBytes(), 4 * kState);
  }
  EXPECT_TRUE(HasCaches(source)) << "the source of a fork is not evicted for it";
  EXPECT_EQ(CacheBytes(), 4 * kState);
  for (const std::shared_ptr<Session>& fork : forks) Close(fork);
  EXPECT_EQ(CacheBytes(), kState);
}

TEST_F(EngineQuotasTest, ASnapshotTakesItsPart) {
  std::vector<std::shared_ptr<Session>> sessions = {engine_.Open(a())};
  ASSERT_TRUE(RunTurn(*engine_, NewHello(sessions[0])).end.status.ok());
  for (int i = 0; i < 3; ++i) sessions.push_back(engine_.Open(a()));
  ASSERT_EQ(CacheBytes(), 4 * kState);
  const auto begin = [&](CacheCharge* charge) {
    absl::StatusOr<Snapshot> snapshot;
    absl::Notification done;
    engine_->BeginSnapshot(*TurnLease::Take(sessions[0]), charge,
                           [&](absl::StatusOr<Snapshot> begun) {
                             snapshot = std::move(begun);
                             done.Notify();
                           });
    done.WaitForNotification();
    return snapshot;
  };
  CacheCharge charges[4] = {CacheCharge(a()), CacheCharge(a()), CacheCharge(a()), CacheCharge(a())};
  for (int i = 0; i < 3; ++i) {
    absl::StatusOr<Snapshot> snapshot = begin(&charges[i]);
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    EXPECT_TRUE(snapshot->valid());
    engine_->Free(*std::move(snapshot));
    EXPECT_EQ(charges[i].bytes(), kState);
    EXPECT_EQ(CacheBytes(), 4 * kState) << "an idle session was evicted for it";
  }
  EXPECT_EQ(std::count_if(sessions.begin(), sessions.end(), HasCaches), 1);
  EXPECT_TRUE(HasCaches(sessions[0])) << "the session of a snapshot is not evicted for it";
  const absl::StatusOr<Snapshot> beyond = begin(&charges[3]);
  ASSERT_TRUE(beyond.ok()) << beyond.status();
  EXPECT_FALSE(beyond->valid()) << "the quota has no room for a fourth";
  EXPECT_EQ(charges[3].bytes(), 0u);
  EXPECT_EQ(CacheBytes(), 4 * kState);

  charges[3].Set(kState);
  EXPECT_EQ(RetryAfterOf(engine_.TryOpen(a()).status()), absl::InfiniteDuration());
  ASSERT_TRUE(a()->TakeTransfer().ok());
  EXPECT_EQ(RetryAfterOf(engine_.TryOpen(a()).status()), absl::Seconds(1)) << "it will end";
}

TEST_F(EngineQuotasTest, CachesGoWhenTheHostsPartGrows) {
  std::vector<std::shared_ptr<Session>> sessions;
  for (int i = 0; i < 4; ++i) sessions.push_back(engine_.Open(a()));
  EXPECT_EQ(CacheBytes(), 4 * kState);
  HostCharge host(a()->host_memory());
  ASSERT_TRUE(host.Add(2 * kState).ok()) << "idle caches do not stand in its way";
  engine_->Wake();
  const absl::Time until = absl::Now() + absl::Seconds(30);
  while (CacheBytes() > 2 * kState && absl::Now() < until) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(CacheBytes(), 2 * kState);
  EXPECT_EQ(std::count_if(sessions.begin(), sessions.end(), HasCaches), 2);
}

TEST_F(EngineQuotasTest, WaitingHelpsOnlyIfTheModelItselfHasTheCaches) {
  TestEngine other("{}", 0, WithTenants());
  std::vector<std::shared_ptr<Session>> sessions;
  for (int i = 0; i < 4; ++i) sessions.push_back(engine_.Open(a()));
  const absl::Status refused = other.TryOpen(a()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(RetryAfterOf(refused), absl::InfiniteDuration()) << "idle caches of the first model";

  for (int i = 0; i < 2; ++i) Close(sessions[static_cast<size_t>(i)]);
  std::vector<std::shared_ptr<SessionTurn>> turns;
  for (int i = 2; i < 4; ++i) {
    SessionTurnRequest request = Generate(sessions[static_cast<size_t>(i)], "hello", 0);
    request.kind = TurnKind::kAppend;
    turns.push_back(std::make_shared<SessionTurn>(request));
    ASSERT_TRUE(engine_.Start(turns.back()).ok());
  }
  engine_->Flush();
  engine_->Flush();
  ASSERT_EQ(CacheBytes(), 4 * kState);
  const absl::Status later = engine_.TryOpen(a()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(later)) << later;
  EXPECT_EQ(RetryAfterOf(later), absl::Seconds(1)) << "its turns will end";
  for (const auto& turn : turns) turn->CloseInput();
  engine_->Wake();
  for (const auto& turn : turns) EXPECT_TRUE(ReadToEnd(*turn).end.status.ok());
}

class OneStateTest : public EngineQuotasTest {
 protected:
  OneStateTest() : EngineQuotasTest(kState) {}
};

TEST_F(OneStateTest, ATurnThatCanNeverFitIsRefused) {
  const std::shared_ptr<Session> session = engine_.Open(a());
  const absl::Status refused = RunTurn(*engine_, NewHello(session)).end.status;
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(refused.message(),
            "quota session_bytes: the tenant's sessions and turns hold 32 bytes, of which 0 are on "
            "the host, and this needs 32 more for caches; the limit is 32");
  EXPECT_EQ(RetryAfterOf(refused), absl::InfiniteDuration());
  EXPECT_EQ(session->View().position, 0u);
  EXPECT_EQ(CacheBytes(), kState);
  Close(session);
  EXPECT_EQ(CacheBytes(), 0u);
}

TEST_F(EngineQuotasTest, AScoreGivesBackItsPart) {
  SessionTurnRequest score = Generate(engine_.Open(a()), "hello", 0);
  score.kind = TurnKind::kScore;
  EXPECT_TRUE(RunTurn(*engine_, std::make_shared<SessionTurn>(score)).end.status.ok());
  EXPECT_EQ(CacheBytes(), 0u);
}

// Steps of this plugin fail for prompts with an X.
TEST(EngineQuotas, ATurnWhoseStepFailsGivesBackItsPart) {
  const Tenants tenants({{.name = "a", .quotas = {.session_bytes = 4 * kState, .turns = 1}}},
                        std::make_shared<HostMemory>(0));
  const std::shared_ptr<Tenant> tenant = tenants.all()[0];
  Engine::Options options;
  options.tenants = tenants.all();
  TestEngine engine("{}", 0, options, {LONGSTREAM_BINARY_DIR "/test_plugins/faulty_steps.so", ""});
  const std::shared_ptr<Session> session = engine.Open(tenant);
  for (const char* prompt : {"with an X", "good", "X again"}) {
    SCOPED_TRACE(prompt);
    const auto turn = std::make_shared<SessionTurn>(Generate(session, prompt, 20));
    absl::StatusOr<TurnAllowance> allowance = tenant->BeginTurn(20);
    ASSERT_TRUE(allowance.ok()) << "the turn before has not given its part back";
    turn->allowance = *std::move(allowance);
    const bool fails = std::string(prompt).find('X') != std::string::npos;
    EXPECT_EQ(RunTurn(*engine, turn).end.status.ok(), !fails);
    EXPECT_EQ(tenant->use().turns, 0u);
    EXPECT_LE(tenant->use().cache_bytes, kState) << "without what the turn had reserved";
  }
}

class NoStateTest : public EngineQuotasTest {
 protected:
  NoStateTest() : EngineQuotasTest(kState - 1) {}
};

TEST_F(NoStateTest, ASessionThatDoesNotFitIsRefused) {
  EXPECT_TRUE(absl::IsResourceExhausted(engine_.TryOpen(a()).status()));
  EXPECT_EQ(CacheBytes(), 0u);
  EXPECT_TRUE(engine_.TryOpen(b()).ok());
}

}  // namespace
}  // namespace longstream
