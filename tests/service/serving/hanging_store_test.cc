// The disk of the store hangs: calls end with UNAVAILABLE within the commit timeout, the changes go
// on, and a repeated call finds its result. A drain does not wait for the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/serving/session_manager.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/serving/wait_for_session.h"
#include "tests/service/sessions/store/faulty_vfs.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr SessionId kId{1, 2};
constexpr SessionId kFork{3, 4};

class HangingStoreTest : public testing::Test {
 protected:
  explicit HangingStoreTest(absl::Duration commit_timeout = absl::Seconds(1))
      : commit_timeout_(commit_timeout) {
    EXPECT_TRUE(models_.WaitUntilLoaded().ok());
  }
  // The store can only be closed when the disk works.
  ~HangingStoreTest() override { GoOn(); }

  void Hang() { SetHangs(true); }
  // Only reads hang. SQLite has the pages of earlier reads in memory.
  void HangReads() {
    disk_.SetBeforeRead([this] { WaitWhileHanging(); });
    SetHangs(true);
  }
  void GoOn() { SetHangs(false); }

  absl::StatusOr<SessionView> Open(std::optional<SessionId> id = kId,
                                   Durability durability = Durability::kDefault) {
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_->OpenSession("", "m", id, std::nullopt, std::move(opened), Recompute::kExact,
                             durability);
    });
  }
  absl::Status Load(const SessionId& id) {
    absl::Status status;
    absl::Notification done;
    sessions_->LoadSession({"", id}, [&](const absl::Status& loaded) {
      status = loaded;
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  }
  absl::Status Export() {
    absl::Status status;
    absl::Notification done;
    sessions_->ExportSession({"", kId},
                             [&](const absl::StatusOr<std::shared_ptr<SessionExport>>& exported) {
                               status = exported.status();
                               done.Notify();
                             });
    done.WaitForNotification();
    return status;
  }
  absl::StatusOr<SessionView> Fork() {
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_->ForkSession({"", kId}, kFork, std::nullopt, std::move(opened));
    });
  }
  absl::StatusOr<SessionView> RewindTo(uint64_t position) {
    return WaitForSession([&](SessionManager::Opened rewound) {
      Place place;
      place.position = position;
      sessions_->RewindSession({"", kId}, place, std::nullopt, rewound);
    });
  }
  absl::Status Close(const SessionId& id) {
    absl::Status status;
    absl::Notification done;
    sessions_->CloseSession({"", id}, [&](const absl::StatusOr<uint64_t>& position) {
      status = position.status();
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  }
  absl::StatusOr<TurnView> Cancel(const TurnId& turn) {
    absl::StatusOr<TurnView> result;
    absl::Notification done;
    sessions_->CancelTurn({"", kId}, turn, [&](absl::StatusOr<TurnView> view) {
      result = std::move(view);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  // Starts a turn on kId that reads "text" and generates.
  TurnHandle Start(uint64_t max_tokens, const TurnId& id) {
    absl::StatusOr<NewTurn> turn = sessions_->TurnOf({"", kId});
    EXPECT_TRUE(turn.ok()) << turn.status();
    EXPECT_TRUE(turn->Name(id, TurnKind::kGenerate, "digest").ok());
    // The thread that restores a session leases it for a moment after others find it.
    absl::Status leased;
    EXPECT_TRUE(WaitUntil([&] {
      leased = turn->Lease();
      return !absl::IsAborted(leased);
    }));
    EXPECT_TRUE(leased.ok()) << leased;
    SessionTurnRequest request = Generate(nullptr, "text", max_tokens);
    request.outlives_reader = true;
    request.resume_window = absl::Hours(1);
    TurnHandle handle = turn->Make(request, nullptr);
    EXPECT_TRUE(turn->Start(handle).ok());
    return handle;
  }
  static TurnEnd ReadToEnd(TurnHandle turn) {
    while (true) {
      const TurnStream::Item item = turn.Next();
      if (const auto* end = std::get_if<TurnEnd>(&item)) return *end;
      if (std::holds_alternative<std::monostate>(item)) absl::SleepFor(absl::Microseconds(100));
    }
  }

  SessionManager& sessions() { return *sessions_; }
  // Ends the manager as a server does.
  void End() { sessions_.reset(); }
  // Then the sessions are only in the store.
  void Restart() {
    End();
    sessions_ = std::make_unique<SessionManager>(&models_, Options());
  }
  store::SessionStore& store() { return *store_; }

 private:
  void SetHangs(bool hangs) {
    absl::MutexLock lock(&mutex_);
    hangs_ = hangs;
  }
  void WaitWhileHanging() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](bool* hangs) { return !*hangs; }, &hangs_));
  }
  std::unique_ptr<store::SqliteStore> OpenStore() {
    disk_.SetBeforeFsync([this] { WaitWhileHanging(); });
    return *store::SqliteStore::Open(directory_.string(), {.vfs = disk_.name()});
  }
  SessionManager::Options Options() const {
    SessionManager::Options options;
    options.store = store_.get();
    options.commits = commits_.get();
    options.commit_timeout = commit_timeout_;
    return options;
  }

  const absl::Duration commit_timeout_;
  absl::Mutex mutex_;
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
  const TemporaryDirectory directory_;
  store::FaultyDisk disk_;
  const std::unique_ptr<store::SqliteStore> store_ = OpenStore();
  const std::unique_ptr<store::CommitQueue> commits_ =
      std::make_unique<store::CommitQueue>(store_.get(), store::CommitQueue::Options{});
  MinimalModel model_;
  ModelRegistry models_{
      {model_.plugins(), model_.host(), model_.registry(), {}}, {model_.Source()}, nullptr};
  std::unique_ptr<SessionManager> sessions_ = std::make_unique<SessionManager>(&models_, Options());
};

