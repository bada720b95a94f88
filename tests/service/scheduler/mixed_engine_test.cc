// Prompts that come together are read together; those that come while streams run: at once beside
// streams that begin, else piece by piece.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/scheduler/step_plan.h"
#include "tests/service/scheduler/scheduler_fixture.h"

namespace longstream {
namespace {

// Tokens in what `turn` has queued.
uint64_t TakeTokens(Turn& turn) {
  uint64_t count = 0;
  for (TurnStream::Item item = turn.stream.Next(); item.index() != 0; item = turn.stream.Next()) {
    if (std::holds_alternative<TurnEnd>(item)) return count;
    const auto* delta = std::get_if<DeltaEvent>(&std::get<TurnEvent>(item));
    if (delta != nullptr) count += delta->tokens.size();
  }
  return count;
}

// A stream has generated `before` tokens when another one is asked for, of a prompt of some pieces:
// how many more tokens the first one has when the second one has its first. Both readers run on the
// engine thread, in the order of the turns, when it has taken in a step.
uint64_t TokensBesideAPrompt(uint64_t before) {
  // What the readers use outlives the engine, which calls them when it ends.
  uint64_t tokens = 0, tokens_then = 0;
  absl::Notification done;
  std::shared_ptr<Turn> first, second;
  TestEngine engine("{}", 0, {.max_steps_in_flight = 1});
  const uint32_t grid = engine->model().backend().info().prefill_grid;
  first = std::make_shared<Turn>(Generate(engine.Open(), "abcd", 10000));
  second = std::make_shared<Turn>(Generate(engine.Open(), std::string(3 * grid + 8, 'x'), 1));
  first->stream.SetReader([&] {
    const uint64_t earlier = tokens;
    tokens += TakeTokens(*first);
    if (earlier >= before || tokens < before) return;
    if (!engine->Start(second).ok()) done.Notify();
  });
  second->stream.SetReader([&] {
    if (tokens_then > 0 || TakeTokens(*second) == 0) return;
    tokens_then = tokens;
    first->Cancel();
    done.Notify();
  });
  EXPECT_TRUE(engine->Start(first).ok());
  done.WaitForNotification();
  return tokens_then - before;
}

// The second one's prompt is read in the next step, although what a token of a prompt costs is not
// known: the first prompt is shorter than a grid line.
TEST(MixedEngine, BesideTheFirstTokensAPromptIsReadAtOnce) {
  EXPECT_EQ(TokensBesideAPrompt(2), 1u);
  EXPECT_EQ(TokensBesideAPrompt(kBeginningTokens - 1), 1u);
}

// What decode rows cost alone is learned first.
TEST(MixedEngine, NoPromptIsReadBesideTheVeryFirstDecodeRow) {
  EXPECT_EQ(TokensBesideAPrompt(1), 2u);
}

// Not knowing what a token of a prompt costs, the first piece is one prefill_grid.
TEST(MixedEngine, BesideAStreamThatFlowsItIsReadInPieces) {
  EXPECT_GE(TokensBesideAPrompt(kBeginningTokens), 2u);
}

// One turn comes `pause` after another one, at an engine that sleeps and whose steps take 64 ms:
// how many tokens the first has when the second has its first. Both readers run on the engine
// thread, in the order of the turns.
uint64_t LeadOfTheFirst(absl::Duration pause) {
  // What the readers use outlives the engine, which calls them when it ends.
  uint64_t tokens = 0, lead = 0;
  absl::Notification done;
  std::shared_ptr<Turn> first, second;
  TestEngine engine(R"({"step_delay_us": 64000})", 0, {.max_steps_in_flight = 1});
  const std::string prompt(engine->model().backend().info().prefill_grid, 'x');
  RunTurn(*engine, std::make_shared<Turn>(Generate(engine.Open(), prompt, 1)));
  first = std::make_shared<Turn>(Generate(engine.Open(), prompt, 10000));
  second = std::make_shared<Turn>(Generate(engine.Open(), prompt, 1));
  first->stream.SetReader([&] { tokens += TakeTokens(*first); });
  second->stream.SetReader([&] {
    if (lead > 0 || TakeTokens(*second) == 0) return;
    lead = tokens;
    first->Cancel();
    done.Notify();
  });
  EXPECT_TRUE(engine->Start(first).ok());
  absl::SleepFor(pause);
  EXPECT_TRUE(engine->Start(second).ok());
  done.WaitForNotification();
  return lead;
}

// A 32nd of 64 ms, and at most 1 ms, is waited for the next one. Who comes that soon does not
// always run that soon.
TEST(MixedEngine, TurnsThatComeTogetherBeginTogether) {
  int together = 0;
  for (int i = 0; i < 20 && together == 0; ++i) {
    together += LeadOfTheFirst(absl::Microseconds(400)) == 1 ? 1 : 0;
  }
  EXPECT_EQ(together, 1);
  EXPECT_GE(LeadOfTheFirst(absl::Milliseconds(30)), 2u) << "in the first one's step";
}

}  // namespace
}  // namespace longstream
