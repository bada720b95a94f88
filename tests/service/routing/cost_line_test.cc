// The line through measured costs, and what it predicts.
#include "service/routing/cost_line.h"

#include <gtest/gtest.h>

#include <vector>

#include "service/routing/arm_costs.h"

namespace longstream {
namespace {

struct FitCase {
  const char* name;
  std::vector<CostSample> samples;
  CostLine line;
};

TEST(FitLineTest, Table) {
  const FitCase cases[] = {
      {"no samples", {}, {0, 0}},
      {"one sample", {{512, 3}}, {3, 0}},
      {"one depth", {{512, 3}, {512, 5}, {512, 4}}, {4, 0}},
      {"an exact line", {{0, 1}, {100, 2}, {200, 3}, {400, 5}}, {1, 0.01}},
      {"a constant cost", {{0, 2}, {100, 2}, {4000, 2}}, {2, 0}},
      {"a cost that falls is constant", {{0, 3}, {100, 2}, {200, 1}}, {2.5, 0}},
      {"one disturbed sample of five moves nothing",
       {{0, 1}, {100, 2}, {200, 30}, {300, 4}, {400, 5}},
       {1, 0.01}},
      {"deep samples that are disturbed do not move the base",
       {{0, 1}, {400, 50}, {100, 2}, {200, 3}, {300, 4}},
       {1, 0.01}},
      {"the base is not negative", {{1000, 1}, {2000, 3}}, {0, 0.002}},
  };
  for (const FitCase& test : cases) {
    const CostLine line = FitLine(test.samples);
    EXPECT_NEAR(line.base, test.line.base, 1e-12) << test.name;
    EXPECT_NEAR(line.slope, test.line.slope, 1e-12) << test.name;
  }
}

TEST(ArmCostsTest, PredictsTimesAndBytes) {
  ArmCosts costs;
  costs.prefill = {0.001, 1e-6};
  costs.decode = {0.02, 1e-5};
  costs.kv_bytes_per_token = 100;
  costs.page_tokens = 16;
  costs.fixed_bytes = 1000;
  costs.bytes_per_token = 4;
  EXPECT_EQ(costs.PrefillSeconds(0), 0.0);
  EXPECT_DOUBLE_EQ(costs.PrefillSeconds(1), 0.02) << "a step reads all weights";
  // The sum of 0.001 + 1e-6 d over the depths 0 to 1000.
  EXPECT_NEAR(costs.PrefillSeconds(1000), 1.0 + 0.5, 1e-9);
  EXPECT_NEAR(costs.SecondsPerToken(1000, 0), 0.03, 1e-12);
  EXPECT_NEAR(costs.SecondsPerToken(1000, 200), 0.02 + 1100e-5, 1e-12);
  EXPECT_EQ(costs.SessionBytes(0), 1000u);
  EXPECT_EQ(costs.SessionBytes(1), 1000u + 1600u);
  EXPECT_EQ(costs.SessionBytes(16), 1000u + 1600u);
  EXPECT_EQ(costs.SessionBytes(17), 1000u + 3200u);
  EXPECT_EQ(costs.TokensOf(0), 0u);
  EXPECT_EQ(costs.TokensOf(5), 2u);
  costs.page_tokens = 0;
  EXPECT_EQ(costs.SessionBytes(1'000'000), 1000u) << "a model without pages";
}

TEST(ArmCostsTest, SlopesByMemory) {
  ArmCosts costs;
  costs.prefill = {0.001, 5};
  costs.decode = {0.02, 5};
  costs.kv_bytes_per_token = 100;
  SetSlopesByMemory(0, &costs);
  EXPECT_EQ(costs.decode.slope, 5) << "the weights are not known";
  SetSlopesByMemory(10'000, &costs);
  // Behind 100 tokens a step reads twice the bytes.
  EXPECT_NEAR(costs.decode.At(100), 0.04, 1e-12);
  EXPECT_NEAR(costs.prefill.At(100), 0.002, 1e-12);
  costs.kv_bytes_per_token = 0;
  SetSlopesByMemory(10'000, &costs);
  EXPECT_EQ(costs.decode.slope, 0);
}

TEST(ArmCostsTest, TheMemoryLimitsTheSlopeOfDecode) {
  ArmCosts costs;
  costs.measured_depth = 1000;
  costs.kv_bytes_per_token = 100;
  // Behind 1000 tokens a step reads twice the bytes: the slope is 0.02 / 1000.
  const auto limited = [&](double slope) {
    costs.decode = {0.03 - 500 * slope, slope};
    LimitSlopeByMemory(100'000, &costs);
    EXPECT_NEAR(costs.decode.At(500), 0.03, 1e-12);
    return costs.decode.slope;
  };
  EXPECT_NEAR(limited(2.1e-5), 2.1e-5, 1e-12);
  EXPECT_NEAR(limited(5e-5), 4e-5, 1e-12);
  EXPECT_NEAR(limited(0), 1e-5, 1e-12);
  costs.decode = {0.02, 5};
  LimitSlopeByMemory(0, &costs);
  EXPECT_EQ(costs.decode.slope, 5) << "the weights are not known";
}

}  // namespace
}  // namespace longstream