void ExpectLate(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("store.commit_timeout, 1s"));
}

TEST_F(HangingStoreTest, AnOpenIsUnavailableAndItsRepeatFindsTheSession) {
  Hang();
  ExpectLate(Open().status());
  ExpectLate(Open().status());  // waits for the first one
  GoOn();
  absl::StatusOr<SessionView> session;
  ASSERT_TRUE(WaitUntil([&] {
    session = Open();
    return !absl::IsUnavailable(session.status());
  }));
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->id, kId);
  EXPECT_EQ(sessions().List("", std::nullopt, 10, "").size(), 1u);
}

TEST_F(HangingStoreTest, AForkIsUnavailableAndItsRepeatFindsTheSession) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, TurnId{7, 7})).status.ok());
  Hang();
  ExpectLate(Fork().status());
  GoOn();
  absl::StatusOr<SessionView> fork;
  ASSERT_TRUE(WaitUntil([&] {
    fork = Fork();
    return !absl::IsUnavailable(fork.status());
  }));
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->position, 14u);
  EXPECT_EQ(fork->forked_from, kId);
}

TEST_F(HangingStoreTest, ARewindIsUnavailableAndStillMade) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, TurnId{7, 7})).status.ok());
  Hang();
  ExpectLate(RewindTo(6).status());
  EXPECT_EQ(RewindTo(6).status().code(), absl::StatusCode::kAborted) << "the session is busy";
  GoOn();
  absl::StatusOr<SessionView> rewound;
  ASSERT_TRUE(WaitUntil([&] {
    rewound = RewindTo(6);
    return !absl::IsAborted(rewound.status());
  }));
  ASSERT_TRUE(rewound.ok()) << rewound.status();
  EXPECT_EQ(rewound->position, 6u);
}

TEST_F(HangingStoreTest, ACloseIsUnavailableAndStillMade) {
  ASSERT_TRUE(Open().ok());
  Hang();
  ExpectLate(Close(kId));
  ExpectLate(Close(kId));  // the session is in the store until the first one is made
  GoOn();
  absl::Status status;
  ASSERT_TRUE(WaitUntil([&] {
    status = Close(kId);
    return !absl::IsUnavailable(status);
  }));
  EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
  EXPECT_EQ(sessions().View({"", kId}).status().code(), absl::StatusCode::kNotFound);
}

// No client knows the id of such a session.
TEST_F(HangingStoreTest, ALateSessionWithADrawnIdIsClosed) {
  Hang();
  ExpectLate(Open(std::nullopt).status());
  EXPECT_EQ(sessions().List("", std::nullopt, 10, "").size(), 1u);
  GoOn();
  EXPECT_TRUE(WaitUntil([&] { return sessions().List("", std::nullopt, 10, "").empty(); }));
}

TEST_F(HangingStoreTest, ACancelThatWaitsForACommitIsUnavailable) {
  ASSERT_TRUE(Open().ok());
  const TurnId id{7, 7};
  Hang();
  const TurnHandle turn = Start(10, id);
  EXPECT_TRUE(absl::IsUnavailable(ReadToEnd(turn).status)) << "it waits for its start's commit";
  ExpectLate(Cancel(id).status());
  GoOn();
  absl::StatusOr<TurnView> cancelled;
  ASSERT_TRUE(WaitUntil([&] {
    cancelled = Cancel(id);
    return !absl::IsUnavailable(cancelled.status());
  }));
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_FALSE(cancelled->running);
}

