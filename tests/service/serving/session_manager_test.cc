// The service without gRPC: sessions by id, models by name, draining, expiry.
#include "service/serving/session_manager.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <variant>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/serving/wait_for_session.h"

namespace longstream {
namespace {

class SessionManagerTest : public testing::Test {
 protected:
  explicit SessionManagerTest(SessionManager::Options options = {})
      : models_({model_.plugins(), model_.host(), model_.registry(), {}},
                {model_.Source(), Broken()}, nullptr),
        sessions_(&models_, options) {
    EXPECT_FALSE(models_.WaitUntilLoaded().ok()) << "the broken model should fail to load";
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
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_.OpenSession("", model, id, timeout, std::move(opened));
    });
  }

  // Starts a turn that reads "text" and generates. Returns an error if the turn is refused.
  absl::StatusOr<TurnHandle> Start(const SessionId& id, uint64_t max_tokens,
                                   std::optional<uint64_t> expected_position = std::nullopt) {
    absl::StatusOr<NewTurn> turn = sessions_.TurnOf({"", id});
    if (!turn.ok()) return turn.status();
    absl::Status status = turn->Lease(expected_position);
    if (!status.ok()) return turn->Refuse(status);
    TurnHandle handle = turn->Make(Generate(nullptr, "text", max_tokens), nullptr);
    status = turn->Start(handle);
    if (!status.ok()) return status;
    return handle;
  }

