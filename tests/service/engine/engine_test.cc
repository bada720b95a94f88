// Turns that end normally: text, stop rules, batching, scores, appended input.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "service/tokenizer/text/utf8.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

TEST(Engine, GeneratesAndRemembers) {
  TestEngine engine;
  const auto session = engine.Open();
  const Outcome first = RunTurn(*engine, MakeTurn(Generate(session, "hello", 20)));
  ASSERT_TRUE(first.end.status.ok()) << first.end.status;
  EXPECT_EQ(first.end.reason, FinishReason::kMaxTokens);
  EXPECT_EQ(first.tokens.size(), 20u);
  EXPECT_EQ(first.text.size(), 20u);
  EXPECT_EQ(first.end.position, 25u);
  EXPECT_EQ(session->View().position, 25u);
  EXPECT_FALSE(session->View().turn_running);
  EXPECT_EQ(first.end.usage.prompt_tokens, 5u);
  EXPECT_EQ(first.end.usage.generated_tokens, 20u);
  EXPECT_EQ(first.end.usage.reused_tokens, 0u);

  const Outcome second = RunTurn(*engine, MakeTurn(Generate(session, "", 5)));
  ASSERT_TRUE(second.end.status.ok()) << second.end.status;
  EXPECT_EQ(second.end.usage.reused_tokens, 24u)
      << "all tokens but the last, which the model has not read";
  EXPECT_EQ(second.end.usage.recomputed_tokens, 0u);
}

// One turn of 30 tokens draws the same tokens as three turns of 10, because noise depends only on
// the seed and the position.
TEST(Engine, TurnsContinueTheSameStream) {
  TestEngine engine;
  const Outcome whole = RunTurn(*engine, MakeTurn(Generate(engine.Open(), "abc", 30)));
  const auto session = engine.Open();
  std::string text;
  for (const char* prompt : {"abc", "", ""}) {
    text += RunTurn(*engine, MakeTurn(Generate(session, prompt, 10))).text;
  }
  EXPECT_EQ(text, whole.text);
}

TEST(Engine, TokensDoNotDependOnTheBatch) {
  const std::string long_prompt(300, 'x');
  std::vector<std::string> alone;
  for (int i = 0; i < 12; ++i) {
    TestEngine engine;
    alone.push_back(
        RunTurn(*engine,
                MakeTurn(Generate(engine.Open(), long_prompt.substr(0, 20u * i + 1), 25, 100 + i)))
            .text);
  }
  TestEngine engine("{}", 0, {.max_batch_tokens = 96, .max_batch_sequences = 8});
  std::vector<std::shared_ptr<SessionTurn>> turns;
  for (int i = 0; i < 12; ++i) {
    turns.push_back(
        MakeTurn(Generate(engine.Open(), long_prompt.substr(0, 20u * i + 1), 25, 100 + i)));
    ASSERT_TRUE(engine.Start(turns.back()).ok());
  }
  for (int i = 0; i < 12; ++i) EXPECT_EQ(ReadToEnd(*turns[i]).text, alone[i]) << "stream " << i;
}

TEST(Engine, StopStringIsCutAndNamed) {
  TestEngine engine;
  const std::string text = RunTurn(*engine, MakeTurn(Generate(engine.Open(), "q", 60))).text;
  const std::string stop = text.substr(20, 3);
  SessionTurnRequest request = Generate(engine.Open(), "q", 60);
  request.stop.strings = {"never in it", stop};
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  EXPECT_EQ(outcome.end.reason, FinishReason::kStopString);
  EXPECT_EQ(outcome.end.stop_string, stop);
  EXPECT_EQ(outcome.text, text.substr(0, text.find(stop)));
}

TEST(Engine, StopTokenGivesNoText) {
  TestEngine engine;
  const Outcome free = RunTurn(*engine, MakeTurn(Generate(engine.Open(), "q", 60)));
  const int32_t stop = free.tokens[30];
  const size_t first = static_cast<size_t>(std::find(free.tokens.begin(), free.tokens.end(), stop) -
                                           free.tokens.begin());
  SessionTurnRequest request = Generate(engine.Open(), "q", 60);
  request.stop.token_ids = {stop};
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  EXPECT_EQ(outcome.end.reason, FinishReason::kStopToken);
  EXPECT_EQ(outcome.end.stop_token, stop);
  EXPECT_EQ(outcome.text, free.text.substr(0, first));
  EXPECT_EQ(outcome.end.position, 1 + first + 1) << "the stop token is part of the session";
}

