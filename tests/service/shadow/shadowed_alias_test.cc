// Turns of sessions that came by an alias with a shadow, through the session manager.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/clock.h"
#include "service/serving/session_manager.h"
#include "service/shadow/shadow_runner.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/metric_value.h"
#include "tests/service/serving/wait_for_session.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

// The aliases "all", "none" and "half" have the model "m" as their only arm and as their shadow,
// with the shares 1, 0 and 0.5. "plain" has no shadow.
class ShadowedAliasTest : public testing::Test {
 protected:
  ShadowedAliasTest()
      : models_({.plugins = model_.plugins(),
                 .host = model_.host(),
                 .metrics = model_.registry(),
                 .engine = EngineOptions(live_)},
                {model_.Source()}, nullptr),
        sessions_(&models_, Options(queue_)),
        runner_(
            queue_, [this](std::string_view model) { return models_.Find(model); }, live_,
            &metrics_) {
    EXPECT_TRUE(models_.WaitUntilLoaded().ok());
  }

  static Engine::Options EngineOptions(std::shared_ptr<LiveWork> live) {
    Engine::Options options;
    options.live_work = std::move(live);
    return options;
  }
  static SessionManager::Options Options(const std::shared_ptr<ShadowQueue>& queue) {
    SessionManager::Options options;
    const std::vector<AliasConfig> aliases = {{"all", {{"m", 1}}, AliasShadow{"m", 1}},
                                              {"half", {{"m", 1}}, AliasShadow{"m", 0.5}},
                                              {"none", {{"m", 1}}, AliasShadow{"m", 0}},
                                              {"plain", {{"m", 1}}}};
    options.aliases = std::make_shared<AliasTable>(aliases);
    options.shadow_tap = [queue](const std::string& model) { return queue->TapFor(model); };
    return options;
  }

  SessionId Open(std::string_view model) {
    const auto session = WaitForSession([&](SessionManager::Opened opened) {
      sessions_.OpenSession("", model, std::nullopt, std::nullopt, std::move(opened));
    });
    EXPECT_TRUE(session.ok()) << session.status();
    return session->id;
  }
  TurnEnd Run(const SessionId& id, uint64_t max_tokens,
              const std::function<void(TurnHandle&)>& started = nullptr) {
    absl::StatusOr<NewTurn> turn = sessions_.TurnOf({"", id});
    EXPECT_TRUE(turn.ok() && turn->Lease().ok());
    TurnHandle handle = turn->Make(Generate(nullptr, "text", max_tokens), nullptr);
    EXPECT_TRUE(turn->Start(handle).ok());
    if (started) started(handle);
    while (true) {
      const TurnStream::Item item = handle.Next();
      if (const auto* end = std::get_if<TurnEnd>(&item)) return *end;
      if (std::holds_alternative<std::monostate>(item)) absl::SleepFor(absl::Microseconds(100));
    }
  }
  double Metric(const std::string& name) {
    return MetricValue(*model_.registry(), name, {{"pair", "m/m"}});
  }
  bool AwaitTurns(double turns) {
    return WaitUntil([&] { return Metric("longstream_shadow_turns_total") == turns; });
  }

  MinimalModel model_;
  ShadowMetrics metrics_{model_.registry()};
  const std::shared_ptr<LiveWork> live_ = std::make_shared<LiveWork>();
  const std::shared_ptr<ShadowQueue> queue_ =
      std::make_shared<ShadowQueue>(ShadowQueue::Limits{}, &metrics_);
  ModelRegistry models_;
  SessionManager sessions_;
  ShadowRunner runner_;
};

TEST_F(ShadowedAliasTest, EachTurnIsReplayedWithItsHistory) {
  const SessionId id = Open("all");
  ASSERT_TRUE(Run(id, 10).status.ok());
  ASSERT_TRUE(AwaitTurns(1));
  ASSERT_TRUE(Run(id, 20).status.ok());
  ASSERT_TRUE(AwaitTurns(2));
  EXPECT_EQ(Metric("longstream_compare_tokens_total"), 30) << "only the tokens of the answers";
  EXPECT_EQ(Metric("longstream_compare_top1_agreements_total"), 30);
}

TEST_F(ShadowedAliasTest, TheShareChoosesTurns) {
  for (const char* model : {"none", "plain", "m"}) ASSERT_TRUE(Run(Open(model), 5).status.ok());
  const SessionId id = Open("half");
  constexpr int kTurns = 64;  // as many as the queue holds
  for (int i = 0; i < kTurns; ++i) ASSERT_TRUE(Run(id, 1).status.ok());
  ASSERT_TRUE(Run(Open("all"), 5).status.ok());
  // The turns before have one token each, and the turn of "all", which is replayed last, has five.
  ASSERT_TRUE(WaitUntil([&] {
    const double tokens = Metric("longstream_compare_tokens_total");
    return tokens - Metric("longstream_shadow_turns_total") == 4;
  }));
  // All but 1e-9 of the binomial distribution, and the turn of "all".
  const double turns = Metric("longstream_shadow_turns_total");
  EXPECT_GE(turns, 1 + 8);
  EXPECT_LE(turns, 1 + 56);
}

TEST_F(ShadowedAliasTest, ATurnThatIsRolledBackIsNotReplayed) {
  const SessionId id = Open("all");
  const TurnEnd end = Run(id, 60000, [](TurnHandle& turn) { turn.Cancel(); });
  EXPECT_TRUE(absl::IsCancelled(end.status));
  ASSERT_TRUE(Run(id, 5).status.ok());
  ASSERT_TRUE(AwaitTurns(1));
  EXPECT_EQ(Metric("longstream_compare_tokens_total"), 5);
}

TEST_F(ShadowedAliasTest, ADrainDoesNotWaitForAReplay) {
  const SessionId id = Open("all");
  const LiveWork::Part part = live_->Begin();  // so that the replay cannot begin
  ASSERT_TRUE(Run(id, 5).status.ok());
  sessions_.Drain(absl::InfiniteDuration());
  EXPECT_EQ(Metric("longstream_shadow_turns_total"), 0);
}

}  // namespace
}  // namespace longstream
