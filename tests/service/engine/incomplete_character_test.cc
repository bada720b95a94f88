// Turns that end within a character. The session remembers the character's first bytes, and one
// later turn delivers it.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/tokenizer/text/utf8.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

constexpr std::string_view kReplaced = kReplacementCharacter;

std::string BytesOf(const std::vector<int32_t>& tokens) {
  std::string bytes;
  for (const int32_t token : tokens) bytes += static_cast<char>(token);
  return bytes;
}

// A model of single bytes, and turns whose tokens the test chooses.
class IncompleteCharacter : public testing::Test {
 protected:
  // Runs a turn whose only token is `byte`.
  Outcome Draw(const std::shared_ptr<Session>& session, std::string_view prompt, char byte,
               const SessionTurnRequest& settings = {}) {
    SessionTurnRequest request = settings;
    request.session = session;
    request.prompt = Bytes(prompt);
    request.max_tokens = 1;
    request.sampling.logit_bias = {{static_cast<unsigned char>(byte), 100.0f}};
    Outcome outcome = RunTurn(*engine_, MakeTurn(request));
    EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    EXPECT_EQ(BytesOf(outcome.tokens), std::string(1, byte));
    return outcome;
  }

  void Append(const std::shared_ptr<Session>& session, std::string_view text) {
    SessionTurnRequest request;
    request.kind = TurnKind::kAppend;
    request.session = session;
    const auto turn = MakeTurn(request);
    turn->AddInput(Bytes(text));
    turn->CloseInput();
    const Outcome outcome = RunTurn(*engine_, turn);
    EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    EXPECT_EQ(outcome.text, "");
  }

  // A session whose last turn has drawn the first two bytes of the euro sign.
  std::shared_ptr<Session> CutSession() {
    std::shared_ptr<Session> session = engine_.Open();
    EXPECT_EQ(Draw(session, "q", '\xE2').end.incomplete_character, "\xE2");
    const Outcome second = Draw(session, "", '\x82');
    EXPECT_EQ(second.text, "");
    EXPECT_EQ(second.end.incomplete_character, "\xE2\x82");
    EXPECT_EQ(second.end.kept_text_bytes, 0u);
    return session;
  }

  TestEngine engine_;
};

// However a text is divided into turns, the turns' texts joined are the text of one turn.
TEST(IncompleteCharacters, TurnsWithoutInputGiveTheTextOfOneTurn) {
  constexpr uint64_t kTokens = 120;
  TestEngine engine(R"({"utf8": true})");
  uint64_t cuts = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const Outcome whole = RunTurn(*engine, MakeTurn(Generate(engine.Open(), "q", kTokens, seed)));
    const auto session = engine.Open();
    std::string text;
    std::vector<int32_t> tokens;
    Outcome turn;
    while (tokens.size() < kTokens) {
      turn = RunTurn(*engine, MakeTurn(Generate(
                                  session, tokens.empty() ? "q" : "",
                                  1 + tokens.size() * seed % 5 % (kTokens - tokens.size()), seed)));
      ASSERT_TRUE(turn.end.status.ok()) << turn.end.status;
      text += turn.text;
      tokens.insert(tokens.end(), turn.tokens.begin(), turn.tokens.end());
      EXPECT_EQ(text + turn.end.incomplete_character, BytesOf(tokens));
      cuts += turn.end.incomplete_character.empty() ? 0 : 1;
    }
    EXPECT_EQ(tokens, whole.tokens) << "seed " << seed;
    EXPECT_EQ(text, whole.text) << "seed " << seed;
    EXPECT_EQ(turn.end.incomplete_character, whole.end.incomplete_character);
  }
  EXPECT_GT(cuts, 20u) << "too few turns ended within a character";
}

TEST_F(IncompleteCharacter, IsDeliveredWithItsRest) {
  const Outcome rest = Draw(CutSession(), "", '\xAC');
  EXPECT_EQ(rest.text, "\u20ac");
  EXPECT_EQ(rest.end.incomplete_character, "");
}

TEST_F(IncompleteCharacter, IsReplacedOnceIfTheNextTokenIsNotItsRest) {
  const auto session = CutSession();
  EXPECT_EQ(Draw(session, "", 'A').text, std::string(kReplaced) + "A");
  EXPECT_EQ(Draw(session, "", '\xAC').text, kReplaced) << "this byte begins no character";
}

