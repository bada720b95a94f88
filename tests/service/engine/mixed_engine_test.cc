// Prompts that come together are read together; those that come while streams run: at once beside
// streams that begin, else piece by piece.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "service/engine/policy/step_plan.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

// A step takes so long that a 32nd of it is worth waiting for.
constexpr char kSlow[] = R"({"step_delay_us": 64000})";

// One that tells what a token of a prompt costs.
std::string Prompt(TestEngine& engine) {
  return std::string(engine->model().backend().info().prefill_grid, 'x');
}

// So that what a token of a prompt costs is known.
void LearnCosts(TestEngine& engine) {
  RunTurn(*engine, std::make_shared<SessionTurn>(Generate(engine.Open(), Prompt(engine), 1)));
}

// Tokens in what `turn` has queued, and its end, if that is there.
uint64_t TakeTokens(Turn& turn, std::optional<TurnEnd>* end = nullptr) {
  uint64_t count = 0;
  for (TurnStream::Item item = turn.stream.Next(); item.index() != 0; item = turn.stream.Next()) {
    if (const auto* last = std::get_if<TurnEnd>(&item)) {
      if (end != nullptr) *end = *last;
      return count;
    }
    const auto* delta = std::get_if<DeltaEvent>(&std::get<TurnEvent>(item));
    if (delta != nullptr) count += delta->tokens.size();
  }
  return count;
}

// A stream has generated `before` tokens when another one is asked for, of a prompt of some pieces:
// how many more tokens the first one has when the second one has its first. Both readers run on the
// engine thread, in the order of the turns, when it has taken in a step.
uint64_t TokensBesideAPrompt(uint64_t before, bool costs_are_known = false) {
  // What the readers use outlives the engine, which calls them when it ends.
  uint64_t tokens = 0, tokens_then = 0;
  bool asked = false;
  absl::Notification done;
  std::shared_ptr<SessionTurn> first, second;
  TestEngine engine(costs_are_known ? kSlow : "{}", 0, {.max_steps_in_flight = 1});
  if (costs_are_known) LearnCosts(engine);
  const uint32_t grid = engine->model().backend().info().prefill_grid;
  first = std::make_shared<SessionTurn>(Generate(engine.Open(), "abcd", 10000));
  second =
      std::make_shared<SessionTurn>(Generate(engine.Open(), std::string(3 * grid + 8, 'x'), 1));
  first->stream.SetReader([&] {
    tokens += TakeTokens(*first);
    if (tokens < before || std::exchange(asked, true)) return;
    if (!engine.Start(second).ok()) done.Notify();
  });
  second->stream.SetReader([&] {
    if (tokens_then > 0 || TakeTokens(*second) == 0) return;
    tokens_then = tokens;
    first->Cancel();
    done.Notify();
  });
  EXPECT_TRUE(engine.Start(first).ok());
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

// The second one is asked for when the first one hears that it has started.
TEST(MixedEngine, TurnsThatComeTogetherBeginTogether) {
  EXPECT_EQ(TokensBesideAPrompt(0, /*costs_are_known=*/true), 1u);
}

// It is cancelled when it hears that it has started: before the step that waits for others to join.
TEST(MixedEngine, ATurnThatIsCancelledMeanwhileIsNotRead) {
  uint64_t tokens = 0;
  std::optional<TurnEnd> end;
  absl::Notification done;
  std::shared_ptr<SessionTurn> turn;
  TestEngine engine(kSlow, 0, {.max_steps_in_flight = 1});
  LearnCosts(engine);
  turn = std::make_shared<SessionTurn>(Generate(engine.Open(), Prompt(engine), 1));
  turn->stream.SetReader([&] {
    turn->Cancel();
    engine->Wake();
    tokens += TakeTokens(*turn, &end);
    if (end.has_value()) done.Notify();
  });
  ASSERT_TRUE(engine.Start(turn).ok());
  done.WaitForNotification();
  EXPECT_EQ(end->status.code(), absl::StatusCode::kCancelled) << end->status;
  EXPECT_EQ(tokens, 0u);
}

}  // namespace
}  // namespace longstream
