// The composition of a step: the order of entries, the budget of rows, and where prompts are cut.
#include "service/engine/policy/step_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace longstream {
namespace {

constexpr StepLimits kLimits{.max_tokens = 200, .max_sequences = 4, .prefill_grid = 64};

StepCandidate Decode(uint64_t last_step = 0) {
  return {.position = 10, .remaining = 1, .is_decode = true, .last_step = last_step};
}
StepCandidate Prefill(uint64_t position, uint64_t remaining, uint64_t last_step = 0) {
  return {.position = position, .remaining = remaining, .last_step = last_step};
}

TEST(PlanStep, DecodeRowsComeFirst) {
  const StepCandidate candidates[] = {Prefill(0, 1000), Decode(), Decode()};
  const auto plan = PlanStep(candidates, kLimits);
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0].candidate, 1u);
  EXPECT_EQ(plan[1].candidate, 2u);
  EXPECT_EQ(plan[2].candidate, 0u);
  EXPECT_EQ(plan[2].num_tokens, 192u) << "198 rows are left; the last grid line is at 192";
}

TEST(PlanStep, TheTenantThatHasGotLeastGoesFirst) {
  const auto of = [](StepCandidate candidate, double work, int32_t priority = 1,
                     uint32_t passed_over = 0) {
    candidate.tenant_work = work;
    candidate.priority = priority;
    candidate.passed_over = passed_over;
    return candidate;
  };
  const auto first_prompt = [](std::vector<StepCandidate> candidates) {
    const auto plan = PlanStep(candidates, kLimits);
    return plan.front().candidate;
  };
  const StepCandidate prompt = Prefill(0, 1000);
  EXPECT_EQ(first_prompt({of(prompt, 5), of(prompt, 4)}), 1u);
  EXPECT_EQ(first_prompt({of(prompt, 5, 2), of(prompt, 4, 1)}), 0u) << "priority goes before";
  EXPECT_EQ(first_prompt({of(prompt, 5, 1, 1000), of(prompt, 4)}), 1u)
      << "a prompt that waits long does not pass those of a tenant that has got less";
  EXPECT_EQ(first_prompt({of(prompt, 5, 1, 1000), of(prompt, 4, 2)}), 1u);
  EXPECT_EQ(first_prompt({of(prompt, 4, 1, 1000), of(prompt, 5, 2)}), 0u)
      << "it goes first if its own tenant has got least";
  EXPECT_EQ(first_prompt({of(prompt, 5), of(prompt, 5, 1, 1000), of(prompt, 7)}), 1u);
  EXPECT_EQ(first_prompt({of(Prefill(0, 1000, 3), 5), of(Prefill(0, 1000, 2), 5)}), 1u)
      << "then the longest wait";
}

TEST(PlanStep, PromptsAreBoundedBesideDecodeRowsAlone) {
  StepLimits limits = kLimits;
  limits.max_prompt_tokens = 64;
  const StepCandidate mixed[] = {Prefill(0, 1000), Decode(), Prefill(0, 1000)};
  const auto plan = PlanStep(mixed, limits);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].candidate, 1u);
  EXPECT_EQ(plan[1].num_tokens, 64u);
  limits.max_prompt_tokens = 0;
  EXPECT_EQ(PlanStep(mixed, limits).size(), 1u);
  EXPECT_EQ(PlanStep({mixed, 1}, limits)[0].num_tokens, 192u)
      << "no decode row waits for the prompt";
}

StepCandidate Beginning() {
  StepCandidate candidate = Decode();
  candidate.is_beginning = true;
  return candidate;
}

TEST(PlanStep, PromptsThatEndAreNotBoundedBesideTurnsThatBegin) {
  StepLimits limits = kLimits;
  limits.max_prompt_tokens = 64;
  const StepCandidate candidates[] = {Beginning(), Prefill(0, 70), Prefill(0, 100)};
  const auto plan = PlanStep(candidates, limits);
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[1].num_tokens, 70u);
  EXPECT_EQ(plan[2].num_tokens, 100u);
  limits.max_prompt_tokens = 0;
  EXPECT_EQ(PlanStep(candidates, limits).size(), 1u) << "a bound of 0 allows only decode rows";
}

