// Open, Fork, Close and turns of one session at the same time. In every order each call gets an
// answer, and no session or memory is left behind.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/chat/history_bytes.h"
#include "service/serving/model_registry.h"
#include "service/serving/session_manager.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

TurnLease NewSession(TestEngine& engine, uint64_t low) {
  return engine.NewSession(SessionId{7, low});
}

// Blocks the engine's thread inside a callback, so that a test knows the order of the messages
// after it.
class HeldEngine {
 public:
  explicit HeldEngine(TestEngine& engine) : engine_(engine) {
    TurnLease lease = NewSession(engine, 999);
    session_ = lease.session();
    engine_->Open(std::move(lease),
                  [this](const absl::Status&) { release_.WaitForNotification(); });
  }
  // Unblocks the engine and waits until it has handled all messages sent before.
  void Release() {
    session_->Close();
    engine_->Close(session_, [](uint64_t) {});
    release_.Notify();
    engine_->Flush();
  }

 private:
  TestEngine& engine_;
  std::shared_ptr<Session> session_;
  absl::Notification release_;
};

uint64_t BytesHeld(TestEngine& engine) {
  const ls_memory memory = engine->model().backend().memory();
  return memory.states + memory.checkpoints;
}

TEST(SessionLife, ClosedBeforeItsOpenGetsNoCaches) {
  TestEngine engine;
  HeldEngine held(engine);
  TurnLease lease = NewSession(engine, 1);
  const std::shared_ptr<Session> session = lease.session();
  ASSERT_TRUE(session->Close());
  engine->Close(session, [](uint64_t) {});
  absl::Status opened;
  engine->Open(std::move(lease), [&](const absl::Status& status) { opened = status; });
  held.Release();
  EXPECT_EQ(opened.code(), absl::StatusCode::kCancelled) << opened;
  EXPECT_EQ(BytesHeld(engine), 0u) << "the closed session still holds memory";
}

TEST(SessionLife, ForkOfASessionClosedMeanwhileIsNotFound) {
  TestEngine engine;
  const auto source = engine.Open();
  HeldEngine held(engine);
  TurnLease from = *TurnLease::Take(source);
  ASSERT_TRUE(source->Close());
  engine->Close(source, [](uint64_t) {});
  TurnLease to = NewSession(engine, 1);
  const std::shared_ptr<Session> target = to.session();
  absl::Status forked;
  engine->Fork(std::move(from), std::move(to),
               [&](const absl::Status& status) { forked = status; });
  held.Release();
  EXPECT_EQ(forked.code(), absl::StatusCode::kNotFound) << forked;
  EXPECT_EQ(TurnLease::Take(target).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(BytesHeld(engine), 0u);
}

TEST(SessionLife, ForkWhoseTargetIsClosedMeanwhileIsCancelled) {
  TestEngine engine;
  const auto source = engine.Open();
  HeldEngine held(engine);
  TurnLease from = *TurnLease::Take(source);
  TurnLease to = NewSession(engine, 1);
  const std::shared_ptr<Session> target = to.session();
  ASSERT_TRUE(target->Close());
  engine->Close(target, [](uint64_t) {});
  absl::Status forked;
  engine->Fork(std::move(from), std::move(to),
               [&](const absl::Status& status) { forked = status; });
  held.Release();
  EXPECT_EQ(forked.code(), absl::StatusCode::kCancelled) << forked;
  EXPECT_TRUE(
      RunTurn(*engine, std::make_shared<SessionTurn>(Generate(source, "a", 3))).end.status.ok());
}

TEST(SessionLife, TurnOfASessionClosedMeanwhileIsCancelled) {
  TestEngine engine;
  const auto session = engine.Open();
  HeldEngine held(engine);
  const auto turn = std::make_shared<SessionTurn>(Generate(session, "a", 1000));
  ASSERT_TRUE(engine.Start(turn).ok());
  ASSERT_TRUE(session->Close());  // the engine runs the turn's message before Close's
  held.Release();
  EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kCancelled);
  engine->Close(session, [](uint64_t) {});
  engine->Flush();
  EXPECT_EQ(BytesHeld(engine), 0u);
}

// A session in the table that has no caches yet cannot take turns.
TEST(SessionLife, SessionBeingOpenedIsBusy) {
  TestEngine engine;
  HeldEngine held(engine);
  TurnLease lease = NewSession(engine, 1);
  const std::shared_ptr<Session> session = lease.session();
  engine->Open(std::move(lease), [](const absl::Status&) {});
  EXPECT_EQ(TurnLease::Take(session).status().code(), absl::StatusCode::kAborted);
  held.Release();
  EXPECT_TRUE(TurnLease::Take(session).ok());
}

