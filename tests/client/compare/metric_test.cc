// Stated minimum effects.
#include "client/compare/metric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace longstream::client {
namespace {

using testing::HasSubstr;

TEST(SetMinimumEffectTest, SetsOneMetricInItsUnit) {
  MinimumEffects effects = DefaultMinimumEffects();
  EXPECT_EQ(SetMinimumEffect("kl=0.5", &effects), "");
  EXPECT_EQ(SetMinimumEffect("top1_disagreement=0.25", &effects), "");
  EXPECT_EQ(SetMinimumEffect("itl=2", &effects), "");
  MinimumEffects expected = DefaultMinimumEffects();
  expected[static_cast<size_t>(Metric::kKl)] = 0.5;
  expected[static_cast<size_t>(Metric::kDisagreement)] = 0.25;
  expected[static_cast<size_t>(Metric::kItl)] = std::log(2.0);
  EXPECT_EQ(effects, expected);
}

TEST(SetMinimumEffectTest, RefusesOtherTextsAndChangesNothing) {
  struct {
    const char* text;
    const char* error;
  } const kCases[] = {
      {"", "is not METRIC=VALUE with one of the metrics kl, top1_disagreement"},
      {"kl", "is not METRIC=VALUE"},
      {"speed=1", "speed=1 is not METRIC=VALUE"},
      {"kl=", "kl=:  is not a number greater than 0"},
      {"kl=0", "is not a number greater than 0"},
      {"kl=-1", "is not a number greater than 0"},
      {"kl=nan", "is not a number greater than 0"},
      {"kl=inf", "is not a number greater than 0"},
      {"kl=1x", "1x is not a number"},
      {"itl=1", "is not a number greater than 1"},
      {"itl=-2", "is not a number greater than 1"},
      {"delta_p=1.5", "is not a number greater than 0 and at most 1"},
  };
  for (const auto& [text, error] : kCases) {
    MinimumEffects effects = DefaultMinimumEffects();
    EXPECT_THAT(SetMinimumEffect(text, &effects), HasSubstr(error)) << text;
    EXPECT_EQ(effects, DefaultMinimumEffects()) << text;
  }
}

}  // namespace
}  // namespace longstream::client
