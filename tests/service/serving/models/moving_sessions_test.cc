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
    TurnRequest request = Generate(nullptr, "hello", 20, /*seed=*/5);
    request.own_session = true;
    const TurnHandle handle = turn.Make(std::move(request), nullptr);
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

// ---------------------------------------------------------------- in memory

class MovingInMemoryTest : public ModelAdminTest {
 protected:
  MovingInMemoryTest() : ModelAdminTest(KeepingReturnPoints()) {}

  // The engine thread waits in the next round of its messages.
  void Hold(Engine& engine, absl::Notification* holds, absl::Notification* go_on) {
    TurnLease lease = TurnLease::OfNewSession(SessionId{9, 9}, "a", 100, absl::Hours(1));
    lease.session()->Close();
    engine.Open(std::move(lease), [=](const absl::Status&) {
      holds->Notify();
      go_on->WaitForNotification();
    });
  }

 private:
  static Options KeepingReturnPoints() {
    Options options;
    options.engine.stream_buffer_bytes = 64;  // a turn pauses soon if nobody reads it
    options.engine.rollback_bytes = 1 << 20;
    return options;
  }
};

// The turn ends in a step, and the session moves before the engine has seen the end.
TEST_F(MovingInMemoryTest, AnEngineKeepsNoReturnPointOfASessionThatHasMoved) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId session = Open("a");
  const std::shared_ptr<Engine> first = *models_->Find("a");
  const absl::StatusOr<NewTurn> keeps_version = sessions_->OwnTurn("", "a");
  ASSERT_TRUE(Swap(Model("a", "seeded")).ok());
  const std::shared_ptr<Engine> second = *models_->Find("a");

  absl::Notification holds, go_on;
  TurnHandle handle;
  size_t begun = 0;
  // The engine thread wakes the reader, because the engine has no other threads.
  const auto wake = [&] {
    while (true) {
      const TurnStream::Item item = handle.Next();
      if (std::holds_alternative<std::monostate>(item)) return;
      if (!std::holds_alternative<TurnEnd>(item)) continue;
      MovePass pass;
      sessions_->MoveSessions(*first, &pass);
      begun = pass.begun;
      return Hold(*first, &holds, &go_on);
    }
  };
  {
    absl::StatusOr<NewTurn> turn = sessions_->TurnOf({"", session});
    ASSERT_TRUE(turn.ok() && turn->Lease().ok());
    handle = turn->Make(Generate(nullptr, "hello", 3, /*seed=*/5), wake);
    ASSERT_TRUE(turn->Start(handle).ok());
  }
  holds.WaitForNotification();
  ASSERT_EQ(begun, 1u);
  EXPECT_EQ(sessions_->NumSessionsOn(*second), 1u);
  const absl::StatusOr<TurnHandle> running = Begin(session, "more", 300);
  ASSERT_TRUE(running.ok()) << running.status();
  const auto states = [&] {
    return first->model().backend().memory().states + second->model().backend().memory().states;
  };
  EXPECT_TRUE(WaitUntil([&] {
    const TurnStream::Item item = TurnHandle(*running).Next();
    const auto* event = std::get_if<TurnEvent>(&item);
    return event != nullptr && std::holds_alternative<DeltaEvent>(*event);
  })) << "the session has caches there";
  const uint64_t before = states();
  go_on.Notify();
  first->Flush();
  EXPECT_EQ(states(), before) << "the first engine has copied the caches of the second one";
  EXPECT_TRUE(Read(*running).end.status.ok());
}

TEST_F(MovingInMemoryTest, AFewSessionsMoveAtATime) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const std::shared_ptr<Engine> first = *models_->Find("a");
  for (int i = 0; i < 100; ++i) Open("a");
  ASSERT_TRUE(Swap(Model("a", "seeded")).ok());
  absl::Notification holds, go_on;
  Hold(*first, &holds, &go_on);
  holds.WaitForNotification();
  MovePass pass;
  sessions_->MoveSessions(*first, &pass);
  EXPECT_EQ(pass.begun, 64u);
  EXPECT_NE(pass.next, nullptr);
  EXPECT_EQ(sessions_->uses().of(*first).moves, 64u);
  sessions_->MoveSessions(*first, &pass);
  EXPECT_EQ(pass.begun, 0u);
  EXPECT_NE(pass.next, nullptr);
  go_on.Notify();
  EXPECT_TRUE(WaitUntil([&] { return sessions_->uses().of(*first).moves == 0; }));
  sessions_->MoveSessions(*first, &pass);
  EXPECT_EQ(pass.begun, 36u);
  EXPECT_EQ(pass.next, nullptr);
  EXPECT_EQ(pass.left, 100u) << "of the whole pass";
  EXPECT_TRUE(WaitUntil([&] {
    sessions_->MoveSessions(*first, &pass);
    return pass.left == 0;
  }));
  AwaitVersions({"a 2 2"});
}

