// Sessions whose client has named how long the store keeps them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/serving/log/turn_codec.h"
#include "service/serving/session_manager.h"
#include "service/sessions/store/commit_queue.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/serving/wait_for_session.h"
#include "tests/service/sessions/store/session_store_suite.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr SessionId kId{1, 2};
constexpr absl::Duration kServers = absl::Hours(10);
constexpr absl::Duration kMost = absl::Hours(100);
constexpr absl::Duration kNamed = absl::Hours(50);

using Ttl = std::optional<absl::Duration>;

class SessionTtlTest : public testing::TestWithParam<store::Driver> {
 protected:
  SessionTtlTest() {
    EXPECT_TRUE(models_.WaitUntilLoaded().ok());
    Start(kServers, kMost);
  }
  ~SessionTtlTest() override { Stop(); }

  void Start(absl::Duration ttl, absl::Duration max_ttl) {
    auto store = GetParam().open(directory_.string() + "/store");
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    commits_ = std::make_unique<store::CommitQueue>(store_.get(), store::CommitQueue::Options{});
    SessionManager::Options options;
    options.store = store_.get();
    options.commits = commits_.get();
    options.commit_timeout = absl::Hours(1);
    options.ttl = ttl;
    options.max_ttl = max_ttl;
    sessions_ = std::make_unique<SessionManager>(&models_, options);
  }
  void Stop() {
    sessions_.reset();
    commits_.reset();
    store_.reset();
  }
  void Restart(absl::Duration ttl, absl::Duration max_ttl) {
    Stop();
    Start(ttl, max_ttl);
  }

  absl::StatusOr<SessionView> Open(Ttl ttl, std::optional<SessionId> id = kId,
                                   Durability durability = Durability::kDefault) {
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_->OpenSession("", "m", id, std::nullopt, std::move(opened),
                             {.durability = durability, .ttl = ttl});
    });
  }
  absl::StatusOr<SessionView> Fork(const Place& place = {}) {
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_->ForkSession({"", kId}, std::nullopt, std::nullopt, std::move(opened), place);
    });
  }
  void RewindTo(uint64_t position) {
    const auto rewound = WaitForSession([&](const SessionManager::Opened& opened) {
      Place place;
      place.position = position;
      sessions_->RewindSession({"", kId}, place, std::nullopt, opened);
    });
    EXPECT_TRUE(rewound.ok()) << rewound.status();
  }
  void Turn(const SessionId& id = kId) {
    absl::StatusOr<NewTurn> turn = sessions_->TurnOf({"", id});
    ASSERT_TRUE(turn.ok()) << turn.status();
    (void)turn->Id(TurnKind::kGenerate);
    ASSERT_TRUE(turn->Lease().ok());
    TurnHandle handle = turn->Make(Generate(nullptr, "hello", 5), nullptr);
    const absl::Status started = turn->Start(handle);
    ASSERT_TRUE(started.ok()) << started;
    while (true) {
      const TurnStream::Item item = handle.Next();
      if (const auto* end = std::get_if<TurnEnd>(&item)) {
        EXPECT_TRUE(end->status.ok()) << end->status;
        break;
      }
      if (std::get_if<TurnEvent>(&item) == nullptr) absl::SleepFor(absl::Microseconds(100));
    }
    (*models_.Find("m"))->Flush();
  }
  absl::StatusOr<std::shared_ptr<SessionExport>> Export() {
    absl::StatusOr<std::shared_ptr<SessionExport>> exported = absl::UnknownError("not called");
    absl::Notification done;
    sessions_->ExportSession({"", kId}, [&](absl::StatusOr<std::shared_ptr<SessionExport>> made) {
      exported = std::move(made);
      done.Notify();
    });
    done.WaitForNotification();
    return exported;
  }
  std::string Exported() {
    const auto file = Export();
    EXPECT_TRUE(file.ok()) << file.status();
    std::string all, piece;
    do {
      EXPECT_TRUE((*file)->Read(size_t{1} << 20, &piece).ok());
      all += piece;
    } while (!piece.empty());
    return all;
  }
  absl::StatusOr<SessionView> Import(const std::string& file) {
    SessionImport::Wanted wanted;
    wanted.id = SessionId::Random();
    const auto import = sessions_->ImportSession("", wanted);
    if (!import.ok()) return import.status();
    absl::Status written;
    absl::Notification done;
    (*import)->Write(file, [&](const absl::Status& status) {
      written = status;
      done.Notify();
    });
    done.WaitForNotification();
    if (!written.ok()) return written;
    return WaitForSession(
        [&](SessionManager::Opened opened) { (*import)->Finish(std::move(opened)); });
  }

  // What the store, the session and a list say.
  void ExpectTtl(absl::Duration ttl, const SessionId& id = kId) {
    const absl::StatusOr<store::SessionRow> row = store_->Session({"", id});
    ASSERT_TRUE(row.ok()) << row.status();
    EXPECT_EQ(row->delete_time - row->last_use_time, ttl);
    const absl::StatusOr<SessionView> view = sessions_->View({"", id});
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ(view->ttl, Ttl(ttl));
    for (const SessionView& listed : sessions_->List("", std::nullopt, 10).sessions) {
      EXPECT_TRUE(listed.id != id || listed.ttl == Ttl(ttl));
    }
  }

  const TemporaryDirectory directory_;
  MinimalModel model_;
  ModelRegistry models_{
      {model_.plugins(), model_.host(), model_.registry(), {}}, {model_.Source()}, nullptr};
  std::unique_ptr<store::SessionStore> store_;
  std::unique_ptr<store::CommitQueue> commits_;
  std::unique_ptr<SessionManager> sessions_;
};

