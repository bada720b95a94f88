// Turns in the background: when they run, whose memory they leave alone, and how they end.
#include "service/engine/background_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "service/engine/live_work.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/engine/logits/recording_sink.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

using testing::HasSubstr;

std::string Text(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += static_cast<char>('a' + i * i % 23);
  return text;
}

SessionTurnRequest Scored(const std::string& text, std::shared_ptr<LogitSink> sink) {
  SessionTurnRequest request;
  request.kind = TurnKind::kScore;
  request.prompt = Bytes(text);
  request.logits = std::move(sink);
  request.logits_from = 1;
  return request;
}

// A turn in the background, and the rows that it gives.
struct Background {
  explicit Background(const std::string& text) {
    SessionTurnRequest request = Scored(text, sink);
    request.background = true;
    turn = std::make_shared<SessionTurn>(request);
  }

  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  std::shared_ptr<SessionTurn> turn;
};

// Without a pause, so that the turns begin as soon as they may. A turn of a client never waits for
// the test to read it.
Engine::Options OptionsWith(std::shared_ptr<LiveWork> live = nullptr) {
  Engine::Options options;
  options.live_work = std::move(live);
  options.background_pause = absl::ZeroDuration();
  options.stream_buffer_bytes = size_t{1} << 30;
  return options;
}

// Reads the turn's stream until it has given so many tokens.
void AwaitTokens(SessionTurn& turn, size_t count) {
  size_t tokens = 0;
  ASSERT_TRUE(WaitUntil([&] {
    const TurnStream::Item item = turn.stream.Next();
    const auto* const event = std::get_if<TurnEvent>(&item);
    const auto* const delta = event == nullptr ? nullptr : std::get_if<DeltaEvent>(event);
    if (delta != nullptr) tokens += delta->tokens.size();
    return tokens >= count;
  }));
}

TEST(BackgroundTurnsTest, GiveTheRowsOfAClientsTurn) {
  TestEngine engine("{}", 0, OptionsWith());
  const std::string text = Text(500);
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(RunTurn(*engine, std::make_shared<SessionTurn>(Scored(text, sink))).end.status.ok());
  const Background background(text);
  const Outcome outcome = RunTurn(*engine, background.turn);
  ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  const std::vector<RecordedRow> expected = sink->rows();
  const std::vector<RecordedRow> rows = background.sink->rows();
  ASSERT_EQ(rows.size(), text.size() - 1);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].token, expected[i].token);
    EXPECT_EQ(rows[i].logits, expected[i].logits) << "equal to the bit";
  }
}

TEST(BackgroundTurnsTest, DoNothingWhileAClientsTurnRuns) {
  TestEngine engine(R"({"step_delay_us": 1000})", 0, OptionsWith());
  const auto live = std::make_shared<SessionTurn>(Generate(engine.Open(), "live", 60000));
  ASSERT_TRUE(engine.Start(live).ok());
  const Background background(Text(200));
  ASSERT_TRUE(engine.Start(background.turn).ok());
  AwaitTokens(*live, 50);
  EXPECT_TRUE(background.sink->rows().empty());
  EXPECT_TRUE(background.sink->counts_at_looks().empty()) << "it was not even admitted";
  EXPECT_EQ(engine->num_turns(), 1u) << "a turn in the background does not count";
  live->Cancel();
  engine->Wake();
  EXPECT_TRUE(ReadToEnd(*background.turn).end.status.ok());
  EXPECT_EQ(background.sink->rows().size(), 199u);
}

TEST(BackgroundTurnsTest, StopBetweenTwoStepsAndGoOn) {
  TestEngine engine(R"({"step_delay_us": 1000})", 0, OptionsWith());
  const Background background(Text(2000));
  background.sink->Limit(300, LogitSink::Room::kOthersAreBehind);
  ASSERT_TRUE(engine.Start(background.turn).ok());
  background.sink->AwaitRows(300);
  const auto live = std::make_shared<SessionTurn>(Generate(engine.Open(), "live", 60000));
  ASSERT_TRUE(engine.Start(live).ok());
  AwaitTokens(*live, 1);
  const size_t before = background.sink->rows().size();
  background.sink->Limit(1 << 30, LogitSink::Room::kFree);
  engine->Wake();
  AwaitTokens(*live, 50);
  EXPECT_EQ(background.sink->rows().size(), before);
  live->Cancel();
  engine->Wake();
  EXPECT_TRUE(ReadToEnd(*background.turn).end.status.ok());
  EXPECT_EQ(background.sink->rows().size(), 1999u);
}

TEST(BackgroundTurnsTest, WaitForTheTurnsOfOtherEngines) {
  const auto live = std::make_shared<LiveWork>();
  TestEngine busy(R"({"step_delay_us": 1000})", 0, OptionsWith(live));
  TestEngine engine("{}", 0, OptionsWith(live));
  const auto turn = std::make_shared<SessionTurn>(Generate(busy.Open(), "live", 60000));
  ASSERT_TRUE(busy.Start(turn).ok());
  const Background background(Text(200));
  ASSERT_TRUE(engine.Start(background.turn).ok());
  AwaitTokens(*turn, 50);
  engine->Flush();
  EXPECT_TRUE(background.sink->counts_at_looks().empty());
  turn->Cancel();
  busy->Wake();
  EXPECT_TRUE(ReadToEnd(*background.turn).end.status.ok());
  EXPECT_TRUE(absl::IsCancelled(ReadToEnd(*turn).end.status));
}

