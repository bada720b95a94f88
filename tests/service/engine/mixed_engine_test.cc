// Prompts that arrive together are read together. A prompt that arrives while streams run is read
// at once if the streams are just beginning, and otherwise piece by piece.
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

// Prompts take so long that the engine waits 1/32 of their time for further turns.
constexpr char kStepsOf64Ms[] = R"({"step_delay_us": 64000})";

// A prompt of one grid interval, long enough for the engine to measure the cost of a prompt token.
std::string Prompt(TestEngine& engine) {
  return std::string(engine->model().backend().info().prefill_grid, 'x');
}

// Makes the engine measure the cost of a prompt token.
void LearnCosts(TestEngine& engine) {
  RunTurn(*engine, std::make_shared<SessionTurn>(Generate(engine.Open(), Prompt(engine), 1)));
}

// Takes all events that `turn` has queued. Returns the number of their tokens, and stores the
// turn's end if it is among them.
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

// A stream has generated `before` tokens when a second turn with a prompt of several pieces is
// started. Returns how many more tokens the stream has when the second turn has its first token.
// Both readers run on the engine's thread after each step, in the order of the turns.
uint64_t TokensBesideAPrompt(uint64_t before, bool costs_are_known = false) {
  // The readers' variables are declared before the engine, because the engine calls the readers
  // when it ends.
  uint64_t tokens = 0, tokens_then = 0;
  bool asked = false;
  absl::Notification done;
  std::shared_ptr<SessionTurn> first, second;
  TestEngine engine(costs_are_known ? kStepsOf64Ms : "{}", 0, {.max_steps_in_flight = 1});
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

// The second prompt is read as a whole in the next step. At that time the cost of a prompt token is
// not known, because the first prompt is shorter than one grid interval.
TEST(MixedEngine, BesideTheFirstTokensAPromptIsReadAtOnce) {
  EXPECT_EQ(TokensBesideAPrompt(2), 1u);
  EXPECT_EQ(TokensBesideAPrompt(kBeginningTokens - 1), 1u);
}

// A step of decode rows alone comes first, so that the engine learns the cost of decode rows.
TEST(MixedEngine, NoPromptIsReadBesideTheVeryFirstDecodeRow) {
  EXPECT_EQ(TokensBesideAPrompt(1), 2u);
}

// The cost of a prompt token is not known, so the first piece is one prefill_grid long.
TEST(MixedEngine, BesideAStreamThatFlowsItIsReadInPieces) {
  EXPECT_GE(TokensBesideAPrompt(kBeginningTokens), 2u);
}

// The test starts the second turn when the first turn's reader gets the event that the first turn
// has started.
TEST(MixedEngine, TurnsThatComeTogetherBeginTogether) {
  EXPECT_EQ(TokensBesideAPrompt(0, /*costs_are_known=*/true), 1u);
}

// The test cancels the turn when the turn's reader gets the event that the turn has started. At
// that time the engine still gathers other turns for the step.
TEST(MixedEngine, ATurnThatIsCancelledMeanwhileIsNotRead) {
  uint64_t tokens = 0;
  std::optional<TurnEnd> end;
  absl::Notification done;
  std::shared_ptr<SessionTurn> turn;
  TestEngine engine(kStepsOf64Ms, 0, {.max_steps_in_flight = 1});
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