INSTANTIATE_TEST_SUITE_P(Drivers, SessionTtlTest, store::AllDrivers(), store::NameOfDriver);

TEST_P(SessionTtlTest, EachTurnPostponesTheEndByTheTtlOfTheSession) {
  const absl::StatusOr<SessionView> opened = Open(kNamed);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->ttl, Ttl(kNamed));
  ExpectTtl(kNamed);
  Turn();
  ExpectTtl(kNamed);
  Turn();
  RewindTo(8);
  Turn();
  ExpectTtl(kNamed);
}

TEST_P(SessionTtlTest, ASessionKeepsItsTtlAlsoIfTheServerAllowsLessNow) {
  ASSERT_TRUE(Open(kNamed).ok());
  Turn();
  Restart(absl::Hours(1), absl::Hours(2));
  ExpectTtl(kNamed);  // as the store has it
  Turn();
  ExpectTtl(kNamed);
  RewindTo(8);
  Restart(absl::Hours(1), absl::Hours(2));
  Turn();
  ExpectTtl(kNamed);
}

TEST_P(SessionTtlTest, WithoutATtlThatOfTheServerApplies) {
  const absl::StatusOr<SessionView> opened = Open(std::nullopt);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->ttl, Ttl(kServers));
  Turn();
  ExpectTtl(kServers);
  Restart(absl::Hours(20), kMost);
  Turn();
  ExpectTtl(absl::Hours(20));
}

TEST_P(SessionTtlTest, ForksKeepItWithinTheLimitOfTheServer) {
  ASSERT_TRUE(Open(kNamed).ok());
  Turn();
  Turn();
  Place place;
  place.position = 8;
  for (const Place& at : {Place(), place}) {
    const absl::StatusOr<SessionView> fork = Fork(at);
    ASSERT_TRUE(fork.ok()) << fork.status();
    ExpectTtl(kNamed, fork->id);
    Turn(fork->id);
    ExpectTtl(kNamed, fork->id);
  }
  Restart(absl::Hours(1), absl::Hours(2));
  const absl::StatusOr<SessionView> fork = Fork();
  ASSERT_TRUE(fork.ok()) << fork.status();
  ExpectTtl(absl::Hours(2), fork->id);
  Turn(fork->id);
  ExpectTtl(absl::Hours(2), fork->id);
}

TEST_P(SessionTtlTest, ImportsKeepItWithinTheLimitOfTheServer) {
  ASSERT_TRUE(Open(kNamed).ok());
  Turn();
  const std::string file = Exported();
  const absl::StatusOr<SessionView> copy = Import(file);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->ttl, Ttl(kNamed));
  EXPECT_GT(copy->version, 0u);
  ExpectTtl(kNamed, copy->id);
  Restart(absl::Hours(1), absl::Hours(2));
  const absl::StatusOr<SessionView> less = Import(file);
  ASSERT_TRUE(less.ok()) << less.status();
  ExpectTtl(absl::Hours(2), less->id);
  Turn(less->id);
  ExpectTtl(absl::Hours(2), less->id);
}

