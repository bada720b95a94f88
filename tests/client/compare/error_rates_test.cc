// A short form of aa_simulation, with a fixed seed. The bounds are three standard errors wider than
// those of the full form.
#include "tests/client/compare/error_rates.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longstream::client {
namespace {

SimulationOptions Short(size_t prompts) { return {200, prompts, 799, 3}; }

TEST(ErrorRatesTest, EqualArmsAreRarelyDifferent) {
  EXPECT_LE(FalseDifferences(Short(20)), 0.115);
  EXPECT_LE(FalseDifferences(Short(50)), 0.115);
}

TEST(ErrorRatesTest, DifferentArmsAreRarelyEqual) { EXPECT_LE(FalseEqualities(Short(50)), 0.115); }

TEST(ErrorRatesTest, OnePercentIsFoundAtTheNamedNumberOfPrompts) {
  const FoundEffect found = FoundAtNamedPrompts(Short(20), Metric::kLogProb, {std::log(0.99), 0});
  EXPECT_GE(found.found, 0.72);
  EXPECT_GT(found.mean_prompts, 20);
  EXPECT_LT(found.mean_prompts, 400);
}

// The simulation can fail: with a planted effect most runs find a difference. One in twenty says
// *equal within δ*, because the effect is δ.
TEST(ErrorRatesTest, PlantedEffectsAreDifferent) {
  EXPECT_GE(FoundAtPrompts(Short(50), Metric::kItl, {0, std::log(1.1)}).found, 0.88);
  EXPECT_LE(FoundAtPrompts(Short(50), Metric::kItl, {}).found, 0.1);
}

}  // namespace
}  // namespace longstream::client
