// The table of sessions and the one-writer rule.
#include "service/sessions/session_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace longstream {
namespace {

// One that has been opened: its turn is free.
std::shared_ptr<Session> NewSession(uint64_t low, const char* model = "m",
                                    absl::Duration timeout = absl::Hours(1)) {
  auto session = std::make_shared<Session>(SessionId{0, low}, model, 100, timeout);
  session->EndTurn();
  return session;
}

TEST(Session, HoldsItsTurnUntilItIsOpened) {
  Session session(SessionId{0, 1}, "m", 100, absl::Seconds(10));
  EXPECT_TRUE(session.View().turn_running);
  EXPECT_EQ(session.BeginTurn(std::nullopt).code(), absl::StatusCode::kAborted);
  EXPECT_FALSE(session.Expired(MonotonicTime::Now() + absl::Hours(1)));
  session.EndTurn();
  EXPECT_TRUE(session.BeginTurn(std::nullopt).ok());
}

TEST(Session, OneTurnAtATime) {
  const auto session = NewSession(1);
  EXPECT_TRUE(session->BeginTurn(std::nullopt).ok());
  EXPECT_TRUE(session->View().turn_running);
  EXPECT_EQ(session->BeginTurn(std::nullopt).code(), absl::StatusCode::kAborted);
  session->EndTurn();
  EXPECT_TRUE(session->BeginTurn(std::nullopt).ok());
  session->EndTurn();
}

TEST(Session, ExpectedPositionIsChecked) {
  const auto session = NewSession(1);
  ASSERT_TRUE(session->BeginTurn(0).ok());
  session->tokens = {1, 2, 3};
  session->EndTurn();
  const absl::Status status = session->BeginTurn(0);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("at position 3, the request expects 0"), std::string::npos);
  EXPECT_FALSE(session->View().turn_running) << "a refused turn holds nothing";
  EXPECT_TRUE(session->BeginTurn(3).ok());
}

TEST(Session, ExactlyOneOfManyWritersWins) {
  const auto session = NewSession(1);
  std::atomic<int> inside = 0;
  std::atomic<int> won = 0;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        if (!session->BeginTurn(std::nullopt).ok()) continue;
        EXPECT_EQ(inside.fetch_add(1), 0);
        session->tokens.push_back(i);
        won.fetch_add(1);
        inside.fetch_sub(1);
        session->EndTurn();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(session->View().position, static_cast<uint64_t>(won.load()));
  EXPECT_GT(won.load(), 0);
}

TEST(Session, NoTurnAfterClose) {
  const auto session = NewSession(1);
  EXPECT_TRUE(session->Close());
  EXPECT_FALSE(session->Close());
  EXPECT_EQ(session->BeginTurn(std::nullopt).code(), absl::StatusCode::kNotFound);
}

TEST(Session, ExpiresOnlyWhenIdle) {
  const auto session = NewSession(1, "m", absl::Seconds(10));
  const MonotonicTime now = MonotonicTime::Now();
  EXPECT_FALSE(session->Expired(now));
  EXPECT_TRUE(session->Expired(now + absl::Seconds(11)));
  ASSERT_TRUE(session->BeginTurn(std::nullopt).ok());
  EXPECT_FALSE(session->CloseIfExpired(now + absl::Seconds(11)));
  session->EndTurn();
  EXPECT_TRUE(session->CloseIfExpired(now + absl::Seconds(60)));
  EXPECT_FALSE(session->CloseIfExpired(now + absl::Seconds(60))) << "it is closed once";
}

// The idle time counts from the end of a turn, however long that was.
TEST(Session, ATurnIsUse) {
  const auto session = NewSession(1, "m", absl::Milliseconds(50));
  const absl::Time opened = session->View().last_use_time;
  absl::SleepFor(absl::Milliseconds(2));
  ASSERT_TRUE(session->BeginTurn(std::nullopt).ok());
  const absl::Time begun = session->View().last_use_time;
  EXPECT_GT(begun, opened);
  absl::SleepFor(absl::Milliseconds(60));
  const MonotonicTime before_end = MonotonicTime::Now();
  session->EndTurn();
  const MonotonicTime after_end = MonotonicTime::Now();
  EXPECT_GE(session->View().last_use_time - begun, absl::Milliseconds(50));
  EXPECT_FALSE(session->Expired(before_end + absl::Milliseconds(50)));
  EXPECT_TRUE(session->Expired(after_end + absl::Milliseconds(51)));
}

TEST(SessionTable, IdsAreUniqueAndFound) {
  SessionTable table(0);
  EXPECT_TRUE(table.Insert(NewSession(1)).ok());
  EXPECT_EQ(table.Insert(NewSession(1)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(table.Find(SessionId{0, 1}).ok());
  EXPECT_EQ(table.Find(SessionId{0, 2}).status().code(), absl::StatusCode::kNotFound);
}

// Whoever closes a session late must not take out the one that has its id now.
TEST(SessionTable, RemovesThisSessionAndNoOther) {
  SessionTable table(0);
  const auto session = NewSession(1);
  const auto successor = NewSession(1);
  ASSERT_TRUE(table.Insert(session).ok());
  table.Remove(*session);
  EXPECT_EQ(table.size(), 0u);
  ASSERT_TRUE(table.Insert(successor).ok());
  table.Remove(*session);
  EXPECT_EQ(*table.Find(SessionId{0, 1}), successor);
}

TEST(SessionTable, LimitIsResourceExhausted) {
  SessionTable table(2);
  EXPECT_TRUE(table.Insert(NewSession(1)).ok());
  EXPECT_TRUE(table.Insert(NewSession(2)).ok());
  EXPECT_EQ(table.Insert(NewSession(3)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(table.Insert(NewSession(2)).code(), absl::StatusCode::kAlreadyExists);
}

TEST(SessionTable, PagesFollowEachOther) {
  SessionTable table(0);
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(table.Insert(NewSession(i, i % 2 == 0 ? "even" : "odd")).ok());
  }
  std::vector<uint64_t> seen;
  std::optional<SessionId> after;
  while (true) {
    const auto page = table.List(after, 2, "even");
    if (page.empty()) break;
    for (const auto& session : page) seen.push_back(session->id().low);
    after = page.back()->id();
  }
  EXPECT_EQ(seen, (std::vector<uint64_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(table.List(std::nullopt, 100, "").size(), 10u);
}

}  // namespace
}  // namespace longstream
