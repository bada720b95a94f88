// Tokens of prompts beside decode rows, from the times of steps.
#include "service/engine/policy/step_cost_model.h"

#include <gtest/gtest.h>

namespace longstream {
namespace {

constexpr uint32_t kGrid = 64;
constexpr double kStretch = 6.0;

// A machine on which a step of decode rows takes 10 ms and a token of a prompt `token`.
void StepTook(StepCostModel& mixed, uint64_t prompt_tokens, absl::Duration token) {
  mixed.Learn(4, prompt_tokens,
              absl::Milliseconds(10) + static_cast<int64_t>(prompt_tokens) * token);
}

TEST(StepCostModelTest, DecodeRowsAreAloneAtFirst) {
  StepCostModel mixed(kGrid, kStretch);
  EXPECT_EQ(mixed.PromptTokens(), 0u);
  StepTook(mixed, 0, absl::ZeroDuration());
  EXPECT_EQ(mixed.PromptTokens(), kGrid) << "what a token costs is not known";
}

TEST(StepCostModelTest, AStepIsStretchedAsFarAsIsAllowed) {
  StepCostModel mixed(kGrid, kStretch);
  StepTook(mixed, 0, absl::ZeroDuration());
  StepTook(mixed, kGrid, absl::Microseconds(100));
  // 5 * 10 ms / 0.1 ms = 500 tokens, 7 whole grid lines.
  EXPECT_EQ(mixed.PromptTokens(), 7 * kGrid);
}

TEST(StepCostModelTest, PromptsGoOnHoweverSlowTheyAre) {
  StepCostModel mixed(kGrid, kStretch);
  StepTook(mixed, 0, absl::ZeroDuration());
  StepTook(mixed, kGrid, absl::Milliseconds(50));
  EXPECT_EQ(mixed.PromptTokens(), kGrid);
}

TEST(StepCostModelTest, PromptsAloneTellTheirCostToo) {
  StepCostModel mixed(kGrid, kStretch);
  mixed.Learn(0, 512, absl::Milliseconds(512));
  EXPECT_EQ(mixed.PromptTokens(), 0u);
  StepTook(mixed, 0, absl::ZeroDuration());
  EXPECT_EQ(mixed.PromptTokens(), kGrid) << "50 tokens, and at least a grid line";
  mixed.Learn(0, 512, absl::Milliseconds(5));
  for (int i = 0; i < 20; ++i) mixed.Learn(0, 512, absl::Milliseconds(5));
  EXPECT_GT(mixed.PromptTokens(), 60 * kGrid);
}

TEST(StepCostModelTest, WhatPromptsTakeIsKnownOnceOneWasRead) {
  StepCostModel mixed(kGrid, kStretch);
  EXPECT_EQ(mixed.PromptTime(1000), absl::ZeroDuration());
  mixed.Learn(0, 512, absl::Milliseconds(256));
  EXPECT_EQ(mixed.PromptTime(1000), absl::Milliseconds(500));
}

TEST(StepCostModelTest, TheCostOfDecodeRowsIsLearnedAnew) {
  StepCostModel mixed(kGrid, kStretch);
  StepTook(mixed, 0, absl::ZeroDuration());
  for (uint32_t i = 0; i < StepCostModel::kMaxAge; ++i) {
    ASSERT_GT(mixed.PromptTokens(), 0u) << i;
    StepTook(mixed, kGrid, absl::Microseconds(100));
  }
  EXPECT_EQ(mixed.PromptTokens(), 0u);
  StepTook(mixed, 0, absl::ZeroDuration());
  EXPECT_GT(mixed.PromptTokens(), 0u);
}

// Steps that were quicker than decode rows alone are on average make no cost of zero or less.
TEST(StepCostModelTest, NoiseMakesNoNegativeCost) {
  StepCostModel mixed(kGrid, kStretch);
  StepTook(mixed, 0, absl::ZeroDuration());
  mixed.Learn(4, kGrid, absl::Milliseconds(1));
  EXPECT_GE(mixed.PromptTokens(), kGrid);
  EXPECT_LE(mixed.PromptTokens(), 1u << 30);
}

TEST(StepCostModelTest, StepsOfNoTimeOrLessTellNothing) {
  StepCostModel mixed(kGrid, kStretch);
  for (const absl::Duration time : {absl::ZeroDuration(), -absl::Hours(1)}) {
    mixed.Learn(4, 0, time);
    EXPECT_EQ(mixed.PromptTokens(), 0u) << "what decode rows cost is still not known";
  }
  StepTook(mixed, 0, absl::ZeroDuration());
  StepTook(mixed, kGrid, absl::Microseconds(100));
  const uint64_t learned = mixed.PromptTokens();
  mixed.Learn(4, 0, -absl::Hours(1));
  mixed.Learn(4, kGrid, -absl::Hours(1));
  mixed.Learn(0, 8 * kGrid, absl::ZeroDuration());
  EXPECT_EQ(mixed.PromptTokens(), learned);
}

}  // namespace
}  // namespace longstream
