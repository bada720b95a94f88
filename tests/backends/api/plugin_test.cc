// The checks of a batch that plugin.h offers to backends.
#include "backends/api/plugin.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace longstream {
namespace {

constexpr int32_t kVocabulary = 10;

// Refusal() checks a batch whose entries all have sampling_. It returns the sentence of the
// refusal, or "" if the batch is accepted. The code of a refusal must be expected_.
class BatchCheckTest : public ::testing::Test {
 protected:
  BatchCheckTest() {
    sampling_.struct_size = sizeof(sampling_);
    sampling_.top_p = sampling_.repetition_penalty = 1;
  }

  std::string Refusal(uint32_t num_entries = 1) {
    std::vector<ls_batch_entry> entries(num_entries);
    for (uint32_t i = 0; i < num_entries; ++i) {
      // The handles are only compared.
      entries[i].sequence = reinterpret_cast<ls_sequence*>(&handles_[i]);
      entries[i].tokens = &token_;
      entries[i].num_tokens = 1;
      entries[i].sampling = &sampling_;
    }
    try {
      check_.Check({sizeof(ls_batch), entries.data(), num_entries});
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code, expected_);
      return failure.text;
    }
    return "";
  }

  void SetHistory(const std::vector<ls_token_count>& history) {
    sampling_.history = history.data();
    sampling_.num_history = static_cast<uint32_t>(history.size());
  }
  void SetBias(const std::vector<ls_logit_bias>& bias) {
    sampling_.bias = bias.data();
    sampling_.num_bias = static_cast<uint32_t>(bias.size());
  }

  const int32_t token_ = 1;
  char handles_[4];
  ls_sampling sampling_{};
  ls_code expected_ = LS_INVALID_ARGUMENT;
  BatchCheck check_{3, 2, kVocabulary, 0};
};

TEST_F(BatchCheckTest, ATokenComesOnceInAHistoryAndOnceInABias) {
  const std::vector<ls_token_count> history = {{9, 1, 0}, {0, 2, 1}, {4, 1, 0}};
  const std::vector<ls_logit_bias> bias = {{9, 1.0f}, {0, 2.0f}};
  SetHistory(history);
  SetBias(bias);
  // The two entries list the same tokens, which is no repetition.
  EXPECT_EQ(Refusal(2), "");

  const std::vector<ls_token_count> history_twice = {{9, 1, 0}, {4, 2, 1}, {9, 1, 0}};
  SetHistory(history_twice);
  EXPECT_EQ(Refusal(), "history: the token 9 twice");
  SetHistory(history);
  const std::vector<ls_logit_bias> bias_twice = {{0, 1.0f}, {0, 1.0f}};
  SetBias(bias_twice);
  EXPECT_EQ(Refusal(), "bias: the token 0 twice");
  SetBias(bias);
  EXPECT_EQ(Refusal(), "") << "a refusal leaves nothing behind";
}

TEST_F(BatchCheckTest, IdsAreCheckedBeforeTheyAreCounted) {
  const std::vector<ls_token_count> history = {{kVocabulary, 1, 0}};
  SetHistory(history);
  EXPECT_EQ(Refusal(), "history: expected a token id of 0 ... " + std::to_string(kVocabulary - 1) +
                           ", found " + std::to_string(kVocabulary));
}

TEST_F(BatchCheckTest, NamesTheFieldTheLimitAndTheValue) {
  sampling_.temperature = -1;
  EXPECT_EQ(Refusal(), "temperature: expected a number >= 0, found -1");
  sampling_.temperature = 0;
  sampling_.top_p = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Refusal(), "top_p: expected a number in (0, 1], found nan");
  sampling_.top_p = 1;
  sampling_.top_k = -2147483647;
  EXPECT_EQ(Refusal(), "top_k: expected 0 (off) or more, found -2147483647");
  sampling_.top_k = 0;
  const std::vector<ls_logit_bias> bias = {{3, HUGE_VALF}};
  SetBias(bias);
  EXPECT_EQ(Refusal(), "bias: expected a finite number or -infinity, found inf");
}

TEST_F(BatchCheckTest, SizesOfABatch) {
  EXPECT_EQ(Refusal(0), "entries: expected 1 ... 3, found 0");
  EXPECT_EQ(Refusal(4), "entries: expected 1 ... 3, found 4");
  EXPECT_EQ(Refusal(3), "tokens: expected at most 2 in a batch, found 3");
}

