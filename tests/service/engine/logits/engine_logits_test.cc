// Turns whose logits go to a sink: every token comes with its own row, the tokens are those of a
// turn without a sink, and a turn pauses when the sink has no room.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "service/engine/logits/step_rows.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/engine/logits/recording_sink.h"

namespace longstream {
namespace {

// The row is that of its token: its softmax has the token's log-probability, and its greatest
// logits are those of `top`.
void ExpectOwnLogits(const RecordedRow& row) {
  ASSERT_EQ(row.logits.size(), 256u);
  const float most = *std::max_element(row.logits.begin(), row.logits.end());
  double sum = 0;
  for (const float logit : row.logits) sum += std::exp(static_cast<double>(logit) - most);
  const double log_prob = row.logits[static_cast<size_t>(row.token)] - most - std::log(sum);
  EXPECT_NEAR(row.log_prob, log_prob, 1e-5 * (1 + std::abs(log_prob)));
  for (const ls_top_token& top : row.top) {
    const float logit = row.logits[static_cast<size_t>(top.token)];
    const auto place = static_cast<size_t>(&top - row.top.data());
    const auto greater = static_cast<size_t>(std::count_if(
        row.logits.begin(), row.logits.end(), [&](float other) { return other > logit; }));
    EXPECT_LE(greater, place);
  }
}

SessionTurnRequest Scored(const std::string& text) {
  SessionTurnRequest request;
  request.kind = TurnKind::kScore;
  request.prompt = Bytes(text);
  return request;
}

SessionTurnRequest Generated(uint64_t max_tokens) {
  SessionTurnRequest request = Generate(nullptr, "a prompt", max_tokens, 7);
  request.own_session = true;
  request.log_probs = true;
  request.top_log_probs = 3;
  return request;
}

Outcome RunWith(TestEngine& engine, SessionTurnRequest request,
                const std::shared_ptr<RecordingSink>& sink) {
  request.logits = sink;
  return RunTurn(*engine, std::make_shared<SessionTurn>(request));
}

TEST(EngineLogits, GeneratedTokensComeWithTheirLogits) {
  TestEngine engine;
  const Outcome without = RunWith(engine, Generated(40), nullptr);
  const auto sink = std::make_shared<RecordingSink>();
  const Outcome with = RunWith(engine, Generated(40), sink);
  ASSERT_TRUE(with.end.status.ok()) << with.end.status;
  EXPECT_EQ(with.tokens, without.tokens);
  const std::vector<RecordedRow> rows = sink->rows();
  ASSERT_EQ(rows.size(), 40u);
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].token, with.tokens[i]);
    EXPECT_EQ(rows[i].log_prob, without.log_probs[i].log_prob);
    EXPECT_EQ(rows[i].top.size(), 3u);
    ExpectOwnLogits(rows[i]);
    text += rows[i].text;
  }
  EXPECT_EQ(text, with.text);
}

TEST(EngineLogits, ScoredTokensComeWithTheirLogitsFromATokenOn) {
  TestEngine engine("{}", 0, {.max_batch_tokens = 128});
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + i * i % 23);
  const Outcome without = RunWith(engine, Scored(text), nullptr);
  ASSERT_EQ(without.scores.size(), text.size());
  for (const uint64_t from : {1u, 5u, 64u, 65u, 129u, 299u}) {
    SessionTurnRequest request = Scored(text);
    request.logits_from = from;
    const auto sink = std::make_shared<RecordingSink>();
    const Outcome with = RunWith(engine, request, sink);
    ASSERT_TRUE(with.end.status.ok()) << with.end.status;
    EXPECT_TRUE(with.scores.empty()) << "the sink gets them";
    const std::vector<RecordedRow> rows = sink->rows();
    ASSERT_EQ(rows.size(), text.size() - from);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i].token, without.scores[from + i].token);
      EXPECT_EQ(rows[i].log_prob, without.scores[from + i].log_prob) << "equal to the bit";
      ExpectOwnLogits(rows[i]);
    }
  }
}

TEST(EngineLogits, ATurnWithItsOwnSessionLeavesNothing) {
  TestEngine engine;
  ASSERT_TRUE(RunWith(engine, Generated(10), std::make_shared<RecordingSink>()).end.status.ok());
  engine->Flush();
  const ls_memory memory = engine->model().backend().memory();
  EXPECT_EQ(memory.reserved, 0u);
  EXPECT_EQ(memory.pages + memory.rings + memory.states, 0u);
}

TEST(EngineLogits, ATurnPausesUntilThereIsRoom) {
  TestEngine engine;
  const auto sink = std::make_shared<RecordingSink>();
  sink->Limit(5, LogitSink::Room::kOthersAreBehind);
  SessionTurnRequest request = Generated(40);
  request.logits = sink;
  const auto turn = std::make_shared<SessionTurn>(request);
  ASSERT_TRUE(engine.Start(turn).ok());
  sink->AwaitRows(5);
  // Another turn needs no place of this one.
  EXPECT_TRUE(RunTurn(*engine, std::make_shared<SessionTurn>(Generated(20))).end.status.ok());
  EXPECT_LE(sink->rows().size(), 7u) << "5 rows, and those of two steps in flight";
  sink->Limit(1000, LogitSink::Room::kFree);
  engine->Wake();
  const Outcome outcome = ReadToEnd(*turn);
  ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(sink->rows().size(), 40u);
  EXPECT_EQ(outcome.tokens, RunTurn(*engine, std::make_shared<SessionTurn>(Generated(40))).tokens);
}

