// Streams of Compare, as a server would send them, and the values that come of them.
#include "client/compare/command/prompt_run.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>

namespace longstream::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Adds messages in text format.
ComparedText Stream(std::initializer_list<const char*> messages) {
  ComparedText text;
  for (const char* message : messages) {
    v1::CompareResponse response;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(message, &response)) << message;
    text.Add(response);
  }
  return text;
}

constexpr const char* kStarted = R"(started {
  arms { model: "a" tokenizer_fingerprint: "t" prompt_tokens: 9 comparable: true }
  arms { model: "b" tokenizer_fingerprint: "t" prompt_tokens: 9 comparable: true }
})";
// Both arms read "x" and "\377"; b prefers "y" to "x".
constexpr const char* kRows = R"(rows {
  rows {
    tokens { arm: 0 token_id: 1 token: "x" log_prob: -0.25 rank: 1 best_token: 1
             top { token_id: 1 token: "x" } }
    tokens { arm: 1 token_id: 1 token: "x" log_prob: -0.5 rank: 2 best_token: 2
             top { token_id: 2 token: "y" } }
    pairs { arm: 1 kl: 0.125 same_best: false delta_p: -0.1 }
  }
  rows {
    tokens { arm: 0 token_id: 3 token: "\377" log_prob: -1 rank: 1 best_token: 3 }
    tokens { arm: 1 token_id: 3 token: "\377" log_prob: -2 rank: 1 best_token: 3 }
    pairs { arm: 1 kl: 0 same_best: true }
  }
})";
constexpr const char* kEndOfA = R"(arm_end {
  arm: 0 tokens: 2 sum_log_prob: -1.25 text_bytes: 2
  usage { reused_tokens: 3 recomputed_tokens: 4 bytes { kv: 5 window: 6 state: 7 host: 8 } }
})";
constexpr const char* kEndOfB = R"(arm_end { arm: 1 tokens: 2 sum_log_prob: -2.5 text_bytes: 2 })";

TEST(ToFinishedPromptTest, CopiesTokensPairsAndCosts) {
  const FinishedPrompt prompt =
      ToFinishedPrompt("p", Stream({kStarted, kRows, kEndOfA, kEndOfB, "finish {}"}));
  EXPECT_THAT(prompt.tokenizers, ElementsAre("t", "t"));
  const PromptRun& run = prompt.run;
  EXPECT_EQ(run.id, "p");
  EXPECT_EQ(run.tokens, 9u);
  ASSERT_EQ(run.arms.size(), 2u);
  const ArmRun& a = run.arms[0];
  const ArmRun& b = run.arms[1];
  ASSERT_EQ(a.tokens.size(), 2u);
  ASSERT_EQ(b.tokens.size(), 2u);
  EXPECT_EQ(a.tokens[0].log_prob, -0.25);
  EXPECT_EQ(a.tokens[0].rank, 0u);
  EXPECT_TRUE(a.tokens[0].top1);
  EXPECT_EQ(a.tokens[1].text, "\xff");
  EXPECT_EQ(b.tokens[0].rank, 1u);
  EXPECT_FALSE(b.tokens[0].top1);
  EXPECT_EQ(b.tokens[0].text, "x");
  EXPECT_EQ(b.tokens[0].top1_text, "y");
  EXPECT_EQ(b.tokens[1].top1_text, "");
  EXPECT_EQ(a.text, "x\xff");
  EXPECT_EQ(a.bytes.kv, 5u);
  EXPECT_EQ(a.bytes.window, 6u);
  EXPECT_EQ(a.bytes.state, 7u);
  EXPECT_EQ(a.reused_tokens, 3u);
  EXPECT_EQ(a.recomputed_tokens, 4u);
  EXPECT_DOUBLE_EQ(a.bits_per_byte, 1.25 / std::log(2.0) / 2);
  EXPECT_TRUE(std::isnan(a.ttft_seconds));
  ASSERT_EQ(run.pairs.size(), 1u);
  ASSERT_EQ(run.pairs[0].size(), 2u);
  EXPECT_EQ(run.pairs[0][0].kl, 0.125);
  EXPECT_FALSE(run.pairs[0][0].agrees);
  EXPECT_EQ(run.pairs[0][0].delta_p, -0.1);
  EXPECT_TRUE(run.pairs[0][1].agrees);
}

