// The sessions of tenants are apart, with and without a store.
#include "tests/service/serving/tenant_sessions.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/serving/log/turn_codec.h"

namespace longstream {
namespace {

constexpr SessionId kId{1, 2};
constexpr SessionId kUnknown{3, 4};
constexpr TurnId kTurn{5, 6};

class TenantSessionsTest : public testing::TestWithParam<bool> {
 protected:
  TenantSessions sessions_{{.tenants = {{.name = "a", .quotas = {}}, {.name = "b", .quotas = {}}},
                            .has_store = GetParam()}};
};

INSTANTIATE_TEST_SUITE_P(Stores, TenantSessionsTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Store" : "Memory"; });

std::vector<SessionId> Ids(const std::vector<SessionView>& views) {
  std::vector<SessionId> ids;
  ids.reserve(views.size());
  for (const SessionView& view : views) ids.push_back(view.id);
  return ids;
}

TEST_P(TenantSessionsTest, OneIdNamesASessionOfEach) {
  ASSERT_TRUE(sessions_.Open("a", kId).ok());
  ASSERT_TRUE(sessions_.Open("b", kId).ok());
  ASSERT_TRUE(sessions_.Turn({"a", kId}, "hello", 5).ok());
  EXPECT_EQ(sessions_->View({"a", kId})->position, 10u);
  EXPECT_EQ(sessions_->View({"b", kId})->position, 0u);
  ASSERT_TRUE(sessions_.Close({"a", kId}).ok());
  EXPECT_TRUE(absl::IsNotFound(sessions_->View({"a", kId}).status()));
  EXPECT_TRUE(sessions_.Turn({"b", kId}, "hello", 5).ok());
  EXPECT_EQ(sessions_.UseOf("a").sessions, 0u);
  EXPECT_EQ(sessions_.UseOf("b").sessions, 1u);
}

TEST_P(TenantSessionsTest, ListsHaveTheSessionsOfOne) {
  ASSERT_TRUE(sessions_.Open("a", SessionId{0, 1}).ok());
  ASSERT_TRUE(sessions_.Open("b", SessionId{0, 2}).ok());
  ASSERT_TRUE(sessions_.Open("a", SessionId{0, 3}).ok());
  using List = std::vector<SessionId>;
  EXPECT_EQ(Ids(sessions_->List("a", std::nullopt, 10).sessions), (List{{0, 1}, {0, 3}}));
  EXPECT_EQ(Ids(sessions_->List("a", SessionId{0, 1}, 10).sessions), (List{{0, 3}}));
  EXPECT_EQ(Ids(sessions_->List("a", SessionId{0, 3}, 10).sessions), List{});
  EXPECT_EQ(Ids(sessions_->List("b", std::nullopt, 1, {.model = "m", .alias = ""}).sessions),
            (List{{0, 2}}));
}

// Every call gives the same status and text for another tenant's session as for an unknown one.
TEST_P(TenantSessionsTest, AnotherTenantsSessionIsUnknown) {
  ASSERT_TRUE(sessions_.Open("a", kId).ok());
  ASSERT_TRUE(sessions_.Turn({"a", kId}, "hello", 5).ok());
  uint64_t next = 0;
  const std::function<absl::Status(const SessionKey&)> calls[] = {
      [&](const SessionKey& key) { return sessions_->View(key).status(); },
      [&](const SessionKey& key) { return sessions_.Fork(key).status(); },
      [&](const SessionKey& key) {
        return sessions_.Rewind(key, Place{.turn = {}, .position = 0}).status();
      },
      [&](const SessionKey& key) { return sessions_.Close(key); },
      [&](const SessionKey& key) { return sessions_.Cancel(key, kTurn); },
      [&](const SessionKey& key) { return sessions_.Export(key).status(); },
      [&](const SessionKey& key) { return sessions_->ListTurns(key, 0, 10, &next).status(); },
      [&](const SessionKey& key) { return sessions_.Turn(key, "x", 1).status(); },
  };
  const auto text = [](const absl::Status& status, const SessionId& id) {
    std::string message(status.message());
    const size_t at = message.find(id.ToString());
    if (at != std::string::npos) message.replace(at, id.ToString().size(), "ID");
    return message;
  };
  for (size_t i = 0; i < std::size(calls); ++i) {
    SCOPED_TRACE(i);
    const absl::Status foreign = calls[i]({"b", kId});
    const absl::Status unknown = calls[i]({"b", kUnknown});
    EXPECT_TRUE(absl::IsNotFound(foreign)) << foreign;
    EXPECT_EQ(foreign.code(), unknown.code());
    EXPECT_EQ(text(foreign, kId), text(unknown, kUnknown));
  }
  EXPECT_EQ(sessions_->View({"a", kId})->position, 10u) << "the session is as it was";
}

TEST_P(TenantSessionsTest, TenantsThatAreNotConfiguredAreRefused) {
  EXPECT_TRUE(absl::IsPermissionDenied(sessions_.Open("c").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(sessions_.Open("").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(sessions_->ScoreWith("c", "m").status()));
  EXPECT_TRUE(absl::IsNotFound(sessions_->View({"c", kId}).status()));
}

TEST(StoredTenants, AreApartAfterARestart) {
  TenantSessions sessions(
      {.tenants = {{.name = "a", .quotas = {.sessions = 2}}, {.name = "b", .quotas = {}}},
       .has_store = true});
  ASSERT_TRUE(sessions.Open("a", kId).ok());
  ASSERT_TRUE(sessions.Open("b", kId).ok());
  ASSERT_TRUE(sessions.Turn({"a", kId}, "hello", 5).ok());
  sessions.Restart();
  EXPECT_EQ(sessions.UseOf("a").sessions, 1u) << "the store has it";
  EXPECT_EQ(sessions->View({"a", kId})->position, 10u);
  EXPECT_EQ(sessions->View({"b", kId})->position, 0u);
  ASSERT_TRUE(sessions.Turn({"b", kId}, "other", 3).ok());
  ASSERT_TRUE(sessions.Turn({"a", kId}, "more", 3).ok());
  EXPECT_EQ(sessions->View({"a", kId})->position, 17u);
  EXPECT_EQ(sessions->View({"b", kId})->position, 8u);
  EXPECT_EQ(sessions.UseOf("a").sessions, 1u) << "a restored session counts once";
  ASSERT_TRUE(sessions.Open("a").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(sessions.Open("a").status()));
  ASSERT_TRUE(sessions.Close({"a", kId}).ok());
  EXPECT_TRUE(sessions.Open("a").ok());
}

TEST(StoredTenants, ImportsBelongToTheirTenant) {
  TenantSessions sessions(
      {.tenants = {{.name = "a", .quotas = {}}, {.name = "b", .quotas = {.sessions = 1}}},
       .has_store = true});
  ASSERT_TRUE(sessions.Open("a", kId).ok());
  ASSERT_TRUE(sessions.Turn({"a", kId}, "hello", 5).ok());
  const auto file = sessions.Export({"a", kId});
  ASSERT_TRUE(file.ok()) << file.status();
  const auto imported = sessions.Import("b", **file);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->position, 10u);
  EXPECT_TRUE(sessions->View({"b", imported->id}).ok());
  EXPECT_TRUE(absl::IsNotFound(sessions->View({"a", imported->id}).status()));
  EXPECT_EQ(sessions.UseOf("b").sessions, 1u);
  const auto again = sessions.Export({"a", kId});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(absl::IsResourceExhausted(sessions.Import("b", **again).status()));
  EXPECT_EQ(sessions.UseOf("b").sessions, 1u);
  ASSERT_TRUE(sessions.Close({"b", imported->id}).ok());
  EXPECT_EQ(sessions.UseOf("b").sessions, 0u);
  EXPECT_EQ(sessions.UseOf("a").sessions, 1u);
}

// The snapshots of a session are found by what its caches have read, so equal sessions share them.
TEST(StoredTenants, DoNotShareSnapshots) {
  TenantSessions sessions(
      {.tenants = {{.name = "a", .quotas = {}}, {.name = "b", .quotas = {}}}, .has_store = true});
  const std::string text(300, 'x');
  for (const char* tenant : {"a", "b"}) {
    ASSERT_TRUE(sessions.Open(tenant, kId).ok());
    ASSERT_TRUE(sessions.Turn({tenant, kId}, text, 5).ok());
  }
  for (const char* tenant : {"a", "b"}) {
    const auto end = sessions.Turn({tenant, kId}, "", 2);
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end->usage.restored_tokens, 0u);
  }
  ASSERT_TRUE(sessions.Open("b", kUnknown).ok());
  const auto end = sessions.Turn({"b", kUnknown}, text, 5);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->usage.reused_tokens + end->usage.restored_tokens, 0u);
}

// A transaction of the store that imports a session and stands still until Release.
class HeldCommit {
 public:
  HeldCommit(store::CommitQueue& commits, const SessionKey& key) {
    store::ImportSession change;
    change.row.key = key;
    change.row.model = "m";
    change.row.create_time = change.row.last_use_time = absl::Now();
    change.row.delete_time = absl::InfiniteFuture();
    change.properties_of = [this](const std::vector<store::TurnNumber>&) {
      begun_.Notify();
      go_on_.WaitForNotification();
      return EncodeProperties(LoggedProperties());
    };
    commits.Submit(std::move(change), [this](const absl::StatusOr<store::Applied>& applied) {
      EXPECT_TRUE(applied.ok()) << applied.status();
      done_.Notify();
    });
    begun_.WaitForNotification();
  }
  ~HeldCommit() { Release(); }
  HeldCommit(const HeldCommit&) = delete;
  HeldCommit& operator=(const HeldCommit&) = delete;