TEST_F(IncompleteCharacter, IsReplacedOnceBeforeAPrompt) {
  const auto session = CutSession();
  const uint64_t position = session->View().position;
  SessionTurnRequest request = Generate(session, "x", 1);
  request.sampling.logit_bias = {{0xAC, 100.0f}};
  const auto turn = MakeTurn(request);
  ASSERT_TRUE(engine_.Start(turn).ok());
  std::vector<DeltaEvent> deltas;
  for (TurnStream::Item item; !std::holds_alternative<TurnEnd>(item); item = turn->stream.Next()) {
    const auto* event = std::get_if<TurnEvent>(&item);
    const auto* delta = event == nullptr ? nullptr : std::get_if<DeltaEvent>(event);
    if (delta != nullptr) deltas.push_back(*delta);
  }
  ASSERT_EQ(deltas.size(), 2u);
  EXPECT_EQ(deltas[0].text, kReplaced);
  EXPECT_TRUE(deltas[0].tokens.empty());
  EXPECT_EQ(deltas[0].position, position);
  EXPECT_EQ(deltas[1].text, kReplaced) << "the byte after the prompt begins no character";
  EXPECT_EQ(Draw(session, "", 'A').text, "A");
}

TEST_F(IncompleteCharacter, IsReplacedOnceAfterAppendedInput) {
  const auto session = CutSession();
  Append(session, "");
  Append(session, "x");
  Append(session, "\xAC");
  EXPECT_EQ(Draw(session, "", 'A').text, std::string(kReplaced) + "A");
  EXPECT_EQ(Draw(session, "y", 'B').text, "B");
}

TEST_F(IncompleteCharacter, SurvivesAnAppendWithoutInput) {
  const auto session = CutSession();
  Append(session, "");
  EXPECT_EQ(Draw(session, "", '\xAC').text, "\u20ac");
}

TEST_F(IncompleteCharacter, BelongsToAForkToo) {
  const auto session = CutSession();
  TurnLease lease = engine_.NewSession(SessionId{1, 1});
  const std::shared_ptr<Session> fork = lease.session();
  ASSERT_TRUE(Fork(*engine_, session, std::move(lease)).ok());
  EXPECT_EQ(Draw(fork, "x", 'A').text, std::string(kReplaced) + "A");
  EXPECT_EQ(Draw(session, "", '\xAC').text, "\u20ac");
}

// A stop token ends the text, so no later token completes the character.
TEST_F(IncompleteCharacter, IsReplacedAtAStopToken) {
  const auto session = CutSession();
  SessionTurnRequest stops;
  stops.stop.token_ids = {'!'};
  const Outcome outcome = Draw(session, "", '!', stops);
  EXPECT_EQ(outcome.end.reason, FinishReason::kStopToken);
  EXPECT_EQ(outcome.text, kReplaced);
  EXPECT_EQ(outcome.end.incomplete_character, "");
  EXPECT_EQ(outcome.end.kept_text_bytes, 1u) << "the session has the \"!\", and no delta has it";
  EXPECT_EQ(Draw(session, "", '\xAC').text, kReplaced);
}

TEST_F(IncompleteCharacter, ReplacementsAreSearchedForStopStrings) {
  const auto session = CutSession();
  SessionTurnRequest stops;
  stops.stop.strings = {std::string(kReplaced) + "A"};
  const Outcome outcome = Draw(session, "", 'A', stops);
  EXPECT_EQ(outcome.end.reason, FinishReason::kStopString);
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(outcome.end.kept_text_bytes, kReplaced.size() + 1);
}

TEST(IncompleteCharacters, AreReplacedAtTheEndOfTheContext) {
  TestEngine engine(R"({"context_limit": 40})");
  for (const uint64_t max_tokens : {0, 1}) {
    const auto session = engine.Open();
    SessionTurnRequest request = Generate(session, std::string(39, 'a'), max_tokens);
    request.sampling.logit_bias = {{0xE2, 100.0f}};
    const Outcome full = RunTurn(*engine, MakeTurn(request));
    EXPECT_EQ(full.text, kReplaced);
    EXPECT_EQ(full.end.incomplete_character, "");
    EXPECT_EQ(RunTurn(*engine, MakeTurn(Generate(session, "", 5))).text, "");
  }
  // A prompt fills the context: the turn draws nothing, but still delivers the U+FFFD.
  const auto session = engine.Open();
  SessionTurnRequest request = Generate(session, std::string(30, 'a'), 1);
  request.sampling.logit_bias = {{0xE2, 100.0f}};
  EXPECT_EQ(RunTurn(*engine, MakeTurn(request)).end.incomplete_character, "\xE2");
  const Outcome outcome = RunTurn(*engine, MakeTurn(Generate(session, std::string(9, 'b'), 5)));
  EXPECT_EQ(outcome.end.reason, FinishReason::kContext);
  EXPECT_EQ(outcome.text, kReplaced);
  EXPECT_TRUE(outcome.tokens.empty());
  EXPECT_EQ(RunTurn(*engine, MakeTurn(Generate(session, "", 5))).text, "");
}

