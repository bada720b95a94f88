// Turns with a twin: the answer is the same as without, and the figures are those of Compare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/service/server/compare/twin_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;

void ExpectSameAnswer(const TwinnedTurn& turn, const TwinnedTurn& alone) {
  EXPECT_EQ(turn.tokens, alone.tokens);
  EXPECT_EQ(turn.text, alone.text);
  EXPECT_EQ(turn.finish.reason(), alone.finish.reason());
  EXPECT_EQ(turn.finish.position(), alone.finish.position());
  ASSERT_EQ(turn.log_probs.size(), alone.log_probs.size());
  for (size_t i = 0; i < turn.log_probs.size(); ++i) {
    EXPECT_EQ(turn.log_probs[i].SerializeAsString(), alone.log_probs[i].SerializeAsString());
  }
}

TEST_F(TwinTest, TheSameModelSaysTheSame) {
  const v1::GenerateRequest request = TurnOf("a", "a");
  const TwinnedTurn turn = Run(request);
  ExpectWhole(turn, 60);
  ExpectSameAnswer(turn, RunAlone("a", request));
  EXPECT_TRUE(turn.log_probs.empty()) << "the client has asked for none";
  EXPECT_EQ(turn.started.twin().model(), "a");
  for (size_t i = 0; i < turn.rows.size(); ++i) {
    const v1::TwinRow& row = turn.rows[i];
    EXPECT_EQ(row.token_id(), turn.tokens[i]);
    EXPECT_EQ(row.log_prob(), row.twin_log_prob()) << "equal to the bit";
    EXPECT_EQ(row.kl(), 0.0);
    EXPECT_EQ(row.rank(), row.twin_rank());
    EXPECT_TRUE(row.same_best());
    EXPECT_EQ(row.delta_p(), 0.0);
  }
  EXPECT_EQ(turn.summary().max_kl(), 0.0);
  EXPECT_FALSE(turn.summary().has_first_difference());
  EXPECT_EQ(turn.summary().usage().prompt_tokens(), 5u);
  ExpectNothingIsLeft();
}

// The same tokens, forced on both models.
TEST_F(TwinTest, FiguresAreThoseOfCompare) {
  const v1::GenerateRequest request = TurnOf("a", "b");
  const TwinnedTurn turn = Run(request);
  ExpectWhole(turn, 60);
  v1::CompareRequest forced;
  forced.add_arms()->set_model("a");
  forced.add_arms()->set_model("b");
  forced.mutable_input()->set_text("hello");
  for (const int32_t id : turn.tokens) forced.mutable_forced()->mutable_tokens()->add_ids(id);
  const Comparison comparison = Compare(forced);
  ASSERT_EQ(comparison.rows.size(), turn.rows.size());
  size_t first_difference = turn.rows.size();
  double max_kl = 0;
  for (size_t i = turn.rows.size(); i-- > 0;) {
    const v1::TwinRow& row = turn.rows[i];
    const v1::CompareToken& own = comparison.rows[i].tokens(0);
    const v1::CompareToken& twin = comparison.rows[i].tokens(1);
    const v1::ComparePair& pair = comparison.rows[i].pairs(0);
    EXPECT_EQ(row.token_id(), own.token_id());
    EXPECT_NEAR(row.log_prob(), own.log_prob(), 1e-6);
    EXPECT_NEAR(row.twin_log_prob(), twin.log_prob(), 1e-6);
    EXPECT_EQ(row.rank(), own.rank());
    EXPECT_EQ(row.twin_rank(), twin.rank());
    EXPECT_EQ(row.best_token(), own.best_token());
    EXPECT_EQ(row.twin_best_token(), twin.best_token());
    EXPECT_NEAR(row.kl(), pair.kl(), 1e-9);
    EXPECT_GT(row.kl(), 1e-4) << "the models are too alike for a test";
    EXPECT_EQ(row.same_best(), pair.same_best());
    EXPECT_NEAR(row.delta_p(), pair.delta_p(), 1e-9);
    if (!row.same_best()) first_difference = i;
    max_kl = std::max(max_kl, row.kl());
  }
  EXPECT_EQ(turn.summary().max_kl(), max_kl);
  ASSERT_LT(first_difference, turn.rows.size());
  EXPECT_EQ(turn.summary().first_difference(), first_difference);
  ExpectNothingIsLeft();
}