TEST_F(MovingInMemoryTest, ASessionMovesOnIfItsVersionIsUnloadedMeanwhile) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId session = Open("a");
  const std::shared_ptr<Engine> first = *models_->Find("a");
  ASSERT_TRUE(Swap(Model("a", "seeded")).ok());
  const std::shared_ptr<Engine> second = *models_->Find("a");
  absl::Notification holds, go_on;
  Hold(*first, &holds, &go_on);
  holds.WaitForNotification();
  MovePass pass;
  sessions_->MoveSessions(*first, &pass);
  EXPECT_EQ(pass.begun, 1u);
  ASSERT_TRUE(Swap(Model("a", "third")).ok());
  second->BeginUnload();
  go_on.Notify();
  AwaitVersions({"a 3 2"});
  EXPECT_EQ(sessions_->NumSessionsOn(**models_->Find("a")), 1u);
  EXPECT_TRUE(Turn(session, "more", 5).end.status.ok());
}

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
  const absl::StatusOr<store::SessionRow> before = store_->Session({"", session});
  ASSERT_TRUE(Swap(Model("a", "seeded"), Recompute()).ok());
  EXPECT_TRUE(WaitUntil([&] { return sessions_->NumSessionsOn(*first_version) == 0; }));
  const absl::StatusOr<store::SessionRow> moved = store_->Session({"", session});
  ASSERT_TRUE(before.ok() && moved.ok());
  EXPECT_EQ(moved->version, before->version + 1);
  EXPECT_EQ(moved->last_use_time, before->last_use_time) << "a move is no use";
  EXPECT_EQ(sessions_->View({"", session})->last_use_time, before->last_use_time);
  const std::vector<int32_t> expected = TurnOn("z", session, "more", 20);
  const Answer more = Turn(session, "more", 20);
  EXPECT_TRUE(more.end.status.ok()) << more.end.status;
  EXPECT_EQ(more.tokens, expected);
  EXPECT_EQ(more.end.usage.recompute_reason,
            "the session was moved to another version of its model");
  EXPECT_EQ(sessions_->NumSessionsOn(*first_version), 0u);
  EXPECT_EQ(Versions(), (std::vector<std::string>{"a 2 2", "a 1 3", "z 1 2"}));
}

