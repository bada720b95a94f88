// The number of prompt tokens beside decode rows, computed from the times of steps.
#include "service/engine/costs/step_cost_model.h"

#include <gtest/gtest.h>

namespace longstream {
namespace {

constexpr uint32_t kGrid = 64;
constexpr double kStretch = 6.0;

// Learns a step on a machine on which decode rows take 10 ms and each prompt token takes `token`.
void StepTook(StepCostModel& mixed, uint64_t prompt_tokens, absl::Duration token) {
  mixed.Learn(4, prompt_tokens,
              absl::Milliseconds(10) + static_cast<int64_t>(prompt_tokens) * token);
}

TEST(StepCostModelTest, DecodeRowsAreAloneAtFirst) {
  StepCostModel mixed(kGrid, kStretch);
  EXPECT_EQ(mixed.PromptTokens(), 0u);
  StepTook(mixed, 0, absl::ZeroDuration());
  EXPECT_EQ(mixed.PromptTokens(), kGrid) << "the cost of a prompt token is not known";
}

TEST(StepCostModelTest, AStepIsStretchedAsFarAsIsAllowed) {
  StepCostModel mixed(kGrid, kStretch);
  StepTook(mixed, 0, absl::ZeroDuration());
  StepTook(mixed, kGrid, absl::Microseconds(100));
  // The prompt tokens may take 5 * 10 ms / 0.1 ms = 500 tokens. The largest multiple of the grid
  // below 500 is 7 * 64.
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
  EXPECT_EQ(mixed.PromptTokens(), kGrid) << "50 tokens, rounded up to the least piece";
  mixed.Learn(0, 512, absl::Milliseconds(5));
  for (int i = 0; i < 20; ++i) mixed.Learn(0, 512, absl::Milliseconds(5));
  EXPECT_GT(mixed.PromptTokens(), 60 * kGrid);
}

// The measured time of decode rows must not be subtracted from a step that has none.
TEST(StepCostModelTest, PromptsAloneTakeAllTheTimeOfTheirStep) {
  StepCostModel mixed(kGrid, kStretch);
  StepTook(mixed, 0, absl::ZeroDuration());
  mixed.Learn(0, 512, absl::Microseconds(51200));
  // 5 * 10 ms / 0.1 ms = 500 tokens, 7 whole grid lines.
  EXPECT_EQ(mixed.PromptTokens(), 7 * kGrid);
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

// If a mixed step is quicker than the average step of decode rows alone, the cost of a prompt token
// must not become zero or negative.
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
    EXPECT_EQ(mixed.PromptTokens(), 0u) << "the cost of decode rows is still unknown";
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
