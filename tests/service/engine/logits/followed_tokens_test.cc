// Turns that follow the tokens of another turn: they give the rows of these tokens, pause while the
// next one is missing, and end with the turn that they follow.
#include "service/engine/logits/followed_tokens.h"

#include <gtest/gtest.h>
#include <prometheus/client_metric.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/engine/logits/recording_sink.h"

namespace longstream {
namespace {

using Room = LogitSink::Room;

TEST(FollowedTokens, WakesOnceForAMissingToken) {
  int wakes = 0;
  FollowedTokens tokens([&] { ++wakes; });
  tokens.Push(7);
  EXPECT_EQ(wakes, 0) << "nobody waits";
  EXPECT_TRUE(tokens.Has(0));
  EXPECT_EQ(tokens.At(0), 7);
  EXPECT_FALSE(tokens.Has(1));
  tokens.Push(8);
  tokens.Push(9);
  EXPECT_EQ(wakes, 1);
  EXPECT_FALSE(tokens.Has(3));
  EXPECT_FALSE(tokens.EndAt(3));
  tokens.Close();
  EXPECT_EQ(wakes, 2);
  EXPECT_TRUE(tokens.EndAt(3));
  EXPECT_FALSE(tokens.EndAt(2));
  EXPECT_FALSE(tokens.Has(3));
  tokens.Close();
  tokens.Push(10);
  EXPECT_EQ(wakes, 2) << "no token comes any more";
  EXPECT_FALSE(tokens.Has(3));
}

// A turn with its own session on this prompt, which gives rows to `sink`.
SessionTurnRequest Request(const std::string& prompt, uint64_t max_tokens,
                           std::shared_ptr<RecordingSink> sink) {
  SessionTurnRequest request = Generate(nullptr, prompt, max_tokens, 7);
  request.own_session = true;
  request.logits = std::move(sink);
  return request;
}

// A turn that follows tokens, and draws others itself.
class Follower {
 public:
  explicit Follower(TestEngine& engine, const std::string& prompt = "a prompt",
                    uint64_t max_tokens = 0, float penalty = 0) {
    tokens = std::make_shared<FollowedTokens>([&engine] { engine->Wake(); });
    SessionTurnRequest request = Request(prompt, max_tokens, sink);
    request.sampling.seed = 99;
    request.sampling.frequency_penalty = penalty;
    request.followed = tokens;
    turn = std::make_shared<SessionTurn>(request);
  }

  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  std::shared_ptr<FollowedTokens> tokens;
  std::shared_ptr<SessionTurn> turn;
};

// The rows of a turn that draws its own answer.
std::vector<RecordedRow> Drawn(TestEngine& engine, const std::string& prompt, uint64_t tokens) {
  const auto sink = std::make_shared<RecordingSink>();
  const Outcome outcome =
      RunTurn(*engine, std::make_shared<SessionTurn>(Request(prompt, tokens, sink)));
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_TRUE(outcome.log_probs.empty()) << "the client has asked for none";
  return sink->rows();
}

void ExpectSameRows(const std::vector<RecordedRow>& rows,
                    const std::vector<RecordedRow>& expected) {
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].token, expected[i].token) << i;
    EXPECT_EQ(rows[i].log_prob, expected[i].log_prob) << i << ": equal to the bit";
    EXPECT_EQ(rows[i].logits, expected[i].logits) << i << ": equal to the bit";
  }
}

TEST(Followers, RowsAreThoseOfTheFollowedTurn) {
  TestEngine engine;
  const std::vector<RecordedRow> drawn = Drawn(engine, "a prompt", 150);
  for (const float penalty : {0.0f, 1.5f}) {
    Follower follower(engine, "a prompt", 0, penalty);
    for (const RecordedRow& row : drawn) follower.tokens->Push(row.token);
    follower.tokens->Close();
    const Outcome outcome = RunTurn(*engine, follower.turn);
    ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    EXPECT_EQ(outcome.end.reason, FinishReason::kNone);
    EXPECT_EQ(outcome.end.usage.generated_tokens, 150u);
    EXPECT_EQ(outcome.end.usage.forced_tokens, 0u);
    ExpectSameRows(follower.sink->rows(), drawn);
  }
}

// Tokens that the model would hardly draw: the rows are those of a scored text.
TEST(Followers, AnyTokensCanBeFollowed) {
  TestEngine engine;
  const std::string text = "\x01 not what the model draws \xfe";
  Follower follower(engine, "a prompt");
  for (const int32_t token : Bytes(text)) follower.tokens->Push(token);
  follower.tokens->Close();
  const Outcome outcome = RunTurn(*engine, follower.turn);
  ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.tokens, Bytes(text));
  SessionTurnRequest score;
  score.kind = TurnKind::kScore;
  score.prompt = Bytes("a prompt" + text);
  const Outcome scored = RunTurn(*engine, std::make_shared<SessionTurn>(score));
  const std::vector<RecordedRow> rows = follower.sink->rows();
  ASSERT_EQ(rows.size(), text.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(rows[i].log_prob, scored.scores[8 + i].log_prob, 1e-4) << i;
  }
}