TEST(PlanStep, WhatDoesNotEndIsBoundedBesideTurnsThatBegin) {
  StepLimits limits = kLimits;
  limits.max_prompt_tokens = 128;
  StepCandidate open = Prefill(0, 130);
  open.input_open = true;
  for (const StepCandidate& prompt : {Prefill(0, 1000), open}) {
    const StepCandidate candidates[] = {Beginning(), prompt};
    const auto plan = PlanStep(candidates, limits);
    ASSERT_EQ(plan.size(), 2u);
    EXPECT_EQ(plan[1].num_tokens, 128u);
  }
  // The tokens of prompts that end in this step count towards the bound.
  const StepCandidate mixed[] = {Beginning(), Prefill(0, 70), Prefill(0, 1000)};
  EXPECT_EQ(PlanStep(mixed, limits).size(), 2u)
      << "58 tokens are left, and a piece has at least 64";
  // A shorter prompt does not overtake a prompt that is cut.
  const StepCandidate behind[] = {Beginning(), Prefill(0, 1000), Prefill(0, 70)};
  ASSERT_EQ(PlanStep(behind, limits).size(), 2u);
  EXPECT_EQ(PlanStep(behind, limits)[1].num_tokens, 128u);
}

TEST(PlanStep, OneStreamThatFlowsIsEnoughForTheBound) {
  StepLimits limits = kLimits;
  limits.max_prompt_tokens = 64;
  const StepCandidate candidates[] = {Beginning(), Prefill(0, 70), Decode()};
  const auto plan = PlanStep(candidates, limits);
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[2].candidate, 1u);
  EXPECT_EQ(plan[2].num_tokens, 64u);
}

TEST(PlanStep, AllPromptsTogetherGiveSoManyRowsOfLogits) {
  const auto scored = [](uint64_t position, uint64_t remaining, uint64_t last_step = 0) {
    StepCandidate candidate = Prefill(position, remaining, last_step);
    candidate.gives_logits = true;
    return candidate;
  };
  StepLimits limits{.max_tokens = 1000, .max_sequences = 8, .prefill_grid = 64};
  const StepCandidate candidates[] = {scored(0, 70), scored(0, 200), scored(0, 64),
                                      Prefill(0, 300)};
  EXPECT_EQ(PlanStep(candidates, limits).size(), 4u) << "without a limit all are read";
  limits.max_logit_rows = 192;
  const auto plan = PlanStep(candidates, limits);
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0].num_tokens, 70u);
  EXPECT_EQ(plan[1].num_tokens, 64u) << "122 rows are left; the last grid line is at 64";
  EXPECT_EQ(plan[2].candidate, 3u) << "the third one waits; a prompt without logits does not";
  EXPECT_EQ(plan[2].num_tokens, 300u);
  // In the next step, the text that has waited longest goes first.
  const StepCandidate next[] = {scored(64, 136, /*last_step=*/1), scored(0, 64)};
  EXPECT_EQ(PlanStep(next, limits)[0].candidate, 1u);
}

TEST(PlanStep, PieceEndsOnAnAbsoluteGridLine) {
  const StepCandidate candidates[] = {Prefill(70, 1000)};
  const auto plan = PlanStep(candidates, kLimits);
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].num_tokens, 256u - 70u);
}

TEST(PlanStep, EndOfAPromptNeedsNoGridLine) {
  const StepCandidate candidates[] = {Prefill(70, 33)};
  EXPECT_EQ(PlanStep(candidates, kLimits)[0].num_tokens, 33u);
}

TEST(PlanStep, OpenInputWaitsForTheGridLine) {
  StepCandidate open = Prefill(70, 33);
  open.input_open = true;
  EXPECT_TRUE(PlanStep({&open, 1}, kLimits).empty());
  open.remaining = 60;
  ASSERT_EQ(PlanStep({&open, 1}, kLimits).size(), 1u);
  EXPECT_EQ(PlanStep({&open, 1}, kLimits)[0].num_tokens, 128u - 70u);
}