// A client that does not send or read keeps nobody waiting.
TEST(BackgroundTurnsTest, RunWhileATurnWaitsForItsClient) {
  TestEngine engine("{}", 0, OptionsWith());
  SessionTurnRequest request;
  request.kind = TurnKind::kAppend;
  request.session = engine.Open();
  const auto append = std::make_shared<SessionTurn>(request);
  ASSERT_TRUE(engine.Start(append).ok());
  EXPECT_TRUE(RunTurn(*engine, Background(Text(200)).turn).end.status.ok());
  append->CloseInput();
  engine->Wake();
  EXPECT_TRUE(ReadToEnd(*append).end.status.ok());
}

TEST(BackgroundTurnsTest, EndWhenOtherWorkNeedsTheirMemory) {
  TestEngine engine("{}", /*cache_bytes=*/1 << 14, OptionsWith());
  const Background background("a text");
  background.sink->Limit(0, LogitSink::Room::kOthersAreBehind);
  ASSERT_TRUE(engine.Start(background.turn).ok());
  background.sink->AwaitRows(0);  // it has its memory
  int opened = 0;
  while (std::holds_alternative<TurnEvent>(background.turn->stream.Next())) {
  }
  TurnStream::Item item;
  while (!std::holds_alternative<TurnEnd>(item)) {
    ASSERT_LT(++opened, 10000);
    ASSERT_TRUE(engine.TryOpen().ok());
    item = background.turn->stream.Next();
  }
  const absl::Status status = std::get<TurnEnd>(item).status;
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(engine.model().EvictionsCounted("open"), 0) << "the turn ends before sessions suffer";
}

TEST(BackgroundTurnsTest, EvictNoSession) {
  TestEngine engine("{}", /*cache_bytes=*/1 << 14, OptionsWith());
  while (engine.model().EvictionsCounted("open") == 0) ASSERT_TRUE(engine.TryOpen().ok());
  const Outcome outcome = RunTurn(*engine, Background("a text").turn);
  EXPECT_TRUE(absl::IsResourceExhausted(outcome.end.status)) << outcome.end.status;
  EXPECT_EQ(engine.model().EvictionsCounted("turn"), 0);
}

TEST(BackgroundTurnsTest, EndWithTheEngine) {
  const auto live = std::make_shared<LiveWork>();
  LiveWork::Part part = live->Begin();
  const Background waits("a text");
  const Background holds("a text");
  holds.sink->Limit(0, LogitSink::Room::kOthersAreBehind);
  {
    TestEngine engine("{}", 0, OptionsWith(live));
    ASSERT_TRUE(engine.Start(waits.turn).ok());
    engine->Flush();
  }
  EXPECT_TRUE(absl::IsUnavailable(ReadToEnd(*waits.turn).end.status));
  part.End();
  {
    TestEngine engine("{}", 0, OptionsWith(live));
    ASSERT_TRUE(engine.Start(holds.turn).ok());
    holds.sink->AwaitRows(0);
    engine->Stop(absl::FailedPreconditionError("unloaded"));
    EXPECT_EQ(Start(*engine, Background("a text").turn).code(),
              absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadToEnd(*holds.turn).end.status));
}

TEST(BackgroundTurnsTest, AnEngineThatHasStoppedHasNoLiveWork) {
  const auto live = std::make_shared<LiveWork>();
  TestEngine engine(R"({"step_delay_us": 1000})", 0, OptionsWith(live));
  const auto turn = std::make_shared<SessionTurn>(Generate(engine.Open(), "live", 60000));
  ASSERT_TRUE(engine.Start(turn).ok());
  AwaitTokens(*turn, 1);
  EXPECT_EQ(live->QuietSince(), MonotonicTime::InfiniteFuture());
  engine->Stop(absl::FailedPreconditionError("unloaded"));
  EXPECT_LE(live->QuietSince(), MonotonicTime::Now());
}

TEST(BackgroundTurnsTest, EndWhenTheEngineDrains) {
  TestEngine engine("{}", 0, OptionsWith());
  const Background background("a text");
  background.sink->Limit(0, LogitSink::Room::kOthersAreBehind);
  ASSERT_TRUE(engine.Start(background.turn).ok());
  background.sink->AwaitRows(0);
  engine->BeginDrain();
  engine->Wake();
  EXPECT_TRUE(absl::IsUnavailable(ReadToEnd(*background.turn).end.status));
}

TEST(BackgroundTurnsTest, AreCancelled) {
  const auto live = std::make_shared<LiveWork>();
  const LiveWork::Part part = live->Begin();
  TestEngine engine("{}", 0, OptionsWith(live));
  const Background background("a text");
  ASSERT_TRUE(engine.Start(background.turn).ok());
  background.turn->Cancel();
  engine->Wake();
  EXPECT_TRUE(absl::IsCancelled(ReadToEnd(*background.turn).end.status));
}

TEST(BackgroundTurnsTest, AreFewAndCountNowhere) {
  const auto live = std::make_shared<LiveWork>();
  LiveWork::Part part = live->Begin();
  TestEngine engine("{}", 0, OptionsWith(live));
  std::vector<Background> turns;
  while (turns.size() < BackgroundTurns::kMostTurns) {
    turns.emplace_back("a text");
    ASSERT_TRUE(engine.Start(turns.back().turn).ok());
  }
  const absl::Status refused = engine.Start(Background("a text").turn);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("8 turns in the background"));
  part.End();
  for (const Background& background : turns) {
    EXPECT_TRUE(ReadToEnd(*background.turn).end.status.ok());
  }
  EXPECT_EQ(engine->num_turns(), 0u);
  EXPECT_EQ(engine.model().RequestsCounted("OK"), 0);
  EXPECT_EQ(engine.model().RequestsCounted("RESOURCE_EXHAUSTED"), 0);
}

}  // namespace
}  // namespace longstream