TEST(Followers, PauseWithoutAPlaceUntilTheNextTokenIsThere) {
  TestEngine engine("{}", 0, {.max_batch_sequences = 1});
  const std::vector<RecordedRow> drawn = Drawn(engine, "a prompt", 5);
  Follower follower(engine);
  ASSERT_TRUE(engine.Start(follower.turn).ok());
  for (const RecordedRow& row : drawn) {
    follower.tokens->Push(row.token);
    follower.sink->AwaitRows(static_cast<size_t>(&row - drawn.data()) + 1);
    // The only place in the batch is free for another turn.
    EXPECT_EQ(Drawn(engine, "another prompt", 3).size(), 3u);
  }
  follower.tokens->Close();
  EXPECT_TRUE(ReadToEnd(*follower.turn).end.status.ok());
  ExpectSameRows(follower.sink->rows(), drawn);
}

// Without a token to follow, a prompt is read up to the last grid line before its end.
TEST(Followers, ReadTheirPromptBeforeTheFirstToken) {
  TestEngine engine;
  const uint32_t grid = engine->model().backend().info().prefill_grid;
  for (const uint64_t size : {uint64_t{1}, uint64_t{grid}, uint64_t{3 * grid},
                              uint64_t{3 * grid + 1}, uint64_t{4 * grid - 1}}) {
    const std::string prompt(size, 'p');
    const std::vector<RecordedRow> drawn = Drawn(engine, prompt, 3);
    Follower follower(engine, prompt);
    ASSERT_TRUE(engine.Start(follower.turn).ok());
    const uint64_t read = (size - 1) / grid * grid;
    uint64_t done = 0;
    while (done < read) {
      const TurnStream::Item item = follower.turn->stream.Next();
      const auto* event = std::get_if<TurnEvent>(&item);
      if (event == nullptr) {
        ASSERT_FALSE(std::holds_alternative<TurnEnd>(item));
        continue;
      }
      const auto* prefill = std::get_if<PrefillEvent>(event);
      if (prefill != nullptr) done = prefill->done_tokens;
    }
    EXPECT_EQ(done, read);
    EXPECT_EQ(Drawn(engine, "another prompt", 3).size(), 3u);
    for (const RecordedRow& row : drawn) follower.tokens->Push(row.token);
    follower.tokens->Close();
    EXPECT_TRUE(ReadToEnd(*follower.turn).end.status.ok());
    ExpectSameRows(follower.sink->rows(), drawn);
  }
}

TEST(Followers, EndWithTheTurnThatTheyFollow) {
  TestEngine engine;
  // Before the first token.
  Follower empty(engine);
  ASSERT_TRUE(engine.Start(empty.turn).ok());
  empty.tokens->Close();
  EXPECT_TRUE(ReadToEnd(*empty.turn).end.status.ok());
  // Behind the last token, which was read before.
  Follower late(engine);
  ASSERT_TRUE(engine.Start(late.turn).ok());
  late.tokens->Push(65);
  late.sink->AwaitRows(1);
  late.tokens->Close();
  const Outcome outcome = ReadToEnd(*late.turn);
  EXPECT_TRUE(outcome.end.status.ok());
  EXPECT_EQ(outcome.tokens, std::vector<int32_t>{65});
  // By max_tokens, while more tokens are there.
  Follower bounded(engine, "a prompt", 2);
  for (int i = 0; i < 5; ++i) bounded.tokens->Push(66);
  const Outcome two = RunTurn(*engine, bounded.turn);
  EXPECT_EQ(two.end.reason, FinishReason::kMaxTokens);
  EXPECT_EQ(two.tokens.size(), 2u);
  engine->Flush();
  EXPECT_EQ(engine->model().backend().memory().reserved, 0u) << "the sessions are their own";
}

TEST(Followers, ACancelOrADeadlineEndsThem) {
  TestEngine engine;
  Follower cancelled(engine);
  ASSERT_TRUE(engine.Start(cancelled.turn).ok());
  cancelled.tokens->Push(65);
  cancelled.sink->AwaitRows(1);
  cancelled.turn->Cancel();
  engine->Wake();
  EXPECT_TRUE(absl::IsCancelled(ReadToEnd(*cancelled.turn).end.status));

  SessionTurnRequest request = Request("a prompt", 0, std::make_shared<RecordingSink>());
  request.followed = std::make_shared<FollowedTokens>([&engine] { engine->Wake(); });
  request.deadline = MonotonicTime::Now() + absl::Milliseconds(200);
  const auto late = std::make_shared<SessionTurn>(request);
  ASSERT_TRUE(engine.Start(late).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(ReadToEnd(*late).end.status));
}