// Several threads make all kinds of calls on three session ids at once.
class SessionHammer : public testing::Test {
 protected:
  static constexpr int kThreads = 6;
  static constexpr int kCallsPerThread = 400;

  SessionHammer()
      : models_({model_.plugins(), model_.host(), model_.registry(), {}},
                {model_.Source(R"({"step_delay_us": 50})")}, nullptr),
        sessions_(&models_, {}) {
    EXPECT_TRUE(models_.WaitUntilLoaded().ok());
  }

  // Makes a call that takes a callback, and waits until the callback runs.
  void Await(const std::function<void(SessionManager::Opened)>& call) {
    absl::Notification done;
    call([&](const absl::StatusOr<SessionView>&) { done.Notify(); });
    done.WaitForNotification();
  }

  void Close(const SessionId& id) {
    absl::Notification done;
    sessions_.CloseSession({"", id}, [&](const absl::StatusOr<uint64_t>&) { done.Notify(); });
    done.WaitForNotification();
  }

  // A conversation with one more message. Forks share the messages.
  std::shared_ptr<const chat::History> Continue(
      const std::shared_ptr<const chat::History>& before) {
    auto history = std::make_shared<chat::History>();
    if (before != nullptr) history->conversation = before->conversation;
    history->conversation.messages.push_back(chat::Value::MakeText(std::string(1000, 'm')));
    EXPECT_TRUE(chat::ChargeHistory(before.get(), models_.host_memory(), history.get()).ok());
    return history;
  }

  // Starts a turn. If it starts, reads it to its end or cancels it.
  void Run(const SessionId& id, TurnKind kind, bool cancel) {
    absl::StatusOr<NewTurn> turn = sessions_.TurnOf({"", id});
    if (!turn.ok() || !turn->Lease().ok()) return;
    TurnRequest request = Generate(nullptr, kind == TurnKind::kGenerate ? "ab" : "", 20);
    request.kind = kind;
    if (kind == TurnKind::kGenerate) request.conversation = Continue(turn->history().conversation);
    TurnHandle handle = turn->Make(std::move(request), nullptr);
    if (!turn->Start(handle).ok()) return;
    ++turns_;
    if (kind == TurnKind::kAppend) {
      handle.AddInput(Bytes("some input"));
      handle.CloseInput();
    }
    if (cancel) handle.Cancel();
    for (bool ended = false; !ended;) {
      const TurnStream::Item item = handle.Next();
      ended = std::holds_alternative<TurnEnd>(item);
      if (std::holds_alternative<std::monostate>(item)) absl::SleepFor(absl::Microseconds(100));
    }
  }

  void CallAtRandom(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < kCallsPerThread; ++i) {
      const SessionId id{0, random() % kIds};
      const SessionId other{0, random() % kIds};
      switch (random() % 6) {
        case 0:
        case 1:
          Await([&](SessionManager::Opened opened) {
            sessions_.OpenSession("", "m", id, std::nullopt, std::move(opened));
          });
          break;
        case 2:
          Await([&](SessionManager::Opened opened) {
            sessions_.ForkSession({"", id}, other, std::nullopt, std::move(opened));
          });
          break;
        case 3:
          Close(id);
          break;
        case 4:
          Run(id, TurnKind::kGenerate, random() % 2 == 0);
          break;
        default:
          Run(id, TurnKind::kAppend, random() % 2 == 0);
          break;
      }
    }
  }

  static constexpr uint64_t kIds = 3;
  MinimalModel model_;
  ModelRegistry models_;
  SessionManager sessions_;
  std::atomic<int> turns_{0};
};

TEST_F(SessionHammer, NothingIsLeftBehind) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] { CallAtRandom(static_cast<uint64_t>(t)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(turns_.load(), 0) << "no turn was started, so nothing was tested";
  for (uint64_t low = 0; low < kIds; ++low) Close(SessionId{0, low});
  EXPECT_TRUE(sessions_.List("", std::nullopt, 10).sessions.empty());
  const auto engine = models_.Find("m");
  ASSERT_TRUE(engine.ok());
  EXPECT_EQ((*engine)->num_turns(), 0u);
  (*engine)->Flush();  // the engine forgets a turn after the reader has got its end
  const ls_memory memory = (*engine)->model().backend().memory();
  EXPECT_EQ(memory.states + memory.checkpoints, 0u);
  EXPECT_EQ(models_.host_memory()->held_bytes(), 0u);
}

}  // namespace
}  // namespace longstream