TEST(Engine, MinTokensBansStopTokens) {
  TestEngine engine;
  SessionTurnRequest request = Generate(engine.Open(), "q", 40);
  for (int32_t id = 'a'; id <= 'm'; ++id) request.stop.token_ids.push_back(id);
  request.stop.min_tokens = 25;
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  EXPECT_GE(outcome.tokens.size(), 25u);
  for (size_t i = 0; i < 25; ++i) {
    EXPECT_FALSE(outcome.tokens[i] >= 'a' && outcome.tokens[i] <= 'm') << "token " << i;
  }
}

TEST(Engine, ContextEndIsAFinishReason) {
  TestEngine engine(R"({"context_limit": 40})");
  const auto session = engine.Open();
  const Outcome outcome = RunTurn(*engine, MakeTurn(Generate(session, std::string(30, 'a'), 0)));
  ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.end.reason, FinishReason::kContext);
  EXPECT_EQ(outcome.end.position, 40u);
  const Outcome again = RunTurn(*engine, MakeTurn(Generate(session, "", 5)));
  EXPECT_EQ(again.end.reason, FinishReason::kContext);
  EXPECT_TRUE(again.tokens.empty());
}

TEST(Engine, UnicodeIsNeverSplit) {
  TestEngine engine(R"({"utf8": true})");
  const auto turn = MakeTurn(Generate(engine.Open(), "q", 400));
  ASSERT_TRUE(engine.Start(turn).ok());
  size_t multi_byte = 0;
  while (true) {
    const TurnStream::Item item = turn->stream.Next();
    if (std::holds_alternative<TurnEnd>(item)) break;
    const auto* event = std::get_if<TurnEvent>(&item);
    const auto* delta = event == nullptr ? nullptr : std::get_if<DeltaEvent>(event);
    if (delta == nullptr) continue;
    EXPECT_EQ(ValidUtf8Prefix(delta->text), delta->text.size());
    for (const char c : delta->text) multi_byte += static_cast<unsigned char>(c) >= 0xc0;
  }
  EXPECT_GT(multi_byte, 0u)
      << "the model wrote no character of several bytes, so nothing was tested";
}

// No sampling parameter changes the log-probabilities.
TEST(Engine, LogProbsAreThoseOfAScore) {
  TestEngine engine;
  const auto session = engine.Open();
  SessionTurnRequest request = Generate(session, "some prompt", 30);
  request.log_probs = true;
  request.top_log_probs = 3;
  request.sampling.temperature = 1.7f;
  request.sampling.top_k = 100;
  request.sampling.top_p = 0.9f;
  request.sampling.min_p = 0.001f;
  request.sampling.repetition_penalty = 1.5f;
  request.sampling.presence_penalty = 1.0f;
  request.sampling.frequency_penalty = 0.5f;
  request.sampling.logit_bias = {{'A', 2.0f}, {'B', kBanBias}};
  const Outcome generated = RunTurn(*engine, MakeTurn(request));
  ASSERT_EQ(generated.log_probs.size(), 30u);

  SessionTurnRequest score;
  score.kind = TurnKind::kScore;
  score.prompt = StateOf(session).tokens;
  score.top_log_probs = 3;
  const Outcome scored = RunTurn(*engine, MakeTurn(score));
  ASSERT_TRUE(scored.end.status.ok()) << scored.end.status;
  ASSERT_EQ(scored.scores.size(), score.prompt.size());
  EXPECT_TRUE(std::isnan(scored.scores[0].log_prob));
  for (size_t i = 0; i < 30; ++i) {
    const TokenLogProb& a = generated.log_probs[i];
    const TokenLogProb& b = scored.scores[11 + i];
    EXPECT_EQ(a.token, b.token);
    EXPECT_FLOAT_EQ(a.log_prob, b.log_prob);
    ASSERT_EQ(a.top.size(), 3u);
    EXPECT_EQ(a.top[0].token, b.top[0].token);
  }
}

TEST(Engine, ScoreOfOneTokenHasNone) {
  TestEngine engine;
  SessionTurnRequest score;
  score.kind = TurnKind::kScore;
  score.prompt = Bytes("a");
  const Outcome outcome = RunTurn(*engine, MakeTurn(score));
  ASSERT_TRUE(outcome.end.status.ok());
  ASSERT_EQ(outcome.scores.size(), 1u);
  EXPECT_TRUE(std::isnan(outcome.scores[0].log_prob));
}

