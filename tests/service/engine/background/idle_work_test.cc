// Work on a model for which no client waits: when it runs, and who waits for it.
#include "service/engine/idle_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <variant>

#include "absl/synchronization/notification.h"
#include "service/engine/live_work.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

// Counts of the work. They may outlive the work.
struct Counts {
  std::atomic<int> pieces{0};
  std::atomic<int> disturbed{0};
};

// Has so many pieces, and calls `piece` in each of them.
class CountingWork final : public IdleWork {
 public:
  CountingWork(int pieces, std::shared_ptr<Counts> counts, std::function<void()> piece)
      : left_(pieces), counts_(std::move(counts)), piece_(std::move(piece)) {}

  bool Run(BackendModel&) override {
    if (piece_) piece_();
    ++counts_->pieces;
    return --left_ > 0;
  }
  void Disturb() override { ++counts_->disturbed; }
  void Yield() override {}

 private:
  int left_;
  const std::shared_ptr<Counts> counts_;
  const std::function<void()> piece_;
};

std::shared_ptr<Counts> Begin(TestEngine& engine, int pieces,
                              std::function<void()> piece = nullptr) {
  auto counts = std::make_shared<Counts>();
  engine->RunWhenIdle(std::make_unique<CountingWork>(pieces, counts, std::move(piece)));
  return counts;
}

Engine::Options LiveOptions(std::shared_ptr<LiveWork> live) {
  Engine::Options options;
  options.live_work = std::move(live);
  options.background_pause = absl::ZeroDuration();
  return options;
}

TEST(IdleWork, WaitsForTheLiveWorkOfOtherEngines) {
  const auto live = std::make_shared<LiveWork>();
  TestEngine engine("{}", 0, LiveOptions(live));
  LiveWork::Part part = live->Begin();
  const std::shared_ptr<Counts> counts = Begin(engine, 3);
  for (int i = 0; i < 20; ++i) engine->Flush();
  EXPECT_EQ(counts->pieces, 0);
  part.End();  // wakes the engine
  EXPECT_TRUE(WaitUntil([&] { return counts->pieces == 3; }));
  EXPECT_EQ(counts->disturbed, 0);
}

TEST(IdleWork, LearnsOfLiveWorkThatBeginsDuringAPiece) {
  const auto live = std::make_shared<LiveWork>();
  TestEngine engine("{}", 0, LiveOptions(live));
  bool is_first = true;
  const std::shared_ptr<Counts> counts = Begin(engine, 3, [&] {
    if (std::exchange(is_first, false)) live->Begin().End();
  });
  EXPECT_TRUE(WaitUntil([&] { return counts->pieces == 3; }));
  EXPECT_EQ(counts->disturbed, 1);
}

TEST(IdleWork, TurnsInTheBackgroundOfOtherEnginesWaitForIt) {
  const auto live = std::make_shared<LiveWork>();
  TestEngine engine("{}", 0, LiveOptions(live));
  TestEngine other("{}", 0, LiveOptions(live));
  absl::Notification has_begun;
  absl::Notification may_end;
  const std::shared_ptr<Counts> counts = Begin(engine, 1, [&] {
    has_begun.Notify();
    may_end.WaitForNotification();
  });
  has_begun.WaitForNotification();
  SessionTurnRequest request;
  request.kind = TurnKind::kScore;
  request.prompt = Bytes("a text");
  request.background = true;
  const auto turn = std::make_shared<SessionTurn>(request);
  ASSERT_TRUE(other.Start(turn).ok());
  for (int i = 0; i < 20; ++i) other->Flush();
  EXPECT_FALSE(std::holds_alternative<TurnEnd>(turn->stream.Next()));
  may_end.Notify();
  EXPECT_TRUE(ReadToEnd(*turn).end.status.ok());
  EXPECT_EQ(counts->pieces, 1);
}

}  // namespace
}  // namespace longstream