TEST_F(TwinTest, AnswersAreTheSameWithATwin) {
  for (const bool penalised : {false, true}) {
    v1::GenerateRequest request = TurnOf("a", "b");
    request.set_log_probs(true);
    request.set_top_log_probs(4);
    request.mutable_stop()->add_strings("nothing that is drawn");
    if (penalised) request.mutable_sampling()->set_frequency_penalty(1.5f);
    const TwinnedTurn turn = Run(request);
    ExpectWhole(turn, 60);
    ExpectSameAnswer(turn, RunAlone("a", request));
    ASSERT_EQ(turn.log_probs.size(), 60u);
    for (size_t i = 0; i < 60; ++i) {
      EXPECT_EQ(turn.rows[i].log_prob(), turn.log_probs[i].log_prob());
      EXPECT_EQ(turn.rows[i].best_token(), turn.log_probs[i].top(0).token_id());
    }
  }
}

TEST_F(TwinTest, TheTwinReadsTheHistory) {
  v1::GenerateRequest request = TurnOf("a", "");
  const TwinnedTurn first = Run(request);
  request.mutable_input()->set_text(" and then");
  request.set_twin_model("a");
  const TwinnedTurn second = Run(request);
  ExpectWhole(second, 60);
  EXPECT_EQ(second.started.prompt_tokens(), 9u);
  EXPECT_EQ(second.summary().usage().prompt_tokens(), 5u + 60u + 9u);
  for (const v1::TwinRow& row : second.rows) EXPECT_LT(row.kl(), 1e-9);
  ExpectNothingIsLeft();
}

// The twin reads the tokens of the session's model, whatever its own template would make.
TEST_F(TwinTest, MessagesAreRenderedOnce) {
  v1::GenerateRequest request = TurnOf("chat", "talk");
  for (const char* text : {"hi", "what?"}) {
    v1::Messages& messages = *request.mutable_input()->mutable_messages();
    messages.clear_messages();
    messages.add_messages()->set_role("user");
    messages.mutable_messages(0)->set_content(text);
    const TwinnedTurn turn = Run(request);
    ExpectWhole(turn, 60);
    EXPECT_EQ(turn.summary().usage().prompt_tokens(),
              turn.started.position() + turn.started.prompt_tokens());
    for (const v1::TwinRow& row : turn.rows) EXPECT_LT(row.kl(), 1e-9);
  }
}