TEST_F(BatchCheckTest, AMaskNeedsItsCapability) {
  const uint32_t allowed[] = {3};
  sampling_.allowed = allowed;
  expected_ = LS_UNIMPLEMENTED;
  EXPECT_EQ(Refusal(), "allowed: this backend lacks masks of allowed tokens");
  sampling_.struct_size = LS_SAMPLING_SIZE_1_0;
  EXPECT_EQ(Refusal(), "") << "the host does not know the field";
  sampling_.struct_size = sizeof(sampling_);
  sampling_.allowed = nullptr;
  EXPECT_EQ(Refusal(), "");
}

// The structure of an older host ends before the mask. AddressSanitizer ends the program at a read
// behind it.
TEST(AllowedTokensTest, NothingBehindStructSizeIsRead) {
  ls_sampling current{};
  current.top_p = current.repetition_penalty = 1;
  for (const size_t size : {LS_SAMPLING_SIZE_1_0, LS_SAMPLING_SIZE_1_0 + 4}) {
    const std::unique_ptr<void, decltype(&std::free)> memory(std::malloc(size), &std::free);
    current.struct_size = static_cast<uint32_t>(size);
    std::memcpy(memory.get(), &current, size);
    const auto& older = *static_cast<const ls_sampling*>(memory.get());
    EXPECT_EQ(AllowedTokens(older), nullptr);
    CheckSampling(older, kVocabulary);
    EXPECT_STREQ(WhyNoToken(older, kVocabulary),
                 "penalties: with bias they turn logits into NaN, or all into -infinity");
  }
}

TEST(WhyNoTokenTest, TellsMasksFromBansAndPenalties) {
  const char* penalties =
      "penalties: with bias they turn logits of allowed tokens into NaN, or all into -infinity";
  for (const int32_t vocabulary : {10, 32, 40}) {
    // The bits beyond the vocabulary are set.
    std::vector<uint32_t> allowed((static_cast<size_t>(vocabulary) + 31) / 32, 0);
    for (int32_t bit = vocabulary; bit < 64; ++bit) {
      if (static_cast<size_t>(bit) / 32 < allowed.size()) allowed[bit / 32] |= 1u << (bit % 32);
    }
    ls_sampling sampling{};
    sampling.struct_size = sizeof(sampling);
    sampling.allowed = allowed.data();
    EXPECT_STREQ(WhyNoToken(sampling, vocabulary), "allowed: no token is allowed");
    const int32_t last = vocabulary - 1;
    allowed[last / 32] |= 1u << (last % 32);
    EXPECT_STREQ(WhyNoToken(sampling, vocabulary), penalties);
    std::vector<ls_logit_bias> bias = {{last, -HUGE_VALF}, {3, -HUGE_VALF}};
    sampling.bias = bias.data();
    sampling.num_bias = 2;
    EXPECT_STREQ(WhyNoToken(sampling, vocabulary), "allowed: bias bans every allowed token");
    allowed[0] |= 1u << 4;
    EXPECT_STREQ(WhyNoToken(sampling, vocabulary), penalties);
    bias[1].token = 4;
    EXPECT_STREQ(WhyNoToken(sampling, vocabulary), "allowed: bias bans every allowed token");
    bias[0].bias = 2;
    EXPECT_STREQ(WhyNoToken(sampling, vocabulary), penalties);
  }
}

TEST(WhyNoTokenTest, TellsBansFromPenalties) {
  std::vector<ls_logit_bias> bias;
  for (int32_t token = 0; token < kVocabulary; ++token) bias.push_back({token, -HUGE_VALF});
  ls_sampling sampling{};
  sampling.bias = bias.data();
  sampling.num_bias = kVocabulary;
  EXPECT_STREQ(WhyNoToken(sampling, kVocabulary), "bias: every token is banned");
  bias[3].bias = -1;
  const char* penalties = "penalties: with bias they turn logits into NaN, or all into -infinity";
  EXPECT_STREQ(WhyNoToken(sampling, kVocabulary), penalties);
  EXPECT_STREQ(WhyNoToken(ls_sampling{}, kVocabulary), penalties);
}

}  // namespace
}  // namespace longstream