TEST(PlanStep, WhoWaitedLongestGoesFirst) {
  const StepCandidate candidates[] = {Prefill(0, 1000, 9), Prefill(0, 1000, 5), Prefill(0, 30, 7)};
  const auto plan = PlanStep(candidates, kLimits);
  ASSERT_GE(plan.size(), 1u);
  EXPECT_EQ(plan[0].candidate, 1u);
}

TEST(PlanStep, PriorityBeforeWaiting) {
  StepCandidate candidates[] = {Prefill(0, 100, 0), Prefill(0, 100, 9)};
  candidates[1].priority = 2;
  EXPECT_EQ(PlanStep(candidates, kLimits)[0].candidate, 1u);
}

TEST(PlanStep, APromptThatWasPassedOverTooOftenGoesFirst) {
  StepCandidate candidates[] = {Prefill(0, 100, 9), Prefill(64, 100, 9), Prefill(0, 100)};
  candidates[2].priority = 2;
  candidates[0].passed_over = kMostPassedOver - 1;
  candidates[1].passed_over = kMostPassedOver - 1;
  EXPECT_EQ(PlanStep(candidates, kLimits)[0].candidate, 2u);
  candidates[0].passed_over = kMostPassedOver;
  candidates[1].passed_over = kMostPassedOver + 1;
  const auto plan = PlanStep(candidates, kLimits);
  EXPECT_EQ(plan[0].candidate, 1u);
  EXPECT_EQ(plan[1].candidate, 0u);
}

// In every step new short prompts of high priority fill the rows.
TEST(PlanStep, NoPromptStarves) {
  StepCandidate prompts[] = {Prefill(0, 1000), Prefill(0, 1000)};
  prompts[1].priority = 1;
  for (uint64_t step = 1; step < 2000; ++step) {
    std::vector<StepCandidate> candidates(prompts, prompts + 2);
    for (int i = 0; i < 3; ++i) {
      candidates.push_back(Prefill(0, 100));
      candidates.back().priority = 2;
    }
    for (StepCandidate& prompt : prompts) ++prompt.passed_over;
    for (const StepPiece& piece : PlanStep(candidates, kLimits)) {
      if (piece.candidate >= 2) continue;
      StepCandidate& prompt = prompts[piece.candidate];
      prompt.position += piece.num_tokens;
      prompt.remaining -= piece.num_tokens;
      prompt.last_step = step;
      prompt.passed_over = 0;
      if (prompt.remaining == 0) prompt = Prefill(0, 1000, step);
    }
    for (const StepCandidate& prompt : prompts) {
      ASSERT_LE(prompt.passed_over, kMostPassedOver + 2) << step;
    }
  }
}

TEST(PlanStep, DecodeRowsLeaveAPromptOneEntry) {
  const StepCandidate candidates[] = {Decode(7), Decode(3), Decode(5), Decode(4),
                                      Prefill(0, 30, 9)};
  const auto plan = PlanStep(candidates, kLimits);
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[0].candidate, 1u);
  EXPECT_EQ(plan[1].candidate, 3u);
  EXPECT_EQ(plan[2].candidate, 2u);
  EXPECT_EQ(plan[3].candidate, 4u) << "the decode row that was in the latest step waits";
  EXPECT_EQ(PlanStep({candidates, 4}, kLimits).size(), 4u) << "no prompt needs an entry";
  StepCandidate waits = Prefill(0, 30);
  waits.input_open = true;
  const StepCandidate no_prompt[] = {Decode(), Decode(), Decode(), Decode(), waits};
  EXPECT_EQ(PlanStep(no_prompt, kLimits)[3].candidate, 3u) << "the open prompt cannot be read yet";
  StepLimits limits = kLimits;
  limits.max_prompt_tokens = 0;
  EXPECT_EQ(PlanStep(candidates, limits)[3].candidate, 0u)
      << "a bound of 0 allows only decode rows";
}