// The calls of a turn to its sink.
class ToldSink final : public LogitSink {
 public:
  Room GetRoom() override { return Room::kFree; }
  uint64_t rows_taken() const override { return 0; }
  void Push(const LogitRow& /*row*/) override { told_ += 'r'; }
  void Began() override { told_ += 'b'; }
  void Ended(const absl::Status& status) override {
    told_ += status.ok() ? "e" : absl::StatusCodeToString(status.code());
  }
  // REQUIRES: the turn has ended.
  const std::string& told() const { return told_; }

 private:
  std::string told_;
};

TEST(Followers, TheSinkHearsOfTheBeginningAndTheEnd) {
  TestEngine engine;
  const auto run = [&](MonotonicTime deadline) {
    const auto sink = std::make_shared<ToldSink>();
    SessionTurnRequest request = Request("a prompt", 2, nullptr);
    request.logits = sink;
    request.deadline = deadline;
    if (deadline != MonotonicTime::InfiniteFuture()) {  // it waits for ever
      request.followed = std::make_shared<FollowedTokens>([&engine] { engine->Wake(); });
    }
    RunTurn(*engine, std::make_shared<SessionTurn>(request));
    engine->Flush();
    return sink->told();
  };
  EXPECT_EQ(run(MonotonicTime::InfiniteFuture()), "brre");
  EXPECT_EQ(run(MonotonicTime::Now() + absl::Seconds(2)), "bDEADLINE_EXCEEDED");
}

// They go as fast as the turn that they follow.
TEST(Followers, AddNothingToTheLatenciesOfTheirModel) {
  TestEngine engine;
  const auto counts = [&] {
    std::vector<uint64_t> all;
    for (const char* name : {"time_to_first_token", "inter_token_latency", "request_e2e"}) {
      const auto samples =
          engine.model().Samples(absl::StrCat("longstream_", name, "_seconds"), "model", "m");
      all.push_back(samples.size() == 1 ? samples[0].histogram.sample_count : 1000);
    }
    return all;
  };
  Drawn(engine, "a prompt", 3);
  EXPECT_EQ(counts(), (std::vector<uint64_t>{1, 2, 1}));
  Follower follower(engine);
  for (int i = 0; i < 3; ++i) follower.tokens->Push(65);
  follower.tokens->Close();
  EXPECT_EQ(RunTurn(*engine, follower.turn).tokens.size(), 3u);
  EXPECT_EQ(counts(), (std::vector<uint64_t>{1, 2, 1}));
}

// A turn that waits for another one is not one whose client is silent.
TEST(Followers, HaveNoSilentClient) {
  TestEngine engine("{}", 0, {.client_timeout = absl::Milliseconds(1)});
  Follower follower(engine);
  ASSERT_TRUE(engine.Start(follower.turn).ok());
  follower.tokens->Push(65);
  follower.sink->AwaitRows(1);
  for (int i = 0; i < 3; ++i) {  // the engine looks at the turn after more than the time limit
    absl::SleepFor(absl::Milliseconds(3));
    engine->Wake();
    engine->Flush();
  }
  follower.tokens->Push(66);
  follower.sink->AwaitRows(2);
  follower.tokens->Close();
  EXPECT_TRUE(ReadToEnd(*follower.turn).end.status.ok());
}

// A sink that has had enough does not hold up its turn, and gets no further row.
TEST(Followers, ASinkMayWantNoFurtherRows) {
  TestEngine engine;
  const std::vector<RecordedRow> drawn = Drawn(engine, "a prompt", 30);
  const auto sink = std::make_shared<RecordingSink>();
  sink->WantOnly(10);
  const Outcome outcome =
      RunTurn(*engine, std::make_shared<SessionTurn>(Request("a prompt", 30, sink)));
  ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.tokens.size(), 30u);
  for (size_t i = 0; i < 30; ++i) EXPECT_EQ(outcome.tokens[i], drawn[i].token);
  EXPECT_EQ(sink->rows().size(), 10u);
}

// The log-probability of a token that the client has received is that of this token, whatever the
// model draws.
TEST(Followers, ReceivedTokensHaveTheirOwnLogProbabilities) {
  TestEngine engine;
  SessionTurnRequest request = Request("a prompt", 4, nullptr);
  request.log_probs = true;
  request.forced_tokens = {1, 2, 3};
  const Outcome outcome = RunTurn(*engine, std::make_shared<SessionTurn>(request));
  ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  Follower follower(engine);
  for (const int32_t token : request.forced_tokens) follower.tokens->Push(token);
  follower.tokens->Close();
  ASSERT_TRUE(RunTurn(*engine, follower.turn).end.status.ok());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(outcome.log_probs[i].token, request.forced_tokens[i]);
    EXPECT_EQ(outcome.log_probs[i].log_prob, follower.sink->rows()[i].log_prob);
  }
}

}  // namespace
}  // namespace longstream
