// STOP_TEXT_DROP: the session's text ends where the deltas end.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "service/tokenizer/text/byte_alphabet.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

constexpr int32_t kLong = 255;  // the token "ab<end>cd"

// One token per byte, but for 255, which no text has.
std::string TokenizerJson() {
  nlohmann::json json = nlohmann::json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "added_tokens": [],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                      "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
                "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null,
              "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
              "byte_fallback": false, "ignore_merges": false, "vocab": {}, "merges": []}
  })");
  for (int byte = 0; byte < kLong; ++byte) {
    json["model"]["vocab"][ByteToAlphabet(static_cast<unsigned char>(byte))] = byte;
  }
  json["model"]["vocab"]["ab<end>cd"] = kLong;
  return json.dump();
}

class StopText : public testing::Test {
 protected:
  StopText() {
    directory_.Write("config.json", R"({"model_type": "minimal"})");
    directory_.Write("tokenizer.json", TokenizerJson());
    engine_.emplace("{}", 0, Engine::Options{}, TestModel{.directory = directory_.string()});
  }

  // Draws `token` until the turn ends.
  Outcome Draw(const std::shared_ptr<Session>& session, std::string_view prompt, int32_t token,
               bool drops, const std::string& stop, uint64_t max_tokens = 8) {
    SessionTurnRequest request = Generate(session, prompt, max_tokens);
    request.sampling.logit_bias = {{token, 100.0f}};
    request.stop.drops_text = drops;
    if (!stop.empty()) request.stop.strings = {stop};
    return RunTurn(**engine_, std::make_shared<SessionTurn>(request));
  }

  // The bytes of the session's tokens.
  std::string TextOf(const std::shared_ptr<Session>& session) {
    std::string text;
    for (const int32_t token : StateOf(session).tokens) {
      text += (*engine_)->model().tokenizer().TokenBytes(token);
    }
    return text;
  }

  TemporaryDirectory directory_;
  std::optional<TestEngine> engine_;
};

TEST_F(StopText, OfATokenThatBeginsEarlierIsReplaced) {
  const auto session = engine_->Open();
  const Outcome outcome = Draw(session, "q", kLong, /*drops=*/true, "<end>");
  ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.end.reason, FinishReason::kStopString);
  EXPECT_EQ(outcome.text, "ab");
  EXPECT_EQ(outcome.tokens, std::vector<int32_t>{kLong}) << "the deltas have the drawn tokens";
  EXPECT_EQ(outcome.end.kept_text_bytes, 0u);
  EXPECT_EQ(outcome.end.usage.generated_tokens, 1u);
  EXPECT_EQ(TextOf(session), "qab");
  EXPECT_EQ(StateOf(session).tokens, (std::vector<int32_t>{'q', 'a', 'b'}));
  EXPECT_EQ(outcome.end.position, 3u);
  EXPECT_EQ(session->View().position, 3u);
  // The session goes on as one that was told this text.
  EXPECT_EQ(Draw(session, "", 'x', false, "", 2).text, "xx");
  EXPECT_EQ(TextOf(session), "qabxx");
}

TEST_F(StopText, IsKeptOtherwise) {
  const auto session = engine_->Open();
  const Outcome outcome = Draw(session, "q", kLong, /*drops=*/false, "<end>");
  EXPECT_EQ(outcome.end.kept_text_bytes, 7u);
  EXPECT_EQ(TextOf(session), "qab<end>cd");
}

TEST_F(StopText, OfManyTokensIsTakenBack) {
  const auto session = engine_->Open();
  const Outcome outcome = Draw(session, "q", 'x', /*drops=*/true, "xxx");
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(TextOf(session), "q");
  const Outcome second = Draw(session, "", 'y', /*drops=*/true, "", 3);
  EXPECT_EQ(second.end.reason, FinishReason::kMaxTokens);
  EXPECT_EQ(TextOf(session), "qyyy") << "nothing is dropped without a stop";
}

TEST_F(StopText, MayCrossTokens) {
  const auto session = engine_->Open();
  // "ab<end>cdab<end>cd": the stop begins in the first token and ends in the second.
  const Outcome outcome = Draw(session, "q", kLong, /*drops=*/true, "d>cdab");
  EXPECT_EQ(outcome.end.reason, FinishReason::kStopString);
  EXPECT_EQ(outcome.text, "ab<en");
  EXPECT_EQ(TextOf(session), "qab<en");
  EXPECT_EQ(outcome.tokens.size(), 2u);
}

TEST_F(StopText, OfAStopTokenIsDroppedToo) {
  const auto session = engine_->Open();
  SessionTurnRequest request = Generate(session, "q", 8);
  request.sampling.logit_bias = {{'x', 100.0f}};
  request.stop.token_ids = {'x'};
  request.stop.drops_text = true;
  const Outcome outcome = RunTurn(**engine_, std::make_shared<SessionTurn>(request));
  EXPECT_EQ(outcome.end.reason, FinishReason::kStopToken);
  EXPECT_EQ(outcome.end.stop_token, 'x');
  EXPECT_EQ(TextOf(session), "q");
}

}  // namespace
}  // namespace longstream
