// Sessions move from version to version of their model, in memory and in the store.
#include <optional>
#include <string>
#include <vector>

#include "tests/service/serving/models/admin_fixture.h"
#include "tests/service/sessions/store/faulty_vfs.h"

namespace longstream {
namespace {

using testing::HasSubstr;

ModelAdmin::Moving Recompute(std::optional<absl::Duration> drain_timeout = std::nullopt) {
  ModelAdmin::Moving moving;
  moving.recompute_sessions = true;
  moving.drain_timeout = drain_timeout;
  return moving;
}

// The parameter: whether the sessions are in the store.
class MovingTest : public ModelAdminTest, public testing::WithParamInterface<bool> {
 protected:
  MovingTest() : ModelAdminTest(PausingTurns(GetParam())) {}

 private:
  // A turn pauses soon if nobody reads it.
  static Options PausingTurns(bool has_store) {
    Options options;
    options.has_store = has_store;
    options.engine.stream_buffer_bytes = 64;
    return options;
  }
};

TEST_P(MovingTest, ASessionMovesToTheVersionThatIsThereThen) {
  ASSERT_TRUE(Load(Model("a")).ok());
  ASSERT_TRUE(Load(Model("z", "third")).ok());
  const SessionId session = Open("a");
  const absl::StatusOr<TurnHandle> running = Begin(session, "hello", 300);
  ASSERT_TRUE(running.ok()) << running.status();
  ASSERT_TRUE(Swap(Model("a", "seeded"), Recompute()).ok());
  ASSERT_TRUE(Swap(Model("a", "third"), Recompute()).ok());
  AwaitVersions({"a 3 2", "a 1 3", "z 1 2"});  // the second version is gone
  EXPECT_TRUE(Read(*running).end.status.ok());
  AwaitVersions({"a 3 2", "z 1 2"});
  const std::vector<int32_t> expected = TurnOn("z", session, "more", 20);
  const Answer more = Turn(session, "more", 20);
  EXPECT_TRUE(more.end.status.ok()) << more.end.status;
  EXPECT_EQ(more.tokens, expected);
  EXPECT_GT(more.end.usage.recomputed_tokens, 0u);
  EXPECT_THAT(more.end.usage.recompute_reason, HasSubstr("nother "));
}

TEST_P(MovingTest, SessionsMoveDuringTheDrain) {
  ASSERT_TRUE(Load(Model("a")).ok());
  ASSERT_TRUE(Load(Model("z", "seeded")).ok());
  std::vector<SessionId> sessions;
  for (int i = 0; i < 20; ++i) {
    sessions.push_back(Open("a"));
    EXPECT_TRUE(Turn(sessions.back(), "hello", 5).end.status.ok());
  }
  const absl::StatusOr<TurnHandle> running = Begin(sessions[0], "again", 300);
  ASSERT_TRUE(running.ok()) << running.status();
  ASSERT_TRUE(Swap(Model("a", "seeded"), Recompute(absl::ZeroDuration())).ok());
  EXPECT_TRUE(Read(*running).end.status.ok());
  AwaitVersions({"a 2 2", "z 1 2"});
  for (const SessionId& session : sessions) {
    const std::vector<int32_t> expected = TurnOn("z", session, "more", 20);
    const Answer more = Turn(session, "more", 20);
    EXPECT_TRUE(more.end.status.ok()) << more.end.status;
    EXPECT_EQ(more.tokens, expected);
  }
}

TEST_P(MovingTest, ALongSessionEndsWithTheDrain) {
  AddDirectory("short", R"({"model_type": "minimal", "seed": 99, "context_limit": 64})");
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId fits = Open("a"), is_long = Open("a");
  EXPECT_TRUE(Turn(fits, "hello", 5).end.status.ok());
  EXPECT_TRUE(Turn(is_long, "hello", 60).end.status.ok());
  ASSERT_TRUE(Swap(Model("a", "short"), Recompute(absl::ZeroDuration())).ok());
  AwaitVersions({"a 2 2"});
  EXPECT_TRUE(Turn(fits, "more", 5).end.status.ok());
  const absl::Status ended = Turn(is_long, "more", 5).end.status;
  EXPECT_FALSE(ended.ok());
  EXPECT_EQ(sessions_->View({"", is_long}).ok(), GetParam()) << "it is in the store";
}

// A call has found the earlier version, and its turn has not begun.
TEST_P(MovingTest, ACallKeepsTheVersionThatItHasFound) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const std::vector<int32_t> expected = Turn(Open("a"), "hello", 20).tokens;
  std::vector<NewTurn> turns;
  turns.push_back(*sessions_->OwnTurn("", "a"));
  turns.push_back(turns[0].Another());
  ASSERT_TRUE(Swap(Model("a", "seeded"), Recompute(absl::ZeroDuration())).ok());
  ASSERT_TRUE(Swap(Model("a", "third"), Recompute(absl::ZeroDuration())).ok());
  AwaitVersions({"a 3 2", "a 1 3"});  // the second version is gone
  for (NewTurn& turn : turns) {
    ASSERT_TRUE(turn.Lease().ok());
    const TurnHandle handle = turn.Make(Generate(nullptr, "hello", 20, /*seed=*/5), nullptr);
    const absl::Status started = turn.Start(handle);
    ASSERT_TRUE(started.ok()) << started;
    EXPECT_EQ(Read(handle).tokens, expected);
  }
  AwaitVersions({"a 3 2"});
}

TEST_P(MovingTest, ASessionThatACallHasFoundDoesNotMove) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId session = Open("a");
  absl::StatusOr<NewTurn> turn = sessions_->TurnOf({"", session});
  ASSERT_TRUE(turn.ok()) << turn.status();
  ASSERT_TRUE(Swap(Model("a", "seeded"), Recompute()).ok());
  ASSERT_TRUE(Swap(Model("a", "third"), Recompute()).ok());
  AwaitVersions({"a 3 2", "a 1 3"});
  EXPECT_TRUE(turn->Lease().ok());
  turn = absl::UnknownError("");  // the call has gone
  AwaitVersions({"a 3 2"});
  EXPECT_TRUE(Turn(session, "hello", 5).end.status.ok());
}

