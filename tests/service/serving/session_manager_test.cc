// The service without its wire: sessions by id, models by name, draining, expiry.
#include "service/serving/session_manager.h"

#include <gtest/gtest.h>

#include <functional>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

class SessionManagerTest : public testing::Test {
 protected:
  explicit SessionManagerTest(SessionManager::Options options = {})
      : models_({model_.plugins(), model_.host(), model_.registry(), {}},
                {model_.Source(), Broken()}, nullptr),
        sessions_(&models_, options) {
    EXPECT_FALSE(models_.WaitUntilLoaded().ok()) << "one of the two is broken";
  }

  ModelSource Broken() const {
    ModelSource source = model_.Source();
    source.name = "broken";
    source.directory = "/nonexistent";
    return source;
  }

  absl::StatusOr<SessionView> Open(std::string_view model = "m",
                                   std::optional<SessionId> id = std::nullopt,
                                   std::optional<absl::Duration> timeout = std::nullopt) {
    return Wait([&](SessionManager::Opened opened) {
      sessions_.OpenSession(model, id, timeout, std::move(opened));
    });
  }

  absl::StatusOr<SessionView> Wait(const std::function<void(SessionManager::Opened)>& call) {
    absl::Notification done;
    absl::StatusOr<SessionView> result = absl::UnknownError("not called");
    call([&](absl::StatusOr<SessionView> view) {
      result = std::move(view);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  std::shared_ptr<Turn> NewTurn(const SessionId& id, uint64_t max_tokens) {
    return std::make_shared<Turn>(Generate(*sessions_.Find(id), "text", max_tokens));
  }

  absl::Status Start(const std::shared_ptr<Turn>& turn) {
    return sessions_.Route(turn->request.session->id())->engine->Start(turn);
  }

  MinimalModel model_;
  ModelRegistry models_;
  SessionManager sessions_;
};

TEST_F(SessionManagerTest, OpensUnderTheChosenIdOnce) {
  const SessionId id{1, 2};
  const auto session = Open("m", id);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->id, id);
  EXPECT_EQ(Open("m", id).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(sessions_.List(std::nullopt, 10, "").size(), 1u);
}

TEST_F(SessionManagerTest, UnknownAndBrokenModels) {
  EXPECT_EQ(Open("nobody").status().code(), absl::StatusCode::kNotFound);
  const absl::Status broken = Open("broken").status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(broken.message().find("/nonexistent"), std::string::npos) << broken;
}

TEST_F(SessionManagerTest, IdleTimeoutLimits) {
  EXPECT_EQ(Open("m", std::nullopt, absl::Hours(25)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Open("m", std::nullopt, absl::ZeroDuration()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(SessionManagerTest, IdleSessionsExpire) {
  const auto session = Open("m", std::nullopt, absl::Milliseconds(50));
  ASSERT_TRUE(session.ok());
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  while (sessions_.Find(session->id).ok() && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_EQ(sessions_.Find(session->id).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SessionManagerTest, ForkAndClose) {
  const auto session = Open();
  ASSERT_TRUE(session.ok());
  const auto turn = NewTurn(session->id, 10);
  ASSERT_TRUE(Start(turn).ok());
  ASSERT_TRUE(ReadToEnd(*turn).end.status.ok());
  const auto fork = Wait([&](SessionManager::Opened opened) {
    sessions_.ForkSession(session->id, std::nullopt, std::nullopt, std::move(opened));
  });
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->position, 14u);
  EXPECT_EQ(fork->forked_from, session->id);

  absl::Notification done;
  absl::StatusOr<uint64_t> position = absl::UnknownError("not called");
  sessions_.CloseSession(session->id, [&](const absl::StatusOr<uint64_t>& closed) {
    position = closed;
    done.Notify();
  });
  done.WaitForNotification();
  ASSERT_TRUE(position.ok());
  EXPECT_EQ(*position, 14u);
  EXPECT_FALSE(sessions_.Find(session->id).ok());
  EXPECT_TRUE(sessions_.Find(fork->id).ok());
}

TEST_F(SessionManagerTest, DrainLetsTurnsFinish) {
  const auto session = Open();
  ASSERT_TRUE(session.ok());
  const auto turn = NewTurn(session->id, 200);
  ASSERT_TRUE(Start(turn).ok());
  sessions_.Drain(absl::Seconds(60));
  const Outcome outcome = ReadToEnd(*turn);
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.tokens.size(), 200u);
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace longstream