// The bound holds for the prompt even though the decode row gets no entry and is not in the step.
TEST(PlanStep, AStepOfOneEntryIsWhoseThatHasWaitedLongest) {
  StepLimits limits = kLimits;
  limits.max_sequences = 1;
  limits.max_prompt_tokens = 64;
  StepCandidate candidates[] = {Decode(5), Prefill(0, 1000, 4)};
  ASSERT_EQ(PlanStep(candidates, limits).size(), 1u);
  EXPECT_EQ(PlanStep(candidates, limits)[0].candidate, 1u);
  EXPECT_EQ(PlanStep(candidates, limits)[0].num_tokens, 64u)
      << "the decode row waits for the prompt";
  candidates[1].last_step = 6;
  EXPECT_EQ(PlanStep(candidates, limits)[0].candidate, 0u);
}

// All candidates always want a step. Each candidate must get a step at regular intervals, because
// the candidates of one kind and priority take turns.
TEST(PlanStep, EverybodyGoesOn) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    StepLimits limits = kLimits;
    limits.max_sequences = 1 + random() % 4;
    std::vector<StepCandidate> candidates(2 + random() % 10);
    for (StepCandidate& candidate : candidates) {
      candidate = random() % 2 == 0 ? Decode() : Prefill(0, 1u << 30);
      candidate.is_beginning = candidate.is_decode && random() % 2 == 0;
    }
    const uint64_t patience = 2 * candidates.size();
    for (uint64_t step = 1; step < 60; ++step) {
      limits.max_prompt_tokens = 64 * (1 + random() % 3);
      for (const StepPiece& piece : PlanStep(candidates, limits)) {
        StepCandidate& candidate = candidates[piece.candidate];
        candidate.last_step = step;
        if (!candidate.is_decode) candidate.position += piece.num_tokens;
      }
      for (const StepCandidate& candidate : candidates) {
        ASSERT_LE(step - candidate.last_step, patience)
            << (candidate.is_decode ? "a decode row" : "a prompt") << " among " << candidates.size()
            << ", entries " << limits.max_sequences;
      }
    }
  }
}

// For random candidates a step stays within its limits and cuts prompts only where that is allowed.
TEST(PlanStep, LimitsHoldForRandomCandidates) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<StepCandidate> candidates(random() % 12);
    for (StepCandidate& candidate : candidates) {
      candidate = random() % 2 == 0 ? Decode(random() % 50)
                                    : Prefill(random() % 500, 1 + random() % 700, random() % 50);
      candidate.is_beginning = candidate.is_decode && random() % 2 == 0;
      candidate.input_open = !candidate.is_decode && random() % 4 == 0;
    }
    StepLimits limits = kLimits;
    limits.max_prompt_tokens = 64 * (random() % 4);
    uint64_t rows = 0, prompts = 0, ending = 0;
    bool has_decode_rows = false, all_begin = true;
    const bool has_prompt =
        limits.max_prompt_tokens > 0 &&
        std::any_of(candidates.begin(), candidates.end(), [](const StepCandidate& candidate) {
          return !candidate.is_decode && CanStep(candidate, kLimits.prefill_grid);
        });
    const auto plan = PlanStep(candidates, limits);
    EXPECT_LE(plan.size(), kLimits.max_sequences);
    for (const StepPiece& piece : plan) {
      const StepCandidate& candidate = candidates[piece.candidate];
      const uint64_t end = candidate.position + piece.num_tokens;
      rows += piece.num_tokens;
      if (candidate.is_decode) {
        has_decode_rows = true;
        all_begin &= candidate.is_beginning;
      } else {
        prompts += piece.num_tokens;
        if (piece.num_tokens == candidate.remaining) ending += piece.num_tokens;
      }
      EXPECT_GE(piece.num_tokens, 1u);
      EXPECT_LE(piece.num_tokens, candidate.remaining);
      EXPECT_TRUE(end % kLimits.prefill_grid == 0 ||
                  (piece.num_tokens == candidate.remaining && !candidate.input_open));
    }
    EXPECT_LE(rows, kLimits.max_tokens);
    EXPECT_TRUE(prompts > 0 || !has_prompt) << "no prompt is read, although one could be";
    if (!has_decode_rows) continue;
    const bool may_exceed = all_begin && limits.max_prompt_tokens > 0;
    EXPECT_LE(may_exceed ? prompts - ending : prompts, limits.max_prompt_tokens);
  }
}

}  // namespace
}  // namespace longstream
