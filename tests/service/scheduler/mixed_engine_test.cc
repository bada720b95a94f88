// Prompts that come together are read together; those that come while streams run: at once beside
// streams that begin, else piece by piece.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "service/scheduler/step_plan.h"
#include "tests/service/scheduler/scheduler_fixture.h"

namespace longstream {
namespace {

// A step takes so long that a 32nd of it is worth waiting for.
constexpr char kSlow[] = R"({"step_delay_us": 64000})";

// As much as tells what a token of a prompt costs.
std::string Prompt(TestEngine& engine) {
  return std::string(engine->model().backend().info().prefill_grid, 'x');
}

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

// The second turn comes when the first one hears that it has started: they are read in one step.
TEST(MixedEngine, TurnsThatComeTogetherBeginTogether) {
  // What the readers use outlives the engine, which calls them when it ends.
  uint64_t tokens = 0, lead = 0;
  bool started = false;
  absl::Notification done;
  std::shared_ptr<Turn> first, second;
  TestEngine engine(kSlow, 0, {.max_steps_in_flight = 1});
  RunTurn(*engine, std::make_shared<Turn>(Generate(engine.Open(), Prompt(engine), 1)));
  first = std::make_shared<Turn>(Generate(engine.Open(), Prompt(engine), 10000));
  second = std::make_shared<Turn>(Generate(engine.Open(), Prompt(engine), 1));
  first->stream.SetReader([&] {
    tokens += TakeTokens(*first);
    if (!std::exchange(started, true) && !engine->Start(second).ok()) done.Notify();
  });
  second->stream.SetReader([&] {
    if (lead > 0 || TakeTokens(*second) == 0) return;
    lead = tokens;
    first->Cancel();
    done.Notify();
  });
  ASSERT_TRUE(engine->Start(first).ok());
  done.WaitForNotification();
  EXPECT_EQ(lead, 1u) << "tokens of the first when the second has one";
}

// It does so when it hears that it has started: before the step that it waits for others to join.
TEST(MixedEngine, ATurnThatIsCancelledMeanwhileIsNotRead) {
  uint64_t tokens = 0;
  absl::Status status;
  absl::Notification done;
  std::shared_ptr<Turn> turn;
  TestEngine engine(kSlow, 0, {.max_steps_in_flight = 1});
  RunTurn(*engine, std::make_shared<Turn>(Generate(engine.Open(), Prompt(engine), 1)));
  turn = std::make_shared<Turn>(Generate(engine.Open(), Prompt(engine), 1));
  turn->stream.SetReader([&] {
    turn->Cancel();
    engine->Wake();
    for (TurnStream::Item item = turn->stream.Next(); item.index() != 0;
         item = turn->stream.Next()) {
      const auto* end = std::get_if<TurnEnd>(&item);
      if (end == nullptr) {
        const auto* delta = std::get_if<DeltaEvent>(&std::get<TurnEvent>(item));
        if (delta != nullptr) tokens += delta->tokens.size();
        continue;
      }
      status = end->status;
      done.Notify();
      return;
    }
  });
  ASSERT_TRUE(engine->Start(turn).ok());
  done.WaitForNotification();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(tokens, 0u);
}

}  // namespace
}  // namespace longstream