TEST_F(TwinTest, AStopEndsBoth) {
  v1::GenerateRequest request = TurnOf("a", "b");
  request.mutable_stop()->add_token_ids(Run(request).tokens[7]);
  const TwinnedTurn turn = Run([&] {
    request.set_session_id(TurnOf("a", "").session_id());
    return request;
  }());
  EXPECT_EQ(turn.finish.reason(), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_LE(turn.tokens.size(), 8u);
  ExpectWhole(turn, turn.tokens.size());
}

TEST_F(TwinTest, AReaderThatIsSlowGetsAllRows) {
  v1::GenerateRequest request = TurnOf("a", "b");
  request.set_max_tokens(8000);
  bool has_slept = false;
  const TwinnedTurn turn =
      Run(request, [&](const v1::GenerateResponse& response, grpc::ClientContext*) {
        if (!response.has_twin() || std::exchange(has_slept, true)) return;
        absl::SleepFor(absl::Milliseconds(500));
      });
  ASSERT_TRUE(turn.status.ok()) << turn.status.error_message();
  EXPECT_EQ(turn.summary().code(), 0) << turn.summary().error();
  EXPECT_EQ(turn.rows.size(), 8000u);
  EXPECT_EQ(turn.summary().rows(), 8000u);
  EXPECT_EQ(turn.tokens, RunAlone("a", request).tokens);
  ExpectNothingIsLeft();
}

TEST_F(TwinTest, ManyStreamsAtOnce) {
  const TwinnedTurn alone = RunAlone("a", TurnOf("a", ""));
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(TurnOf("a", i % 2 == 0 ? "a" : "b"));
  std::vector<std::thread> threads;
  for (const v1::GenerateRequest& request : requests) {
    threads.emplace_back([&] {
      const TwinnedTurn turn = Run(request);
      ExpectWhole(turn, 60);
      ExpectSameAnswer(turn, alone);
      EXPECT_EQ(turn.summary().sum_kl() == 0, request.twin_model() == "a");
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectNothingIsLeft();
}

// ---------------------------------------------------------------- turn ids

constexpr char kTurnId[] = "0123456789abcdef0123456789abcdef";

TEST_F(TwinTest, OnlyTheCallThatStartsTheTurnHasATwin) {
  v1::GenerateRequest request = TurnOf("a", "b");
  request.set_turn_id(kTurnId);
  const TwinnedTurn turn = Run(request);
  ExpectWhole(turn, 60);
  EXPECT_EQ(turn.started.how(), v1::ATTACH_NEW);
  for (const char* twin : {"", "b", "no such model"}) {
    request.set_twin_model(twin);
    const TwinnedTurn repeat = Run(request);
    ASSERT_TRUE(repeat.status.ok()) << repeat.status.error_message();
    EXPECT_EQ(repeat.started.how(), v1::ATTACH_REPLAYED);
    EXPECT_FALSE(repeat.started.has_twin());
    EXPECT_FALSE(repeat.finish.has_twin());
    EXPECT_TRUE(repeat.rows.empty());
    EXPECT_EQ(repeat.tokens, turn.tokens);
  }
}

// The server has forgotten the turn, so it goes on behind the tokens that the client has. The twin
// reads these, too.
TEST_F(TwinTest, AResumedTurnHasRowsOfAllTokens) {
  const TwinnedTurn alone = RunAlone("a", TurnOf("a", ""));
  v1::GenerateRequest request = TurnOf("a", "a");
  request.set_turn_id(kTurnId);
  request.mutable_resume()->set_position(5 + 10);
  for (size_t i = 0; i < 10; ++i) request.mutable_resume()->add_token_ids(alone.tokens[i]);
  const TwinnedTurn turn = Run(request);
  EXPECT_EQ(turn.started.how(), v1::ATTACH_FORCED);
  EXPECT_EQ(turn.tokens.size(), 50u);
  ExpectWhole(turn, 60);
  for (size_t i = 0; i < 60; ++i) EXPECT_EQ(turn.rows[i].token_id(), alone.tokens[i]);
  EXPECT_EQ(turn.summary().sum_kl(), 0.0);
}

// A turn that outlives its call goes on without the twin.
TEST_F(TwinTest, TheTwinEndsWithItsCall) {
  v1::GenerateRequest request = TurnOf("a", "b");
  request.set_turn_id(kTurnId);
  request.set_max_tokens(3000);
  Run(request, [](const v1::GenerateResponse& response, grpc::ClientContext* context) {
    if (response.has_twin()) context->TryCancel();
  });
  const TwinnedTurn rest = Run(request);
  ASSERT_TRUE(rest.status.ok()) << rest.status.error_message();
  EXPECT_NE(rest.started.how(), v1::ATTACH_NEW);
  EXPECT_FALSE(rest.finish.has_twin());
  EXPECT_EQ(rest.tokens, RunAlone("a", request).tokens);
  ExpectNothingIsLeft();
}

}  // namespace
}  // namespace longstream
