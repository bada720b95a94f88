// A session manager whose store is on a disk that can hang.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVING_HANGING_STORE_H_
#define LONGSTREAM_TESTS_SERVICE_SERVING_HANGING_STORE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
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
#include "tests/service/serving/without_patience.h"
#include "tests/service/sessions/store/faulty_vfs.h"
#include "tests/service/sessions/store/held_store.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {

inline constexpr SessionId kId{1, 2};
inline constexpr SessionId kFork{3, 4};

class HangingStoreTest : public testing::Test {
 protected:
  // Calls that must not wait so long are made by ExpectLate.
  explicit HangingStoreTest(absl::Duration commit_timeout = absl::Hours(1))
      : commit_timeout_(commit_timeout) {
    EXPECT_TRUE(models_.WaitUntilLoaded().ok());
  }
  // The store can only be closed when the disk works.
  ~HangingStoreTest() override { GoOn(); }

  void Hang() { SetHangs(true); }
  // Only reads hang. A read on this thread or on the engine's fails the test.
  void HangReads() { store_.Hold({EngineThread()}); }
  void GoOn() {
    SetHangs(false);
    store_.Release();
  }

  // Makes a call that waits for the disk, which hangs. Returns its error.
  absl::Status Late(const std::function<absl::Status()>& call) {
    return WithoutPatience(
        sessions_->timers(), [this] { return HoldsUp(); }, call);
  }
  void ExpectLate(const std::function<absl::Status()>& call) {
    const absl::Status status = Late(call);
    ExpectLateAnswer(status.code(), std::string(status.message()));
  }
  // Late answers of calls that only read do not say that a change may still be made.
  void ExpectLateRead(const std::function<absl::Status()>& call) {
    const absl::Status status = Late(call);
    ExpectLateAnswer(status.code(), std::string(status.message()));
    EXPECT_THAT(std::string(status.message()), testing::Not(testing::HasSubstr("the change")));
  }

  absl::StatusOr<SessionView> Open(std::optional<SessionId> id = kId,
                                   Durability durability = Durability::kDefault,
                                   std::optional<absl::Duration> idle_timeout = std::nullopt) {
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_->OpenSession("", "m", id, idle_timeout, std::move(opened),
                             {.durability = durability});
    });
  }
  // As a server loads a turn, on a thread that must not read the store.
  absl::StatusOr<NewTurn> LoadTurn(const SessionId& session,
                                   std::optional<TurnId> id = std::nullopt) {
    absl::StatusOr<NewTurn> turn = absl::UnknownError("not called");
    absl::Notification done;
    sessions_->LoadTurn({"", session}, id, [&](absl::StatusOr<NewTurn> loaded) {
      turn = std::move(loaded);
      done.Notify();
    });
    done.WaitForNotification();
    return turn;
  }
  absl::StatusOr<SessionView> Show(const SessionId& id) {
    return WaitForSession([&](SessionManager::Opened shown) {
      sessions_->ShowSession({"", id}, std::move(shown));
    });
  }
  absl::Status Load(const SessionId& id) { return LoadTurn(id).status(); }
  absl::StatusOr<SessionTurns::Committed> LoadAnswer(const NewTurn& turn) {
    absl::StatusOr<SessionTurns::Committed> answer = absl::UnknownError("not called");
    absl::Notification done;
    sessions_->LoadAnswer(turn, [&](absl::StatusOr<SessionTurns::Committed> loaded) {
      answer = std::move(loaded);
      done.Notify();
    });
    done.WaitForNotification();
    return answer;
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
  absl::Status Close(const SessionId& id) { return CloseAndWait(*sessions_, {"", id}); }
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
    absl::StatusOr<NewTurn> turn = sessions_->TurnOf({"", kId}, id);
    EXPECT_TRUE(turn.ok()) << turn.status();
    EXPECT_TRUE(turn->Name(id, TurnKind::kGenerate, "digest").ok());
    const absl::Status leased = turn->Lease();
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
  // The sessions in memory leave it, as when their model is unloaded.
  void EndSessions() { sessions_->EndSessionsOn(**models_.Find("m")); }
  // Ends the manager as a server does.
  void End() { sessions_.reset(); }
  // Then the sessions are only in the store.
  using OnSession = std::function<void(const std::shared_ptr<Session>&)>;
  void Restart(const OnSession& restored = nullptr, const OnSession& found = nullptr) {
    End();
    SessionManager::Options options = Options();
    options.restored = restored;
    options.found = found;
    sessions_ = std::make_unique<SessionManager>(&models_, options);
  }
  store::HeldStore& store() { return store_; }

 private:
  void SetHangs(bool hangs) {
    absl::MutexLock lock(&mutex_);
    hangs_ = hangs;
  }
  void WaitWhileHanging() {
    absl::MutexLock lock(&mutex_);
    ++hanging_;
    mutex_.Await(absl::Condition(
        +[](bool* hangs) { return !*hangs; }, &hangs_));
    --hanging_;
  }
  // Whether the disk holds up a transaction, or a read of a call.
  bool HoldsUp() {
    absl::MutexLock lock(&mutex_);
    return (hangs_ && hanging_ > 0) || store_.calls_waiting() > 0;
  }
  // The answer of a close of a session in memory comes from this thread.
  std::thread::id EngineThread() {
    const absl::StatusOr<SessionView> session = Open(std::nullopt, Durability::kMemory);
    EXPECT_TRUE(session.ok()) << session.status();
    std::thread::id thread;
    absl::Notification done;
    sessions_->CloseSession({"", session->id}, [&](const absl::StatusOr<uint64_t>& /*position*/) {
      thread = std::this_thread::get_id();
      done.Notify();
    });
    done.WaitForNotification();
    return thread;
  }
  std::unique_ptr<store::SqliteStore> OpenStore() {
    disk_.SetBeforeFsync([this] { WaitWhileHanging(); });
    return *store::SqliteStore::Open(directory_.string(), {.vfs = disk_.name()});
  }
  SessionManager::Options Options() {
    SessionManager::Options options;
    options.store = &store_;
    options.commits = &commits_;
    options.commit_timeout = commit_timeout_;
    return options;
  }

  const absl::Duration commit_timeout_;
  absl::Mutex mutex_;
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
  int hanging_ ABSL_GUARDED_BY(mutex_) = 0;  // calls of fsync that wait
  const TemporaryDirectory directory_;
  store::FaultyDisk disk_;
  store::HeldStore store_{OpenStore()};
  store::CommitQueue commits_{&store_, store::CommitQueue::Options{}};
  MinimalModel model_;
  ModelRegistry models_{
      {model_.plugins(), model_.host(), model_.registry(), {}}, {model_.Source()}, nullptr};
  std::unique_ptr<SessionManager> sessions_ = std::make_unique<SessionManager>(&models_, Options());
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVING_HANGING_STORE_H_