TEST(ToFinishedPromptTest, FreeRunningArmsHaveTheirTexts) {
  const FinishedPrompt prompt =
      ToFinishedPrompt("p", Stream({kStarted, R"(rows { rows {
             tokens { arm: 0 token_id: 1 token: "\303" text: "" rank: 1 }
             tokens { arm: 1 token_id: 2 token: "b" text: "b" rank: 1 }
           } rows { tokens { arm: 0 token_id: 4 token: "\251" text: "\303\251" rank: 1 } } })",
                                    "arm_end { arm: 0 sum_log_prob: -1 text_bytes: 2 "
                                    "usage { generated_tokens: 2 } }",
                                    "arm_end { arm: 1 usage { generated_tokens: 1 } }"}));
  EXPECT_EQ(prompt.run.arms[0].text, "\xc3\xa9");
  EXPECT_EQ(prompt.run.arms[0].tokens.size(), 2u);
  EXPECT_TRUE(std::isnan(prompt.run.arms[0].bits_per_byte)) << "stop tokens would count";
  EXPECT_EQ(prompt.run.arms[1].text, "b");
  EXPECT_TRUE(prompt.run.pairs[0].empty());
}

TEST(ToFinishedPromptTest, ALostArmHasOnlyAnError) {
  const char* const lost = R"(arm_end { arm: 1 code: 8 error: "no memory" })";
  FinishedPrompt prompt = ToFinishedPrompt("p", Stream({kStarted, kRows, kEndOfA, lost}));
  EXPECT_EQ(prompt.run.arms[0].error, "");
  EXPECT_EQ(prompt.run.arms[0].tokens.size(), 2u);
  EXPECT_EQ(prompt.run.arms[1].error, "RESOURCE_EXHAUSTED: no memory");
  EXPECT_TRUE(prompt.run.arms[1].tokens.empty());
  EXPECT_TRUE(prompt.run.pairs[0].empty());

  prompt = ToFinishedPrompt("p", Stream({kStarted, kRows, kEndOfB}));
  EXPECT_THAT(prompt.run.arms[0].error, HasSubstr("did not say how the arm ended"));
  EXPECT_EQ(prompt.run.arms[1].error, "");
  EXPECT_TRUE(prompt.run.pairs[0].empty());
}

TEST(ToFinishedPromptTest, AnArmThatIsNotComparableCountsAsAnotherTokenizer) {
  const FinishedPrompt prompt = ToFinishedPrompt("p", Stream({R"(started {
      arms { tokenizer_fingerprint: "t" comparable: true }
      arms { tokenizer_fingerprint: "t" not_comparable_reason: "256 logits, not 512" }
      arms { tokenizer_fingerprint: "u" not_comparable_reason: "another tokenizer" } })"}));
  EXPECT_THAT(prompt.tokenizers, ElementsAre("t", "t (256 logits, not 512)", "u"));
}

TEST(SetLatenciesTest, TheMeanBetweenTokens) {
  v1::TurnUsage usage;
  ArmRun run;
  SetLatencies(usage, &run);
  EXPECT_TRUE(std::isnan(run.ttft_seconds));
  usage.set_generated_tokens(1);
  usage.mutable_time_to_first_token()->set_nanos(250'000'000);
  SetLatencies(usage, &run);
  EXPECT_EQ(run.ttft_seconds, 0.25);
  EXPECT_TRUE(run.itl_seconds.empty());
  usage.set_generated_tokens(5);
  usage.mutable_decode_time()->set_seconds(2);
  SetLatencies(usage, &run);
  EXPECT_THAT(run.itl_seconds, ElementsAre(0.5));
}

}  // namespace
}  // namespace longstream::client