INSTANTIATE_TEST_SUITE_P(Sessions, MovingTest, testing::Bool());

// ---------------------------------------------------------------- in the store

class MovingStoredTest : public ModelAdminTest {
 protected:
  MovingStoredTest() : ModelAdminTest({.has_store = true}) {}
};

TEST_F(MovingStoredTest, AMovedSessionStaysOnTheNewVersion) {
  ASSERT_TRUE(Load(Model("a")).ok());
  ASSERT_TRUE(Load(Model("z", "seeded")).ok());
  const SessionId session = Open("a");
  EXPECT_TRUE(Turn(session, "hello", 20).end.status.ok());
  const std::shared_ptr<Engine> first_version = *models_->Find("a");
  const absl::StatusOr<NewTurn> keeps_version = sessions_->OwnTurn("", "a");
  ASSERT_TRUE(Swap(Model("a", "seeded"), Recompute()).ok());
  EXPECT_TRUE(WaitUntil([&] { return sessions_->NumSessionsOn(*first_version) == 0; }));
  const std::vector<int32_t> expected = TurnOn("z", session, "more", 20);
  const Answer more = Turn(session, "more", 20);
  EXPECT_TRUE(more.end.status.ok()) << more.end.status;
  EXPECT_EQ(more.tokens, expected);
  EXPECT_EQ(sessions_->NumSessionsOn(*first_version), 0u);
  EXPECT_EQ(Versions(), (std::vector<std::string>{"a 2 2", "a 1 3", "z 1 2"}));
}

// A disk that becomes full.
struct FullDisk {
  store::FaultyDisk disk;
  absl::Mutex mutex;
  std::vector<MonotonicTime> failures ABSL_GUARDED_BY(mutex);
};

class MovingOnAFullDiskTest : public FullDisk, public ModelAdminTest {
 protected:
  MovingOnAFullDiskTest() : ModelAdminTest(With(this)) {}
  ~MovingOnAFullDiskTest() override {
    disk.SetFull(false);
    Stop();
  }

  static Options With(FullDisk* full) {
    Options options;
    options.has_store = true;
    options.store.vfs = full->disk.name();
    options.commits.on_commit = [full](const auto& results, absl::Duration) {
      absl::MutexLock lock(&full->mutex);
      for (const absl::StatusOr<store::Applied>& result : results) {
        if (!result.ok()) full->failures.push_back(MonotonicTime::Now());
      }
    };
    return options;
  }
  size_t NumFailures() {
    absl::MutexLock lock(&mutex);
    return failures.size();
  }
};

TEST_F(MovingOnAFullDiskTest, MovesAreTriedAgainAfterAPause) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId session = Open("a");
  const absl::Time last_use = sessions_->View({"", session})->last_use_time;
  disk.SetFull(true);
  ASSERT_TRUE(Swap(Model("a", "seeded"), Recompute()).ok());
  EXPECT_TRUE(WaitUntil([&] { return NumFailures() >= 2; }));
  {
    absl::MutexLock lock(&mutex);
    EXPECT_GE(failures[1] - failures[0], absl::Seconds(1));
  }
  const absl::StatusOr<SessionView> view = sessions_->View({"", session});
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->last_use_time, last_use) << "the idle time goes on";
  disk.SetFull(false);
  AwaitVersions({"a 2 2"});
  EXPECT_TRUE(Turn(session, "hello", 20).end.status.ok());
}

}  // namespace
}  // namespace longstream
