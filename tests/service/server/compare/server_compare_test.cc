// Holds the figures of a comparison against an independent computation, and its tokens against
// those of Generate and Score.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/service/server/compare/compare_fixture.h"

namespace longstream {
namespace {

constexpr char kText[] = "The quick brown fox jumps over the lazy dog, and then it sleeps.";

v1::CompareRequest Forced(const std::vector<std::string>& models, const std::string& prompt,
                          const std::string& text) {
  v1::CompareRequest request;
  for (const std::string& model : models) request.add_arms()->set_model(model);
  request.mutable_input()->set_text(prompt);
  request.mutable_forced()->set_text(text);
  request.set_top_log_probs(3);
  return request;
}

// p_i in f64, in the plainest way.
std::vector<double> Softmax(const std::vector<float>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  double sum = 0;
  for (const float logit : logits) {
    p.push_back(std::exp(logit - most));
    sum += p.back();
  }
  for (double& value : p) value /= sum;
  return p;
}

TEST_F(CompareTest, FiguresAreThoseOfTheLogits) {
  const std::string prompt = "abc";
  const Comparison comparison = Compare(Forced({"a", "b", "a"}, prompt, kText));
  ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
  const std::string whole = prompt + kText;
  const auto baseline = LogitsOf("a", whole);
  const auto arm = LogitsOf("b", whole);
  ASSERT_EQ(comparison.rows.size(), whole.size() - prompt.size());
  double sum_kl = 0;
  uint64_t same_best = 0;
  for (size_t row = 0; row < comparison.rows.size(); ++row) {
    const size_t index = prompt.size() + row;
    const auto token = static_cast<unsigned char>(whole[index]);
    const std::vector<double> p = Softmax(baseline[index - 1]);
    const std::vector<double> q = Softmax(arm[index - 1]);
    double kl = 0;
    for (size_t i = 0; i < p.size(); ++i) kl += p[i] * std::log(p[i] / q[i]);
    const v1::CompareRow& found = comparison.rows[row];
    ASSERT_EQ(found.pairs_size(), 2);
    EXPECT_NEAR(found.pairs(0).kl(), kl, 1e-9);
    EXPECT_GT(kl, 1e-3) << "the models are too alike for a test";
    EXPECT_NEAR(found.pairs(0).delta_p(), q[token] - p[token], 1e-12);
    const auto best_p = std::max_element(p.begin(), p.end()) - p.begin();
    const auto best_q = std::max_element(q.begin(), q.end()) - q.begin();
    EXPECT_EQ(found.pairs(0).same_best(), best_p == best_q);
    const v1::CompareToken& said = found.tokens(1);
    EXPECT_EQ(said.token_id(), token);
    EXPECT_EQ(said.token(), std::string(1, whole[index]));
    EXPECT_NEAR(said.log_prob(), std::log(q[token]), 1e-4);
    EXPECT_EQ(said.best_token(), best_q);
    EXPECT_EQ(said.rank(), 1 + std::count_if(q.begin(), q.end(),
                                             [&](double other) { return other > q[token]; }));
    EXPECT_EQ(said.top_size(), 3);
    // The third arm is the baseline once more.
    EXPECT_EQ(found.pairs(1).kl(), 0.0);
    EXPECT_EQ(found.pairs(1).delta_p(), 0.0);
    EXPECT_TRUE(found.pairs(1).same_best());
    sum_kl += kl;
    same_best += best_p == best_q ? 1 : 0;
  }
  ASSERT_EQ(comparison.finish.pairs_size(), 2);
  EXPECT_EQ(comparison.finish.pairs(0).arm(), 1u);
  EXPECT_EQ(comparison.finish.pairs(0).rows(), comparison.rows.size());
  EXPECT_NEAR(comparison.finish.pairs(0).sum_kl(), sum_kl, 1e-8);
  EXPECT_EQ(comparison.finish.pairs(0).same_best(), same_best);
  EXPECT_EQ(comparison.finish.pairs(1).sum_kl(), 0.0);
  EXPECT_FALSE(comparison.finish.pairs(0).has_first_difference());
  ExpectNothingHeld();
}

TEST_F(CompareTest, ForcedLogProbabilitiesAreThoseOfScore) {
  const std::string prompt = "abc";
  const Comparison comparison = Compare(Forced({"a", "b"}, prompt, kText));
  ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
  for (const uint32_t arm : {0u, 1u}) {
    const std::vector<v1::TokenScore> scores = Score(arm == 0 ? "a" : "b", prompt + kText);
    const std::vector<v1::CompareToken> tokens = comparison.TokensOf(arm);
    ASSERT_EQ(tokens.size() + prompt.size(), scores.size());
    double sum = 0;
    uint64_t best = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const v1::TokenScore& score = scores[prompt.size() + i];
      EXPECT_EQ(tokens[i].log_prob(), score.log_prob()) << "equal to the bit";
      EXPECT_EQ(tokens[i].best_token() == tokens[i].token_id(), score.top1());
      for (int k = 0; k < 3; ++k) {
        EXPECT_EQ(tokens[i].top(k).token_id(), score.top(k).token_id());
        EXPECT_EQ(tokens[i].top(k).log_prob(), score.top(k).log_prob());
      }
      EXPECT_FALSE(tokens[i].has_interval());
      sum += score.log_prob();
      best += score.top1() ? 1 : 0;
    }
    const v1::CompareArmEnd& end = comparison.ends.at(arm);
    EXPECT_EQ(end.code(), 0);
    EXPECT_EQ(end.tokens(), tokens.size());
    EXPECT_EQ(end.sum_log_prob(), sum);
    EXPECT_EQ(end.best_tokens(), best);
    EXPECT_EQ(end.text_bytes(), sizeof(kText) - 1);
    EXPECT_EQ(end.usage().generated_tokens(), 0u);
    EXPECT_GT(end.usage().bytes().state(), 0u);
  }
}

TEST_F(CompareTest, FreeRunningTokensAreThoseOfGenerate) {
  v1::CompareRequest request = Request({"a", "b", "a"});
  request.set_max_tokens(60);
  request.set_top_log_probs(2);
  const Comparison comparison = Compare(request);
  ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
  EXPECT_EQ(comparison.IdsOf(0), Generate("a", request));
  EXPECT_EQ(comparison.IdsOf(1), Generate("b", request));
  EXPECT_EQ(comparison.IdsOf(2), comparison.IdsOf(0));
  EXPECT_EQ(comparison.TextOf(2), comparison.TextOf(0));
  EXPECT_NE(comparison.IdsOf(1), comparison.IdsOf(0));

  // An A/A comparison never differs.
  for (const v1::ComparePair& pair : comparison.PairsOf(2)) {
    EXPECT_EQ(pair.kl(), 0.0);
    EXPECT_TRUE(pair.same_best());
  }
  EXPECT_EQ(comparison.PairsOf(2).size(), 60u);
  // The other arm is compared up to the place where it differs, and not behind it.
  const std::vector<int32_t> ids = comparison.IdsOf(0);
  size_t differs = 0;
  while (ids[differs] == comparison.IdsOf(1)[differs]) ++differs;
  ASSERT_EQ(comparison.finish.pairs_size(), 2);
  EXPECT_EQ(comparison.finish.pairs(0).first_difference(), differs);
  EXPECT_EQ(comparison.PairsOf(1).size(), differs + 1);
  EXPECT_FALSE(comparison.finish.pairs(1).has_first_difference());
  const v1::CompareArmEnd& end = comparison.ends.at(1);
  EXPECT_EQ(end.reason(), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(end.usage().generated_tokens(), 60u);
  EXPECT_EQ(end.usage().prompt_tokens(), 5u);
  EXPECT_EQ(end.text_bytes(), comparison.TextOf(1).size());
  EXPECT_FALSE(comparison.TokensOf(1)[0].has_interval());
  ExpectNothingHeld();
}

// Log-probabilities are those of the raw distribution, whatever the sampling does with it.
TEST_F(CompareTest, SamplingIsThatOfGenerate) {
  std::vector<v1::CompareRequest> requests(5, Request({"a", "b", "a"}));
  for (v1::CompareRequest& request : requests) request.set_max_tokens(40);
  v1::Sampling& penalties = *requests[0].mutable_sampling();
  penalties.set_repetition_penalty(1.5f);
  penalties.set_presence_penalty(1.0f);
  penalties.set_frequency_penalty(0.5f);
  v1::Sampling& bias = *requests[1].mutable_sampling();
  (*bias.mutable_logit_bias())['q'] = 30.0f;
  (*bias.mutable_logit_bias())['e'] = -100.0f;
  requests[2].mutable_sampling()->set_top_k(1);
  requests[3].mutable_sampling()->set_min_p(0.2f);
  requests[4].mutable_sampling()->set_top_p(0.3f);
  for (const v1::CompareRequest& request : requests) {
    SCOPED_TRACE(request.sampling().ShortDebugString());
    const Comparison comparison = Compare(request);
    ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
    EXPECT_EQ(comparison.IdsOf(0), Generate("a", request));
    EXPECT_EQ(comparison.IdsOf(1), Generate("b", request));
    EXPECT_EQ(comparison.IdsOf(2), comparison.IdsOf(0));
    // The arm reads its own text again: its raw probabilities are the same.
    const std::vector<v1::TokenScore> scores = Score("b", "hello" + comparison.TextOf(1));
    const std::vector<v1::CompareToken> tokens = comparison.TokensOf(1);
    ASSERT_EQ(scores.size(), 5 + tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_NEAR(tokens[i].log_prob(), scores[5 + i].log_prob(), 1e-5);
      EXPECT_EQ(tokens[i].best_token() == tokens[i].token_id(), scores[5 + i].top1());
    }
  }
  const std::vector<int32_t> biased = Compare(requests[1]).IdsOf(0);
  EXPECT_EQ(biased, std::vector<int32_t>(40, 'q'));
  for (const v1::CompareToken& token : Compare(requests[2]).TokensOf(0)) {
    EXPECT_EQ(token.rank(), 1u);
  }
}

TEST_F(CompareTest, AnswersOfOneToken) {
  v1::CompareRequest request = Request({"a", "b"});
  request.set_max_tokens(1);
  const Comparison one = Compare(request);
  ASSERT_TRUE(one.status.ok()) << one.status.error_message();
  ASSERT_EQ(one.rows.size(), 1u);
  EXPECT_EQ(one.rows[0].tokens_size(), 2);
  EXPECT_EQ(one.rows[0].pairs_size(), 1);
  EXPECT_EQ(one.ends.at(1).reason(), v1::FINISH_REASON_MAX_TOKENS);
  request.mutable_forced()->set_answer_of(1);
  EXPECT_EQ(Compare(request).IdsOf(0), one.IdsOf(1));
  request.clear_forced();

  // The first token of `a` is a stop token: its text is empty, but it has a probability. `b` goes
  // on.
  request.set_max_tokens(30);
  request.mutable_stop()->add_token_ids(one.IdsOf(0).at(0));
  const Comparison stopped = Compare(request);
  ASSERT_TRUE(stopped.status.ok()) << stopped.status.error_message();
  const v1::CompareArmEnd& end = stopped.ends.at(0);
  EXPECT_EQ(end.code(), 0);
  EXPECT_EQ(end.reason(), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_EQ(end.tokens(), 1u);
  EXPECT_EQ(end.text_bytes(), 0u);
  EXPECT_LT(end.sum_log_prob(), 0.0);
  EXPECT_EQ(stopped.IdsOf(0), one.IdsOf(0));
  EXPECT_EQ(stopped.TextOf(0), "");
  EXPECT_EQ(stopped.IdsOf(1), Generate("b", request));
  ASSERT_EQ(stopped.finish.pairs_size(), 1);
  EXPECT_EQ(stopped.finish.pairs(0).rows(), 1u);
  EXPECT_TRUE(stopped.finish.pairs(0).has_first_difference());
  ExpectNothingHeld();
}

TEST_F(CompareTest, ArmsHaveTheSameSeedOrTheirOwn) {
  v1::CompareRequest request = Request({"a", "a", "a"});
  request.mutable_sampling()->clear_seed();
  *request.mutable_arms(2)->mutable_sampling() = request.sampling();
  request.mutable_arms(2)->mutable_sampling()->set_seed(99);
  request.set_max_tokens(40);
  const Comparison comparison = Compare(request);
  ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
  EXPECT_EQ(comparison.started.arms(0).seed(), comparison.started.arms(1).seed());
  EXPECT_EQ(comparison.started.arms(2).seed(), 99u);
  EXPECT_EQ(comparison.IdsOf(0), comparison.IdsOf(1));
  EXPECT_NE(comparison.IdsOf(0), comparison.IdsOf(2));
}

TEST_F(CompareTest, AllArmsReadTheAnswerOfOne) {
  v1::CompareRequest request = Request({"a", "b"});
  request.mutable_forced()->set_answer_of(1);
  request.set_max_tokens(30);
  const Comparison comparison = Compare(request);
  ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
  const std::vector<int32_t> answer = Generate("b", request);
  EXPECT_EQ(comparison.IdsOf(0), answer);
  EXPECT_EQ(comparison.IdsOf(1), answer);
  EXPECT_EQ(comparison.PairsOf(1).size(), answer.size());
  EXPECT_EQ(comparison.started.answer().arm(), 1u);
  EXPECT_EQ(comparison.started.answer().usage().generated_tokens(), 30u);
  EXPECT_EQ(comparison.started.answer().reason(), v1::FINISH_REASON_MAX_TOKENS);
}

TEST_F(CompareTest, ThePromptItselfIsComparedFromATokenOn) {
  v1::CompareRequest request = Forced({"a", "b"}, kText, "");
  for (const uint64_t from : {0u, 1u, 40u}) {
    request.mutable_forced()->set_prompt_from(from);
    const Comparison comparison = Compare(request);
    ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
    const uint64_t first = std::max<uint64_t>(from, 1);
    EXPECT_EQ(comparison.started.arms(0).prompt_tokens(), first);
    const std::vector<v1::TokenScore> scores = Score("b", kText);
    const std::vector<v1::CompareToken> tokens = comparison.TokensOf(1);
    ASSERT_EQ(tokens.size(), scores.size() - first);
    EXPECT_EQ(tokens[0].log_prob(), scores[first].log_prob());
    EXPECT_EQ(comparison.ends.at(1).text_bytes(), tokens.size());
  }
}

TEST_F(CompareTest, TokenIdsCanBeForced) {
  v1::CompareRequest request = Forced({"a", "b"}, "abc", "");
  for (const char c : std::string(kText)) request.mutable_forced()->mutable_tokens()->add_ids(c);
  const Comparison ids = Compare(request);
  ASSERT_TRUE(ids.status.ok()) << ids.status.error_message();
  const Comparison text = Compare(Forced({"a", "b"}, "abc", kText));
  ASSERT_EQ(ids.rows.size(), text.rows.size());
  EXPECT_EQ(ids.rows.back().pairs(0).kl(), text.rows.back().pairs(0).kl());
}

// A long text, in many steps and messages.
TEST_F(CompareTest, ALongText) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + i * i % 23);
  const Comparison comparison = Compare(Forced({"a", "b"}, "abc", text));
  ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
  ASSERT_EQ(comparison.rows.size(), text.size());
  const std::vector<v1::TokenScore> scores = Score("b", "abc" + text);
  for (size_t i = 0; i < text.size(); ++i) {
    ASSERT_EQ(comparison.rows[i].tokens(1).log_prob(), scores[3 + i].log_prob()) << i;
  }
}

TEST_F(CompareTest, ASessionIsThePromptAndStaysAsItIs) {
  const std::string id = Open("a");
  v1::AppendRequest append;
  append.set_session_id(id);
  append.mutable_input()->set_text("hel");
  Append(append);
  v1::CompareRequest request = Request({"a", "b"});
  const Comparison whole = Compare(request);
  request.set_session_id(id);
  request.mutable_input()->set_text("lo");
  const Comparison behind = Compare(request);
  ASSERT_TRUE(behind.status.ok()) << behind.status.error_message();
  EXPECT_EQ(behind.started.arms(0).prompt_tokens(), 5u);
  EXPECT_EQ(behind.IdsOf(0), whole.IdsOf(0));
  EXPECT_EQ(behind.IdsOf(1), whole.IdsOf(1));
  grpc::ClientContext context;
  v1::GetSessionRequest get;
  v1::Session session;
  get.set_session_id(id);
  ASSERT_TRUE(stub().GetSession(&context, get, &session).ok());
  EXPECT_EQ(session.position(), 3u);
  EXPECT_FALSE(session.turn_running());
}

TEST_F(CompareTest, MessagesAreRenderedByEachTemplate) {
  v1::CompareRequest request = Request({"chat", "chat", "talk"});
  v1::Message* const message = request.mutable_input()->mutable_messages()->add_messages();
  message->set_role("user");
  message->set_content("hi");
  const Comparison comparison = Compare(request);
  ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
  EXPECT_EQ(comparison.started.arms(0).prompt_tokens(), std::string("[user]hi.[assistant]").size());
  EXPECT_EQ(comparison.started.arms(2).prompt_tokens(), std::string("user: hi;assistant: ").size());
  EXPECT_TRUE(comparison.started.arms(1).same_prompt());
  EXPECT_FALSE(comparison.started.arms(2).same_prompt());
  EXPECT_TRUE(comparison.started.arms(2).comparable());
  EXPECT_EQ(comparison.PairsOf(1).size(), 12u);
}

// Arms with other tokenizers: no token is compared, but the text is, by its bytes.
TEST_F(CompareTest, OtherTokenizersAreComparedByBytes) {
  const Comparison comparison = Compare(Forced({"a", "words", "b"}, "abc", kText));
  ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
  EXPECT_TRUE(comparison.started.arms(0).comparable());
  EXPECT_FALSE(comparison.started.arms(1).comparable());
  EXPECT_EQ(comparison.started.arms(1).not_comparable_reason(),
            "model words has another tokenizer than model a");
  EXPECT_NE(comparison.started.arms(1).tokenizer_fingerprint(),
            comparison.started.arms(0).tokenizer_fingerprint());
  EXPECT_TRUE(comparison.PairsOf(1).empty());
  EXPECT_EQ(comparison.PairsOf(2).size(), sizeof(kText) - 1);
  EXPECT_EQ(comparison.ends.at(0).text_bytes(), comparison.ends.at(1).text_bytes());
  EXPECT_LT(comparison.ends.at(1).sum_log_prob(), 0.0);
  ASSERT_EQ(comparison.finish.pairs_size(), 1);
  EXPECT_EQ(comparison.finish.pairs(0).arm(), 2u);

  const Comparison free = Compare(Request({"a", "words"}));
  ASSERT_TRUE(free.status.ok()) << free.status.error_message();
  EXPECT_EQ(free.TokensOf(1).size(), 12u);
  EXPECT_TRUE(free.PairsOf(1).empty());
}

}  // namespace
}  // namespace longstream