  void Release() {
    if (!go_on_.HasBeenNotified()) go_on_.Notify();
    done_.WaitForNotification();
  }

 private:
  absl::Notification begun_, go_on_, done_;
};

class ClosedStoredSessionTest : public testing::Test {
 protected:
  ClosedStoredSessionTest() {
    EXPECT_TRUE(sessions_.Open("a", kId).ok());
    EXPECT_TRUE(sessions_.Turn({"a", kId}, "hello", 5).ok());
  }

  // Closes the session while the store is busy; other calls use it meanwhile.
  void CloseAndUse() {
    HeldCommit held(sessions_.commits(), {"b", kUnknown});
    absl::Status status;
    absl::Notification closed;
    sessions_->CloseSession({"a", kId}, [&](const absl::StatusOr<uint64_t>& position) {
      status = position.status();
      closed.Notify();
    });
    for (int i = 0; i < 20; ++i) sessions_->TurnOf({"a", kId}).status().IgnoreError();
    held.Release();
    closed.WaitForNotification();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(absl::IsNotFound(sessions_->TurnOf({"a", kId}).status()));
    EXPECT_TRUE(absl::IsNotFound(sessions_->View({"a", kId}).status()));
    EXPECT_TRUE(absl::IsNotFound(sessions_.Close({"a", kId})));
    EXPECT_EQ(sessions_.UseOf("a").sessions, 0u);
    ASSERT_TRUE(sessions_.Open("a", kId).ok());
    EXPECT_TRUE(sessions_.Turn({"a", kId}, "hello", 5).ok());
  }