// A turn that waits for other turns is not one whose client is silent.
TEST(EngineLogits, OnlyTheReaderHasATimeLimit) {
  TestEngine engine("{}", 0, {.client_timeout = absl::Milliseconds(1)});
  const auto start = [&](LogitSink::Room room) {
    const auto sink = std::make_shared<RecordingSink>();
    sink->Limit(3, room);
    SessionTurnRequest request = Generated(10);
    request.logits = sink;
    const auto turn = std::make_shared<SessionTurn>(request);
    EXPECT_TRUE(engine.Start(turn).ok());
    return std::pair(turn, sink);
  };
  const auto [waits, others] = start(LogitSink::Room::kOthersAreBehind);
  others->AwaitRows(3);
  const auto [silent, reader] = start(LogitSink::Room::kReaderIsBehind);
  EXPECT_TRUE(absl::IsDeadlineExceeded(ReadToEnd(*silent).end.status));
  for (int i = 0; i < 3; ++i) {  // the engine looks at the turn after more than its time limit
    absl::SleepFor(absl::Milliseconds(3));
    engine->Wake();
    others->AwaitRows(3);
  }
  others->Limit(1000, LogitSink::Room::kFree);
  engine->Wake();
  EXPECT_TRUE(ReadToEnd(*waits).end.status.ok());
}

// A client that reads a little all the time is slow, but not silent.
TEST(EngineLogits, AReaderThatTakesRowsIsNotSilent) {
  TestEngine engine("{}", 0, {.client_timeout = absl::Milliseconds(1)});
  const auto sink = std::make_shared<RecordingSink>();
  sink->Limit(3, LogitSink::Room::kReaderIsBehind);
  sink->SetSteady();
  SessionTurnRequest request = Generated(10);
  request.logits = sink;
  const auto turn = std::make_shared<SessionTurn>(request);
  ASSERT_TRUE(engine.Start(turn).ok());
  sink->AwaitRows(3);
  const uint64_t until = sink->taken() + 10;
  for (int i = 0; i < 2000 && sink->taken() < until; ++i) {
    absl::SleepFor(absl::Milliseconds(3));  // more than the engine's limit
    engine->Wake();
  }
  sink->Limit(1000, LogitSink::Room::kFree);
  engine->Wake();
  const Outcome outcome = ReadToEnd(*turn);
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(sink->rows().size(), 10u);
}

// Two texts that would fit into one step are read in two, because their logits take too much
// memory.
TEST(EngineLogits, AllTextsOfAStepShareItsRowsOfLogits) {
  TestEngine engine("{}", 0, {.max_batch_tokens = 8192});
  const ls_model_info& info = engine->model().backend().info();
  constexpr size_t kRows = 3000;  // of each text
  ASSERT_LT(MostLogitRows(info.vocabulary_size, info.prefill_grid), 2 * kRows);
  ASSERT_GT(MostLogitRows(info.vocabulary_size, info.prefill_grid), kRows);
  // Reads both texts into one sink. Returns whether one of them was cut. The sink lets both begin
  // at once; the engine may see one of them first, and then reads each in a step of its own.
  const auto is_cut = [&] {
    const auto sink = std::make_shared<RecordingSink>();
    sink->Limit(0, LogitSink::Room::kOthersAreBehind);
    std::vector<std::shared_ptr<SessionTurn>> turns;
    for (int i = 0; i < 2; ++i) {
      SessionTurnRequest request = Scored(std::string(kRows + 1, 'x'));
      request.logits_from = 1;
      request.logits = sink;
      turns.push_back(std::make_shared<SessionTurn>(request));
      EXPECT_TRUE(engine.Start(turns.back()).ok());
    }
    sink->AwaitRows(0);
    sink->Limit(3 * kRows, LogitSink::Room::kFree);
    engine->Wake();
    for (const auto& turn : turns) EXPECT_TRUE(ReadToEnd(*turn).end.status.ok());
    EXPECT_EQ(sink->rows().size(), 2 * kRows);
    const std::set<size_t> seen = sink->counts_at_looks();
    return std::any_of(seen.begin(), seen.end(), [&](size_t rows) { return rows % kRows != 0; });
  };
  bool any_cut = false;
  for (int i = 0; i < 20 && !any_cut; ++i) any_cut = is_cut();
  EXPECT_TRUE(any_cut);
}

TEST(EngineLogits, ACancelEndsATurnThatPauses) {
  TestEngine engine;
  const auto sink = std::make_shared<RecordingSink>();
  sink->Limit(3, LogitSink::Room::kOthersAreBehind);
  SessionTurnRequest request = Generated(10);
  request.logits = sink;
  const auto turn = std::make_shared<SessionTurn>(request);
  ASSERT_TRUE(engine.Start(turn).ok());
  sink->AwaitRows(3);
  turn->Cancel();
  engine->Wake();
  EXPECT_TRUE(absl::IsCancelled(ReadToEnd(*turn).end.status));
}

}  // namespace
}  // namespace longstream
