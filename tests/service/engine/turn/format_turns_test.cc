// Tests turns whose answers have a format, on the minimal model of plain bytes.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "service/engine/logits/followed_tokens.h"
#include "service/grammar/response/response_format.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

using Kind = ResponseFormat::Kind;

class FormatTurns : public ::testing::Test {
 protected:
  SessionTurnRequest Formatted(const ResponseFormat& format, uint64_t seed, uint64_t max_tokens) {
    SessionTurnRequest request = Generate(engine_.Open(), "prompt", max_tokens, seed);
    auto masks = engine_->model().formats().Get(format);
    EXPECT_TRUE(masks.ok()) << masks.status();
    request.format = *std::move(masks);
    return request;
  }
  Outcome Run(const SessionTurnRequest& request) {
    return RunTurn(*engine_, std::make_shared<SessionTurn>(request));
  }

  TestEngine engine_;
};

TEST_F(FormatTurns, TheAnswerHasTheFormat) {
  int yes = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Outcome outcome = Run(Formatted({Kind::kRegex, "yes|no(, never)?"}, seed, 100));
    ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    EXPECT_TRUE(outcome.text == "yes" || outcome.text == "no, never") << outcome.text;
    EXPECT_EQ(outcome.end.reason, FinishReason::kFormat) << "the model has no end id";
    yes += outcome.text == "yes" ? 1 : 0;
  }
  EXPECT_GT(yes, 0);
  EXPECT_LT(yes, 20);
}

TEST_F(FormatTurns, AStopTokenEndsItWhereItIsComplete) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SessionTurnRequest request = Formatted({Kind::kRegex, "(ab)+"}, seed, 1000);
    request.stop.token_ids = {'a', 0};
    request.sampling.logit_bias['a'] = 0;
    const Outcome outcome = Run(request);
    ASSERT_FALSE(outcome.end.status.ok()) << "'a' ends the turn, so no text begins with it";
    EXPECT_EQ(outcome.end.status.code(), absl::StatusCode::kFailedPrecondition);
    request = Formatted({Kind::kRegex, "(ab)+"}, seed, 1000);
    request.stop.token_ids = {0};
    const Outcome other = Run(request);
    ASSERT_TRUE(other.end.status.ok()) << other.end.status;
    EXPECT_EQ(other.end.reason, FinishReason::kStopToken);
    EXPECT_EQ(other.text.size() % 2, 0u);
    EXPECT_GE(other.text.size(), 2u);
  }
}

TEST_F(FormatTurns, RandomAnswersAreJsonOfTheSchema) {
  const std::string schema = R"({"type": "object", "required": ["name", "tags"], "properties": {
      "name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "minimum": 10, "maximum": 99},
      "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}}})";
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Outcome outcome = Run(Formatted({Kind::kJsonSchema, schema}, seed, 2000));
    ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    ASSERT_EQ(outcome.end.reason, FinishReason::kFormat);
    const auto json = nlohmann::json::parse(outcome.text, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json.is_object()) << outcome.text;
    EXPECT_TRUE(json.contains("name") && json["name"].is_string()) << outcome.text;
    EXPECT_TRUE(json.contains("tags") && json["tags"].is_array()) << outcome.text;
    EXPECT_TRUE(!json.contains("age") || (json["age"] >= 10 && json["age"] <= 99)) << outcome.text;
  }
}

TEST_F(FormatTurns, MaxTokensEndItEarlier) {
  const Outcome outcome = Run(Formatted({Kind::kRegex, "a{100}"}, 1, 10));
  ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.text, "aaaaaaaaaa");
  EXPECT_EQ(outcome.end.reason, FinishReason::kMaxTokens);
}

TEST_F(FormatTurns, OtherTurnsOfTheBatchAreTheSame) {
  const Outcome alone = Run(Generate(engine_.Open(), "free", 40, 7));
  const auto free = std::make_shared<SessionTurn>(Generate(engine_.Open(), "free", 40, 7));
  std::vector<std::shared_ptr<SessionTurn>> turns;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    turns.push_back(
        std::make_shared<SessionTurn>(Formatted({Kind::kRegex, "[a-f]{40}"}, seed, 100)));
    ASSERT_TRUE(engine_.Start(turns.back()).ok());
  }
  EXPECT_EQ(RunTurn(*engine_, free).tokens, alone.tokens);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const Outcome outcome = ReadToEnd(*turns[seed]);
    EXPECT_EQ(outcome.text.size(), 40u);
    EXPECT_EQ(outcome.tokens, Run(Formatted({Kind::kRegex, "[a-f]{40}"}, seed, 100)).tokens)
        << "the batch changes no token";
  }
}

// A turn that goes on behind tokens that its client has.
TEST_F(FormatTurns, ForcedTokensMustHaveTheFormat) {
  const ResponseFormat format{Kind::kRegex, "[a-f]{20}"};
  const Outcome whole = Run(Formatted(format, 3, 100));
  SessionTurnRequest request = Formatted(format, 3, 100);
  request.forced_tokens.assign(whole.tokens.begin(), whole.tokens.begin() + 8);
  EXPECT_EQ(Run(request).tokens, whole.tokens);
  request = Formatted(format, 3, 100);
  request.forced_tokens = {'a', 'z'};
  EXPECT_EQ(Run(request).end.status,
            absl::FailedPreconditionError(
                "resume.token_ids[1]: the response_format forbids token 122 there"));
}

TEST_F(FormatTurns, AFollowedTurnDecides) {
  SessionTurnRequest request = Formatted({Kind::kRegex, "a+"}, 1, 100);
  request.followed = std::make_shared<FollowedTokens>([] {});
  for (const int32_t token : Bytes("xyz")) request.followed->Push(token);
  request.followed->Close();
  const Outcome outcome = Run(request);
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.tokens, Bytes("xyz"));
}

TEST_F(FormatTurns, AnAmbiguousGrammarEndsItsTurnOnly) {
  const auto session = engine_.Open();
  SessionTurnRequest request = Formatted({Kind::kGrammar, "root ::= root root | [a-z]"}, 1, 10'000);
  request.session = session;
  const Outcome outcome = Run(request);
  EXPECT_EQ(outcome.end.status.code(), absl::StatusCode::kInvalidArgument) << outcome.end.status;
  EXPECT_EQ(session->View().position, 0u);
  EXPECT_TRUE(Run(Generate(session, "prompt", 10)).end.status.ok());
}

TEST_F(FormatTurns, ABiasMayLeaveNoToken) {
  SessionTurnRequest request = Formatted({Kind::kRegex, "a+"}, 1, 10);
  request.sampling.logit_bias['a'] = kBanBias;
  const Outcome outcome = Run(request);
  EXPECT_FALSE(outcome.end.status.ok());
  EXPECT_EQ(outcome.end.status.code(), absl::StatusCode::kInvalidArgument) << outcome.end.status;
}

}  // namespace
}  // namespace longstream