TEST_F(MovingStoredTest, AnIdleSessionGoesOnAfterSeveralSwaps) {
  ASSERT_TRUE(Load(Model("a")).ok());
  ASSERT_TRUE(Load(Model("z", "third")).ok());
  const SessionId idle = Open("a"), only_stored = Open("a"), forked = Open("a");
  for (const SessionId& session : {idle, only_stored, forked}) {
    EXPECT_TRUE(Turn(session, "hello", 20).end.status.ok());
  }
  sessions_->EndSessionsOn(**models_->Find("a"));
  EXPECT_TRUE(sessions_->TurnOf({"", idle}).ok()) << "it is in memory again";
  ASSERT_TRUE(Swap(Model("a", "seeded"), Recompute()).ok());
  AwaitVersions({"a 2 2", "z 1 2"});
  ASSERT_TRUE(Swap(Model("a", "third"), Recompute()).ok());
  AwaitVersions({"a 3 2", "z 1 2"});
  for (const SessionId& session : {idle, only_stored}) {
    const Answer more = Turn(session, "more", 20);
    EXPECT_TRUE(more.end.status.ok()) << more.end.status;
    EXPECT_EQ(more.tokens, TurnOn("z", forked, "more", 20));
    EXPECT_EQ(more.end.usage.recompute_reason,
              "the session was moved to another version of its model");
  }
  // The operator moves no sessions this time, and the policy is to refuse.
  const SessionId left = Open("a");
  EXPECT_TRUE(Turn(left, "hello", 20).end.status.ok());
  const std::shared_ptr<Engine> third = *models_->Find("a");
  ASSERT_TRUE(Swap(Model("a", "tiny")).ok());
  sessions_->EndSessionsOn(*third);
  AwaitVersions({"a 4 2", "z 1 2"});
  EXPECT_TRUE(absl::IsFailedPrecondition(Turn(left, "more", 20).end.status));
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

// A store that calls `on_commit` after the next transaction, before it answers.
struct ToldCommits {
  store::FaultyDisk disk;
  absl::Mutex mutex;
  std::function<void()> on_commit ABSL_GUARDED_BY(mutex);
};

class MovingBesideCommitsTest : public ToldCommits, public ModelAdminTest {
 protected:
  MovingBesideCommitsTest() : ModelAdminTest(With(this)) {}
  ~MovingBesideCommitsTest() override { Stop(); }

  static Options With(ToldCommits* told) {
    Options options;
    options.has_store = true;
    options.store.vfs = told->disk.name();
    options.commits.on_commit = [told](const auto&, absl::Duration) {
      std::function<void()> call;
      {
        absl::MutexLock lock(&told->mutex);
        call.swap(told->on_commit);
      }
      if (call) call();
    };
    return options;
  }
};

// The turn has started and was lost. It is cancelled while the store has the move and the engine
// does not know it yet.
TEST_F(MovingBesideCommitsTest, ASessionStaysUntilItsTurnsAreAbandoned) {
  ASSERT_TRUE(Load(Model("a")).ok());
  const SessionId session = Open("a");
  const SessionId id{5, 5};
  {
    absl::StatusOr<NewTurn> turn = sessions_->TurnOf({"", session}, id);
    ASSERT_TRUE(turn.ok()) << turn.status();
    ASSERT_TRUE(turn->Name(id, TurnKind::kGenerate, "digest").ok());
    ASSERT_TRUE(turn->Lease().ok());
    TurnHandle lost = turn->Make(Generate(nullptr, "hello", 100'000, /*seed=*/5), nullptr);
    ASSERT_TRUE(turn->Start(lost).ok());
    EXPECT_TRUE(WaitUntil([&] { return !std::holds_alternative<std::monostate>(lost.Next()); }));
    lost.Cancel(absl::UnavailableError("lost"));
    EXPECT_TRUE(absl::IsUnavailable(Read(lost).end.status));
  }
  absl::Notification cancelled, go_on;
  {
    absl::MutexLock lock(&mutex);
    on_commit = [&] {
      disk.SetBeforeFsync([&] { go_on.WaitForNotification(); });
      sessions_->CancelTurn({"", session}, id, [&](const absl::StatusOr<TurnView>& turn) {
        EXPECT_TRUE(turn.ok() && turn->state == TurnState::kAbandoned) << turn.status();
        cancelled.Notify();
      });
    };
  }
  ASSERT_TRUE(Swap(Model("a", "seeded"), Recompute()).ok());
  cancelled.WaitForNotification();
  const absl::StatusOr<TurnHandle> more = Begin(session, "more", 5);
  disk.SetBeforeFsync(nullptr);
  go_on.Notify();
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_TRUE(Read(*more).end.status.ok());
  AwaitVersions({"a 2 2"});
  const absl::Status last = Turn(session, "last", 5).end.status;
  EXPECT_TRUE(last.ok()) << last;
  uint64_t next = 0;
  const absl::StatusOr<std::vector<TurnView>> turns =
      sessions_->ListTurns({"", session}, 0, 10, &next);
  ASSERT_TRUE(turns.ok()) << turns.status();
  ASSERT_EQ(turns->size(), 3u);
  EXPECT_EQ((*turns)[0].state, TurnState::kAbandoned);
  EXPECT_EQ(store_->Turn({"", session}, id)->state, store::TurnState::kAbandoned);
}

TEST_F(MovingBesideCommitsTest, ASessionMovesAgainIfItsVersionWasReplacedMeanwhile) {
  ASSERT_TRUE(Load(Model("a")).ok());
  ASSERT_TRUE(Load(Model("z", "third")).ok());
  const SessionId session = Open("a");
  EXPECT_TRUE(Turn(session, "hello", 20).end.status.ok());
  const absl::StatusOr<store::SessionRow> before = store_->Session({"", session});
  absl::Notification moved, go_on;
  {
    absl::MutexLock lock(&mutex);
    on_commit = [&] {
      moved.Notify();
      go_on.WaitForNotification();
    };
  }
  ASSERT_TRUE(Swap(Model("a", "seeded"), Recompute()).ok());
  moved.WaitForNotification();
  ASSERT_TRUE(Swap(Model("a", "third"), Recompute()).ok());
  go_on.Notify();
  AwaitVersions({"a 3 2", "z 1 2"});
  const absl::StatusOr<store::SessionRow> after = store_->Session({"", session});
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(after->version, before->version + 2) << "it has moved twice";
  const std::vector<int32_t> expected = TurnOn("z", session, "more", 20);
  const Answer more = Turn(session, "more", 20);
  EXPECT_TRUE(more.end.status.ok()) << more.end.status;
  EXPECT_EQ(more.tokens, expected);
}

}  // namespace
}  // namespace longstream
