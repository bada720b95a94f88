// A call passes on the events of turns, one at a time.
#include "service/serving/turns/turn_pump.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "service/serving/model_registry.h"
#include "service/serving/session_manager.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

// A call that writes the messages of several turns one at a time on a thread of its own, as gRPC
// does. At most one message of each turn waits to be written.
class Call : public std::enable_shared_from_this<Call> {
 public:
  // A turn of the call, and the sink of its events.
  struct Arm : TurnPump::Sink {
    explicit Arm(Call* its_call) : call(its_call) {}

    bool OnEvent(const TurnEvent& event) override {
      EXPECT_FALSE(std::exchange(writing, true)) << "two messages of one turn are being written";
      if (const auto* delta = std::get_if<DeltaEvent>(&event)) text += delta->text;
      call->Queue(this);
      return true;
    }
    void OnEnd(const TurnEnd& turn_end) override {
      end = turn_end;
      call->Ended();
    }

    Call* const call;
    TurnPump pump{this};
    std::string text;
    bool writing = false;
    std::optional<TurnEnd> end;
  };

  // Writes messages until `arms` turns have ended. With `fail_after` >= 0, only that many messages
  // can be written; later ones fail.
  void Write(int arms, int fail_after = -1) {
    for (int written = 0;; ++written) {
      Arm* arm = nullptr;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return !queue_.empty() || ended_ == arms; });
        if (queue_.empty()) return;
        arm = queue_.front();
        queue_.pop_front();
      }
      arm->writing = false;
      arm->pump.Written(fail_after < 0 || written < fail_after);
    }
  }

 private:
  void Queue(Arm* arm) {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(arm);
    changed_.notify_one();
  }
  void Ended() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++ended_;
    changed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Arm*> queue_;
  int ended_ = 0;
};

class TurnPumpTest : public testing::Test {
 protected:
  TurnPumpTest()
      : models_({model_.plugins(), model_.host(), model_.registry(), {}}, {model_.Source()},
                nullptr),
        sessions_(&models_, {}) {
    EXPECT_TRUE(models_.WaitUntilLoaded().ok());
  }

  // A new session's turn, whose lease has been taken.
  NewTurn Leased() {
    absl::Notification done;
    SessionId id;
    sessions_.OpenSession("", "m", std::nullopt, std::nullopt,
                          [&](const absl::StatusOr<SessionView>& view) {
                            EXPECT_TRUE(view.ok()) << view.status();
                            if (view.ok()) id = view->id;
                            done.Notify();
                          });
    done.WaitForNotification();
    absl::StatusOr<NewTurn> turn = sessions_.TurnOf({"", id});
    EXPECT_TRUE(turn.ok() && turn->Lease().ok());
    return *std::move(turn);
  }

  MinimalModel model_;
  ModelRegistry models_;
  SessionManager sessions_;
};

TEST_F(TurnPumpTest, OneCallPassesOnTwoTurns) {
  const auto call = std::make_shared<Call>();
  Call::Arm first(call.get());
  Call::Arm second(call.get());
  std::thread writer([&] { call->Write(2); });
  ASSERT_TRUE(first.pump.Start(Leased(), Generate(nullptr, "a prompt", 300), call).ok());
  ASSERT_TRUE(second.pump.Start(Leased(), Generate(nullptr, "a prompt", 300), call).ok());
  writer.join();
  ASSERT_TRUE(first.end.has_value() && second.end.has_value());
  EXPECT_TRUE(first.end->status.ok()) << first.end->status;
  EXPECT_EQ(first.end->usage.generated_tokens, 300u);
  EXPECT_EQ(first.text, second.text) << "both turns have the same prompt and seed";
}

TEST_F(TurnPumpTest, ACancelBeforeTheStartTakesEffectThere) {
  const auto call = std::make_shared<Call>();
  Call::Arm arm(call.get());
  arm.pump.Cancel(absl::InvalidArgumentError("the first reason"));
  arm.pump.Cancel(absl::CancelledError("a later one"));
  std::thread writer([&] { call->Write(1); });
  ASSERT_TRUE(arm.pump.Start(Leased(), Generate(nullptr, "a prompt", 100000), call).ok());
  writer.join();
  EXPECT_EQ(arm.end->status, absl::InvalidArgumentError("the first reason"));
}

TEST_F(TurnPumpTest, AMessageThatCannotBeWrittenEndsTheTurn) {
  const auto call = std::make_shared<Call>();
  Call::Arm arm(call.get());
  std::thread writer([&] { call->Write(1, /*fail_after=*/5); });
  ASSERT_TRUE(arm.pump.Start(Leased(), Generate(nullptr, "a prompt", 60000), call).ok());
  writer.join();
  EXPECT_EQ(arm.end->status.code(), absl::StatusCode::kCancelled) << arm.end->status;
}

TEST_F(TurnPumpTest, ARefusedTurnHoldsNothing) {
  NewTurn turn = Leased();
  auto call = std::make_shared<Call>();
  const std::weak_ptr<Call> held = call;
  auto arm = std::make_unique<Call::Arm>(call.get());
  (*models_.Find("m"))->BeginDrain();
  const absl::Status status =
      arm->pump.Start(std::move(turn), Generate(nullptr, "a prompt", 10), std::move(call));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_TRUE(held.expired()) << "the refused turn's stream still holds the call";
  EXPECT_FALSE(arm->end.has_value());
}

// A call that leaves each message unwritten until the test calls pump.Written.
class HeldCall : public TurnPump::Sink {
 public:
  bool OnEvent(const TurnEvent& event) override {
    const absl::MutexLock lock(&mutex_);
    if (failed_) return false;
    const auto* delta = std::get_if<DeltaEvent>(&event);
    waits_ = delta == nullptr ? 0 : delta->position;
    has_message_ = true;
    return true;
  }
  void OnEnd(const TurnEnd& turn_end) override {
    const absl::MutexLock lock(&mutex_);
    end_ = turn_end;
  }

  // Waits for the next message. Returns the position that it reaches; 0: it has no tokens.
  uint64_t Wait() {
    const absl::MutexLock lock(&mutex_, absl::Condition(&has_message_));
    has_message_ = false;
    return waits_;
  }
  // Says that the message could not be written. Returns the end of the turn.
  TurnEnd Fail() {
    {
      const absl::MutexLock lock(&mutex_);
      failed_ = true;
    }
    pump.Written(false);
    const auto has_end = [this] { return end_.has_value(); };
    const absl::MutexLock lock(&mutex_, absl::Condition(&has_end));
    return *end_;
  }

  TurnPump pump{this};

 private:
  absl::Mutex mutex_;
  bool has_message_ = false;
  bool failed_ = false;
  uint64_t waits_ = 0;  // position of the message that waits to be written
  std::optional<TurnEnd> end_;
};

TEST_F(TurnPumpTest, AMessageThatIsBeingWrittenIsNotDelivered) {
  const auto call = std::make_shared<HeldCall>();
  TurnRequest request = Generate(nullptr, "a prompt", 60000);
  request.on_abort = OnAbort::kKeep;
  ASSERT_TRUE(call->pump.Start(Leased(), std::move(request), call).ok());
  uint64_t written = 0;
  for (int i = 0; i < 10 || written == 0; ++i) {
    written = call->Wait();
    call->pump.Written(true);
  }
  ASSERT_GT(call->Wait(), written);
  EXPECT_EQ(call->Fail().position, written);
}

}  // namespace
}  // namespace longstream