// Runs the turn and cancels it when `tokens` tokens have been delivered.
void CancelAfter(TestEngine& engine, const std::shared_ptr<SessionTurn>& turn, uint64_t tokens) {
  ASSERT_TRUE(engine.Start(turn).ok());
  uint64_t seen = 0;
  bool ended = false;
  while (!ended) {
    const TurnStream::Item item = turn->stream.Next();
    ended = std::holds_alternative<TurnEnd>(item);
    const auto* event = std::get_if<TurnEvent>(&item);
    const auto* delta = event == nullptr ? nullptr : std::get_if<DeltaEvent>(event);
    if (delta == nullptr || seen >= tokens) continue;
    turn->stream.Delivered(delta->position);
    seen += delta->tokens.size();
    if (seen >= tokens) {
      turn->Cancel();
      engine->Wake();
    }
  }
}

TEST(IncompleteCharacters, ComeBackWhenATurnIsRolledBack) {
  TestEngine engine(R"({"step_delay_us": 1000})");
  const auto session = engine.Open();
  SessionTurnRequest cut = Generate(session, "q", 1);
  cut.sampling.logit_bias = {{0xC3, 100.0f}};
  ASSERT_EQ(RunTurn(*engine, MakeTurn(cut)).end.incomplete_character, "\xC3");
  for (const char* prompt : {"", "x"}) {
    CancelAfter(engine, MakeTurn(Generate(session, prompt, 100000)), 2);
    EXPECT_EQ(session->View().position, 2u);
  }
  cut.prompt.clear();
  cut.sampling.logit_bias = {{0xA9, 100.0f}};
  EXPECT_EQ(RunTurn(*engine, MakeTurn(cut)).text, "\u00e9");
}

// An aborted turn keeps the tokens up to a delivered one, which may end within a character. Here
// the text of the tokens before the cancel and the text after it are those of one turn.
TEST(IncompleteCharacters, AreDeliveredAfterAnAbortThatKeepsThem) {
  TestEngine engine(R"({"utf8": true, "step_delay_us": 1000})");
  const Outcome whole = RunTurn(*engine, MakeTurn(Generate(engine.Open(), "q", 120)));
  const std::string bytes = BytesOf(whole.tokens);
  uint64_t cuts = 0;
  for (uint64_t tokens = 1; tokens < 30; ++tokens) {
    const auto session = engine.Open();
    SessionTurnRequest request = Generate(session, "q", 100000);
    request.on_abort = OnAbort::kKeep;
    CancelAfter(engine, MakeTurn(request), tokens);
    const uint64_t kept = session->View().position - 1;
    ASSERT_GE(kept, tokens);
    ASSERT_LT(kept, 100u);
    const std::string delivered = bytes.substr(0, ValidUtf8Prefix(bytes.substr(0, kept)));
    cuts += delivered.size() < kept ? 1 : 0;
    const std::string rest = RunTurn(*engine, MakeTurn(Generate(session, "", 120 - kept))).text;
    EXPECT_EQ(delivered + rest, whole.text) << kept << " tokens were kept";
  }
  EXPECT_GT(cuts, 0u) << "no turn was cut within a character";
}

TEST(KeptText, IsTheStopStringAndTheTextAfterIt) {
  TestEngine engine;
  SessionTurnRequest request = Generate(engine.Open(), "q", 60);
  const std::string text = RunTurn(*engine, MakeTurn(request)).text;
  request.session = engine.Open();
  request.stop.strings = {text.substr(20, 3)};
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  ASSERT_EQ(outcome.end.reason, FinishReason::kStopString);
  EXPECT_EQ(outcome.end.kept_text_bytes, 3u);
  EXPECT_EQ(outcome.text.size() + outcome.end.kept_text_bytes, outcome.tokens.size());
}

}  // namespace
}  // namespace longstream