// The commit timeout is too long to end anything here.
class HangingDrainTest : public HangingStoreTest {
 protected:
  HangingDrainTest() : HangingStoreTest(absl::Hours(1)) {}
};

TEST_F(HangingDrainTest, EndsWithoutTheDiskAndSoDoAllThatWaitForIt) {
  ASSERT_TRUE(Open().ok());
  const TurnId id{7, 7};
  Hang();
  const TurnHandle turn = Start(10, id);
  absl::Status opened;
  absl::Notification answered;
  sessions().OpenSession("", "m", kFork, std::nullopt,
                         [&](const absl::StatusOr<SessionView>& view) {
                           opened = view.status();
                           answered.Notify();
                         });
  EXPECT_TRUE(WaitUntil([&] { return sessions().List("", std::nullopt, 10, "").size() >= 2; }));
  sessions().Drain(absl::Milliseconds(50));
  const absl::Status ended = ReadToEnd(turn).status;
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  EXPECT_THAT(std::string(ended.message()), HasSubstr("the server is shutting down"));
  answered.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(opened)) << opened;
  EXPECT_THAT(std::string(opened.message()), HasSubstr("the server is shutting down"));
  EXPECT_TRUE(absl::IsUnavailable(Close(kId))) << "a call that begins after the drain";
  GoOn();
}

TEST_F(HangingDrainTest, ALateSessionWithADrawnIdIsClosedBeforeTheServerEnds) {
  Hang();
  absl::Status opened;
  absl::Notification answered;
  sessions().OpenSession("", "m", std::nullopt, std::nullopt,
                         [&](const absl::StatusOr<SessionView>& view) {
                           opened = view.status();
                           answered.Notify();
                         });
  sessions().Drain(absl::ZeroDuration());
  answered.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(opened)) << opened;
  EXPECT_EQ(sessions().List("", std::nullopt, 10, "").size(), 1u);
  GoOn();
  End();
  const auto left = store().Sessions("", std::nullopt, 10, "");
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_TRUE(left->empty());
}

TEST_F(HangingStoreTest, AReadThatHangsIsUnavailableAndDelaysNoOther) {
  const auto go_on = std::make_shared<absl::Notification>();  // shared with the thread that reads
  const auto result_of = [&](std::function<absl::StatusOr<int>()> read) {
    absl::StatusOr<int> result;
    absl::Notification done;
    sessions().Read<int>(std::move(read), [&](const absl::StatusOr<int>& found) {
      result = found;
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  };
  EXPECT_EQ(*result_of([] { return 7; }), 7);
  const absl::Status late = result_of([go_on]() -> absl::StatusOr<int> {
                              go_on->WaitForNotification();
                              return 8;
                            }).status();
  ExpectLate(late);
  EXPECT_THAT(std::string(late.message()), Not(HasSubstr("the change")));
  EXPECT_EQ(*result_of([] { return 9; }), 9) << "another thread reads";
  go_on->Notify();
}

TEST_F(HangingStoreTest, ATurnOfAStoredSessionIsUnavailableWhileItsReadHangs) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, TurnId{7, 7})).status.ok());
  Restart();
  HangReads();
  const absl::Status late = Load(kId);
  ExpectLate(late);
  EXPECT_THAT(std::string(late.message()), Not(HasSubstr("the change")));
  const auto in_memory = Open(std::nullopt, Durability::kMemory);
  ASSERT_TRUE(in_memory.ok()) << in_memory.status();
  EXPECT_TRUE(Load(in_memory->id).ok()) << "it needs no store";
  GoOn();
  absl::Status loaded;
  ASSERT_TRUE(WaitUntil([&] {
    loaded = Load(kId);
    return !absl::IsUnavailable(loaded);
  }));
  EXPECT_TRUE(loaded.ok()) << loaded;
  EXPECT_TRUE(ReadToEnd(Start(10, TurnId{8, 8})).status.ok());
  EXPECT_EQ(Load(kFork).code(), absl::StatusCode::kNotFound);
}

TEST_F(HangingStoreTest, AnExportIsUnavailableWhileItsReadHangs) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, TurnId{7, 7})).status.ok());
  Restart();
  HangReads();
  const absl::Status late = Export();
  ExpectLate(late);
  EXPECT_THAT(std::string(late.message()), Not(HasSubstr("the change")));
  GoOn();
  absl::Status exported;
  ASSERT_TRUE(WaitUntil([&] {
    exported = Export();
    return !absl::IsUnavailable(exported);
  }));
  EXPECT_TRUE(exported.ok()) << exported;
}

}  // namespace
}  // namespace longstream