  TenantSessions sessions_{
      {.tenants = {{.name = "a", .quotas = {}}, {.name = "b", .quotas = {}}}, .has_store = true}};
};

TEST_F(ClosedStoredSessionTest, IsNotRestoredMeanwhileFromTheStoreAlone) {
  sessions_.Restart();
  CloseAndUse();
}

TEST_F(ClosedStoredSessionTest, IsNotRestoredMeanwhileFromMemory) { CloseAndUse(); }

// The import commits after the open has looked for the id, and before it adds its row.
TEST(StoredTenants, AnOpenThatFailsLeavesTheSessionThatHasItsId) {
  TenantSessions sessions(
      {.tenants = {{.name = "a", .quotas = {}}, {.name = "b", .quotas = {}}}, .has_store = true});
  absl::Notification opened;
  absl::Status status;
  {
    HeldCommit held(sessions.commits(), {"a", kId});
    sessions->OpenSession("a", "m", kId, std::nullopt,
                          [&](const absl::StatusOr<SessionView>& session) {
                            status = session.status();
                            opened.Notify();
                          });
    const absl::Time until = absl::Now() + absl::Seconds(30);
    while (!sessions->View({"a", kId}).ok() && absl::Now() < until) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  opened.WaitForNotification();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  sessions.Restart();
  EXPECT_TRUE(sessions->View({"a", kId}).ok()) << "the session of the import";
  EXPECT_EQ(sessions.UseOf("a").sessions, 1u);
  EXPECT_TRUE(sessions.Close({"a", kId}).ok());
  EXPECT_EQ(sessions.UseOf("a").sessions, 0u);
}

}  // namespace
}  // namespace longstream