  // Reads the turn to its end. Adds the number of its tokens to *tokens.
  static TurnEnd ReadToEnd(TurnHandle turn, size_t* tokens = nullptr) {
    while (true) {
      const TurnStream::Item item = turn.Next();
      if (const auto* end = std::get_if<TurnEnd>(&item)) return *end;
      const auto* event = std::get_if<TurnEvent>(&item);
      if (event == nullptr) {
        absl::SleepFor(absl::Microseconds(100));
      } else if (const auto* delta = std::get_if<DeltaEvent>(event)) {
        if (tokens != nullptr) *tokens += delta->tokens.size();
      }
    }
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
  const auto turn = Start(id, 10);
  ASSERT_TRUE(turn.ok() && ReadToEnd(*turn).status.ok());
  const auto repeated = Open("m", id);
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_EQ(repeated->position, 14u) << "the session should be as it stands";
  EXPECT_EQ(Open("m", id, absl::Minutes(1)).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(sessions_.List("", std::nullopt, 10).sessions.size(), 1u);
}

TEST_F(SessionManagerTest, AnIdThatTheServerDrewCannotBeOpenedAgain) {
  const auto session = Open("m");
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(Open("m", session->id).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(SessionManagerTest, EqualForksAreOneSession) {
  const auto session = Open("m");
  ASSERT_TRUE(session.ok()) << session.status();
  const auto fork = [&](std::optional<absl::Duration> timeout = std::nullopt) {
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_.ForkSession({"", session->id}, SessionId{3, 4}, timeout, std::move(opened));
    });
  };
  ASSERT_TRUE(fork().ok());
  const auto turn = Start(session->id, 10);
  ASSERT_TRUE(turn.ok() && ReadToEnd(*turn).status.ok());
  ASSERT_TRUE(fork().ok());
  EXPECT_EQ(fork()->position, 0u) << "the fork should be as it stands";
  EXPECT_EQ(fork(absl::Minutes(1)).status().code(), absl::StatusCode::kAlreadyExists);
  absl::Notification closed;
  sessions_.CloseSession({"", session->id},
                         [&](const absl::StatusOr<uint64_t>&) { closed.Notify(); });
  closed.WaitForNotification();
  EXPECT_TRUE(fork().ok()) << "a repeat does not need the source";
}

// Many equal calls at once make one session, and all get it.
TEST_F(SessionManagerTest, EqualOpensAtOnce) {
  constexpr int kCalls = 20;
  const SessionId id{5, 6};
  std::atomic<int> opened{0};
  for (int i = 0; i < kCalls; ++i) {
    sessions_.OpenSession("", "m", id, std::nullopt,
                          [&](const absl::StatusOr<SessionView>& session) {
                            EXPECT_TRUE(session.ok()) << session.status();
                            ++opened;
                          });
  }
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  while (opened < kCalls && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(opened, kCalls);
  EXPECT_EQ(sessions_.List("", std::nullopt, 10).sessions.size(), 1u);
}

TEST_F(SessionManagerTest, UnknownAndBrokenModels) {
  EXPECT_EQ(Open("nobody").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Open("nobody").status().message(), "model: no model 'nobody'; available: broken, m");
  EXPECT_EQ(Open("").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Open("").status().message(),
            "model: the server has several models, and the request names none; available: broken, "
            "m");
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
  while (sessions_.View({"", session->id}).ok() && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_EQ(sessions_.View({"", session->id}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SessionManagerTest, ForkAndClose) {
  const auto session = Open();
  ASSERT_TRUE(session.ok());
  const auto turn = Start(session->id, 10);
  ASSERT_TRUE(turn.ok()) << turn.status();
  ASSERT_TRUE(ReadToEnd(*turn).status.ok());
  const auto fork = WaitForSession([&](SessionManager::Opened opened) {
    sessions_.ForkSession({"", session->id}, std::nullopt, std::nullopt, std::move(opened));
  });
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->position, 14u);
  EXPECT_EQ(fork->forked_from, session->id);

  absl::Notification done;
  absl::StatusOr<uint64_t> position = absl::UnknownError("not called");
  sessions_.CloseSession({"", session->id}, [&](const absl::StatusOr<uint64_t>& closed) {
    position = closed;
    done.Notify();
  });
  done.WaitForNotification();
  ASSERT_TRUE(position.ok());
  EXPECT_EQ(*position, 14u);
  EXPECT_FALSE(sessions_.View({"", session->id}).ok());
  EXPECT_TRUE(sessions_.View({"", fork->id}).ok());
}

TEST_F(SessionManagerTest, ARefusedTurnIsCountedAndLeavesTheSessionFree) {
  const auto session = Open();
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(Start(session->id, 1, /*expected_position=*/7).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(model_.RequestsCounted("FAILED_PRECONDITION"), 1);
  {
    absl::StatusOr<NewTurn> dropped = sessions_.TurnOf({"", session->id});
    ASSERT_TRUE(dropped.ok() && dropped->Lease().ok());
    EXPECT_EQ(Start(session->id, 1).status().code(), absl::StatusCode::kAborted);
    const auto fork = WaitForSession([&](SessionManager::Opened opened) {
      sessions_.ForkSession({"", session->id}, std::nullopt, std::nullopt, std::move(opened));
    });
    EXPECT_EQ(fork.status().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(sessions_.List("", std::nullopt, 10).sessions.size(), 1u)
        << "the refused fork left a session";
  }
  const auto turn = Start(session->id, 1);
  ASSERT_TRUE(turn.ok()) << turn.status();
  EXPECT_TRUE(ReadToEnd(*turn).status.ok());
}

TEST_F(SessionManagerTest, AScoreHasASessionThatNobodyFinds) {
  absl::StatusOr<NewTurn> turn = sessions_.ScoreWith("", "m");
  ASSERT_TRUE(turn.ok()) << turn.status();
  ASSERT_TRUE(turn->Lease().ok());
  EXPECT_TRUE(turn->history().tokens.empty());
  EXPECT_TRUE(sessions_.List("", std::nullopt, 10).sessions.empty());
  TurnRequest request;
  request.kind = TurnKind::kScore;
  request.prompt = Bytes("a text");
  const TurnHandle handle = turn->Make(request, nullptr);
  ASSERT_TRUE(turn->Start(handle).ok());
  EXPECT_TRUE(ReadToEnd(handle).status.ok());
  EXPECT_EQ(sessions_.ScoreWith("", "nobody").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SessionManagerTest, DrainLetsTurnsFinish) {
  const auto session = Open();
  ASSERT_TRUE(session.ok());
  const auto turn = Start(session->id, 200);
  ASSERT_TRUE(turn.ok()) << turn.status();
  sessions_.Drain(absl::Seconds(60));
  size_t tokens = 0;
  const TurnEnd end = ReadToEnd(*turn, &tokens);
  EXPECT_TRUE(end.status.ok()) << end.status;
  EXPECT_EQ(tokens, 200u);
  EXPECT_EQ(Start(session->id, 1).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kUnavailable);
}

// A manager whose model has memory for three states of sequences. A session has one state, and a
// running turn has one more for its rollback point. One session runs a turn, which waits for input.
class FullManagerTest : public testing::Test {
 protected:
  FullManagerTest()
      : models_({model_.plugins(), model_.host(), model_.registry(), {}},
                {model_.Source("{}", 3 * StateBytes())}, nullptr),
        sessions_(&models_, {}) {
    EXPECT_TRUE(models_.WaitUntilLoaded().ok());
    running_ = Append(Open(std::nullopt)->id);
  }
  ~FullManagerTest() override {
    running_.Cancel();
    while (models_.Find("m").value()->num_turns() > 0) absl::SleepFor(absl::Milliseconds(1));
  }

  static uint64_t StateBytes() {
    TestEngine engine;
    return engine->model().backend().info().state_bytes_per_sequence;
  }

  absl::StatusOr<SessionView> Open(std::optional<SessionId> id) {
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_.OpenSession("", "m", id, std::nullopt, std::move(opened));
    });
  }
  // Starts a turn that waits for input, and waits until it is admitted.
  TurnHandle Append(const SessionId& id) {
    absl::StatusOr<NewTurn> turn = sessions_.TurnOf({"", id});
    EXPECT_TRUE(turn->Lease().ok());
    TurnRequest request;
    request.kind = TurnKind::kAppend;
    TurnHandle handle = turn->Make(std::move(request), nullptr);
    EXPECT_TRUE(turn->Start(handle).ok());
    while (std::holds_alternative<std::monostate>(handle.Next())) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return handle;
  }

  MinimalModel model_;
  ModelRegistry models_;
  SessionManager sessions_;
  TurnHandle running_;
};

TEST_F(FullManagerTest, AForkWithoutMemoryLeavesNothing) {
  const auto session = Open(std::nullopt);
  ASSERT_TRUE(session.ok()) << session.status();
  for (int i = 0; i < 2; ++i) {
    const auto fork = WaitForSession([&](SessionManager::Opened opened) {
      sessions_.ForkSession({"", session->id}, SessionId{1, 2}, std::nullopt, std::move(opened));
    });
    EXPECT_EQ(fork.status().code(), absl::StatusCode::kResourceExhausted) << i;
    EXPECT_EQ(sessions_.List("", std::nullopt, 10).sessions.size(), 2u);
  }
  EXPECT_FALSE(sessions_.View({"", session->id})->turn_running) << "the fork gave its source back";
}

TEST_F(FullManagerTest, ASessionWithoutMemoryLeavesNothing) {
  models_.Find("m").value()->SetBudget(2 * StateBytes(), [](const absl::Status&) {});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Open(SessionId{1, 2}).status().code(), absl::StatusCode::kResourceExhausted) << i;
    EXPECT_EQ(sessions_.List("", std::nullopt, 10).sessions.size(), 1u);
  }
}

TEST_F(FullManagerTest, IdleSessionsMakeRoomForOthers) {
  for (uint64_t i = 1; i <= 5; ++i) {
    const auto session = Open(SessionId{1, i});
    ASSERT_TRUE(session.ok()) << i << ": " << session.status();
    EXPECT_GT(session->bytes.state, 0u);
    if (i == 1) continue;
    EXPECT_EQ(sessions_.View({"", SessionId{1, i - 1}})->bytes.state, 0u) << i;
  }
}

TEST(ModelRegistry, LoadsWhenItIsToldTo) {
  MinimalModel model;
  ModelRegistry::Options options{model.plugins(), model.host(), model.registry(), {}};
  options.load_at_once = false;
  { const ModelRegistry never(options, {model.Source()}, nullptr); }  // it ends without loading
  ModelRegistry models(options, {model.Source()}, nullptr);
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(models.Status("m")->state, ModelState::kLoading);
  models.BeginToLoad();
  EXPECT_TRUE(models.WaitUntilLoaded().ok());
}

}  // namespace
}  // namespace longstream