// The session's state does not depend on how Append's messages cut the prompt.
TEST(Engine, AppendedPiecesEqualOnePrompt) {
  const std::string prompt(500, 'p');
  TestEngine engine;
  const std::string expected = RunTurn(*engine, MakeTurn(Generate(engine.Open(), prompt, 20))).text;
  const auto session = engine.Open();
  SessionTurnRequest request;
  request.kind = TurnKind::kAppend;
  request.session = session;
  const auto turn = MakeTurn(request);
  ASSERT_TRUE(engine.Start(turn).ok());
  for (size_t begin = 0; begin < prompt.size(); begin += 77) {
    turn->AddInput(Bytes(prompt.substr(begin, 77)));
    engine->Wake();
    absl::SleepFor(absl::Milliseconds(2));
  }
  turn->CloseInput();
  engine->Wake();
  const Outcome appended = ReadToEnd(*turn);
  ASSERT_TRUE(appended.end.status.ok()) << appended.end.status;
  EXPECT_EQ(appended.end.position, 500u);
  const Outcome generated = RunTurn(*engine, MakeTurn(Generate(session, "", 20)));
  EXPECT_EQ(generated.text, expected);
  EXPECT_EQ(generated.end.usage.reused_tokens, 499u);
}

// The fork draws the same tokens as its source. If the fork's penalties count the session, they
// also count the tokens that the source's turns have drawn.
TEST(Engine, ForkContinuesAlike) {
  TestEngine engine;
  const auto source = engine.Open();
  const auto generate = [](const std::shared_ptr<Session>& session, const char* prompt) {
    SessionTurnRequest request = Generate(session, prompt, 20);
    request.sampling.presence_penalty = 2.0f;
    request.sampling.penalty_scope = PenaltyScope::kSession;
    return MakeTurn(request);
  };
  RunTurn(*engine, generate(source, "fork me"));
  TurnLease lease = engine.NewSession(SessionId{1, 1});
  const std::shared_ptr<Session> target = lease.session();
  const absl::Status status = Fork(*engine, source, std::move(lease));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(target->View().position, 27u);
  EXPECT_EQ(StateOf(target).generated, StateOf(source).generated);
  EXPECT_EQ(RunTurn(*engine, generate(target, "")).text,
            RunTurn(*engine, generate(source, "")).text);
}

TEST(Engine, PenaltiesSeeTheHistory) {
  TestEngine engine;
  SessionTurnRequest request = Generate(engine.Open(), "q", 40);
  request.sampling.temperature = 0.0f;
  request.sampling.presence_penalty = 100.0f;  // the penalty is so large that no byte occurs twice
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  std::set<int32_t> distinct(outcome.tokens.begin(), outcome.tokens.end());
  EXPECT_EQ(distinct.size(), outcome.tokens.size());
}

// The first turn has drawn the token that the second would draw too. The penalties of the second
// turn count it only if they count the session.
TEST(Engine, PenaltiesCountTheTurnUnlessTheyCountTheSession) {
  TestEngine engine;
  const auto draw = [&](bool presence, PenaltyScope scope) {
    const auto session = engine.Open();
    SessionTurnRequest request = Generate(session, "q", 1);
    request.sampling.temperature = 0.0f;
    request.sampling.logit_bias = {{'A', 60.0f}};
    const std::vector<int32_t> first = RunTurn(*engine, MakeTurn(request)).tokens;
    EXPECT_EQ(first, Bytes("A"));
    (presence ? request.sampling.presence_penalty : request.sampling.frequency_penalty) = 100.0f;
    request.sampling.penalty_scope = scope;
    request.max_tokens = 2;
    return RunTurn(*engine, MakeTurn(request)).tokens;
  };
  for (const bool presence : {true, false}) {
    const std::vector<int32_t> turn = draw(presence, PenaltyScope::kTurn);
    ASSERT_EQ(turn.size(), 2u);
    EXPECT_EQ(turn[0], 'A') << "an earlier turn drew it";
    EXPECT_NE(turn[1], 'A') << "this turn drew it";
    EXPECT_NE(draw(presence, PenaltyScope::kSession)[0], 'A');
  }
}

// Presence and frequency penalties count the generated tokens and not the tokens of the prompt.
TEST(Engine, PresenceIsNotThatOfThePrompt) {
  std::string even_bytes;
  for (int byte = 0; byte < 256; byte += 2) even_bytes += static_cast<char>(byte);
  TestEngine engine;
  for (int i = 0; i < 10; ++i) {
    SessionTurnRequest request = Generate(engine.Open(), even_bytes.substr(0, 118 + i), 1);
    request.sampling.temperature = 0.0f;
    const std::vector<int32_t> free = RunTurn(*engine, MakeTurn(request)).tokens;
    request.session = engine.Open();
    request.sampling.presence_penalty = 100.0f;
    EXPECT_EQ(RunTurn(*engine, MakeTurn(request)).tokens, free) << i;
  }
}

TEST(Engine, EveryBitOfTheSeedCounts) {
  TestEngine engine;
  const auto text = [&](uint64_t seed) {
    return RunTurn(*engine, std::make_shared<SessionTurn>(Generate(engine.Open(), "a", 50, seed)))
        .text;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(1 | uint64_t{1} << 32));
}

}  // namespace
}  // namespace longstream