TEST_P(SessionTtlTest, AFileWithoutATtlGetsThatOfTheServer) {
  ASSERT_TRUE(Open(std::nullopt).ok());
  Turn();
  const std::string file = Exported();
  Restart(absl::Hours(20), kMost);
  const absl::StatusOr<SessionView> copy = Import(file);
  ASSERT_TRUE(copy.ok()) << copy.status();
  ExpectTtl(absl::Hours(20), copy->id);
}

TEST_P(SessionTtlTest, AFileWithANegativeTtlIsRefused) {
  store::SessionRow row;
  row.key = {"", kId};
  row.model = "m";
  row.create_time = row.last_use_time = absl::Now();
  LoggedProperties properties;
  properties.idle_timeout = absl::Hours(1);
  properties.ttl = -absl::Hours(1);
  row.properties = EncodeProperties(properties);
  const auto made = store::ApplyOne(*store_, store::OpenSession{row});
  ASSERT_TRUE(made.ok()) << made.status();
  const absl::Status refused = Import(Exported()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("session.properties"));
}

TEST_P(SessionTtlTest, OnlyAnEqualRequestIsARepeat) {
  ASSERT_TRUE(Open(kNamed).ok());
  for (const bool restarts : {false, true}) {
    if (restarts) Restart(absl::Hours(1), absl::Hours(2));
    const absl::StatusOr<SessionView> repeat = Open(kNamed);
    ASSERT_TRUE(repeat.ok()) << repeat.status();
    EXPECT_EQ(repeat->ttl, Ttl(kNamed));
    EXPECT_EQ(Open(absl::Hours(1)).status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(Open(std::nullopt).status().code(), absl::StatusCode::kAlreadyExists);
  }
}

TEST_P(SessionTtlTest, TheLimitsAreNamed) {
  for (const absl::Duration wrong :
       {absl::ZeroDuration(), -absl::Seconds(1), kMost + absl::Nanoseconds(1)}) {
    const absl::Status refused = Open(wrong).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_EQ(refused.message(),
              "ttl: expected more than 0 and at most 100h, found " + absl::FormatDuration(wrong));
  }
  ASSERT_TRUE(Open(kMost).ok());
  ExpectTtl(kMost);
  // The store has whole microseconds.
  const absl::StatusOr<SessionView> least = Open(absl::Nanoseconds(1), std::nullopt);
  ASSERT_TRUE(least.ok()) << least.status();
  EXPECT_EQ(least->ttl, Ttl(absl::Microseconds(1)));
}

TEST_P(SessionTtlTest, ASessionInMemoryHasNone) {
  const absl::Status refused = Open(kNamed, kId, Durability::kMemory).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_EQ(refused.message(),
            "ttl: expected none, because a session with DURABILITY_MEMORY ends after its "
            "idle_timeout; found 50h");
  const absl::StatusOr<SessionView> opened = Open(std::nullopt, kId, Durability::kMemory);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->ttl, std::nullopt);

  SessionManager without_store(&models_, {});
  const auto open = [&](SessionManager::Opened answer) {
    without_store.OpenSession("", "m", kId, std::nullopt, std::move(answer), {.ttl = kNamed});
  };
  const absl::Status no_store = WaitForSession(open).status();
  EXPECT_EQ(no_store.code(), absl::StatusCode::kFailedPrecondition) << no_store;
  EXPECT_THAT(no_store.message(), HasSubstr("ttl: the server has no store"));
}

TEST_P(SessionTtlTest, TheStoreForgetsTheSessionThen) {
  ASSERT_TRUE(Open(absl::Milliseconds(1)).ok());
  const SessionId other = Open(kNamed, std::nullopt)->id;
  Restart(kServers, kMost);  // it looks for such sessions soon after its start
  EXPECT_TRUE(WaitUntil([&] { return absl::IsNotFound(store_->Session({"", kId}).status()); }));
  EXPECT_TRUE(store_->Session({"", other}).ok());
}

}  // namespace
}  // namespace longstream
