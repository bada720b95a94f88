// The report compares figures to their targets. A figure without a value misses its target; the
// JSON has it under its name.
#include "tests/bench/gpu/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backends/errors/error.h"

namespace longstream {
namespace {

using testing::ElementsAre;

std::vector<std::string> Names(const BenchReport& report) {
  std::vector<std::string> names;
  for (const Figure& figure : report.figures()) names.push_back(figure.name);
  return names;
}

TEST(BenchReportTest, AFigureIsHeldAgainstWhatItMustReach) {
  BenchReport report;
  report.Add({.name = "fast", .value = 2, .against = "copy", .fraction = 0.9, .least = 0.9});
  report.Add({.name = "ratio", .value = 2, .unit = "ratio", .least = 1.8});
  report.Add({.name = "not asked for", .value = 2, .against = "copy", .fraction = 0.1});
  EXPECT_EQ(report.num_failed(), 0);
  report.Add({.name = "slow", .value = 2, .against = "copy", .fraction = 0.89, .least = 0.9});
  EXPECT_EQ(report.num_failed(), 1);
  report.Add({.name = "absent", .least = 0.9, .missing = "no memory"});
  EXPECT_EQ(report.num_failed(), 2);
  EXPECT_EQ(report.Find("slow"), 2);
  EXPECT_EQ(report.Find("absent"), std::nullopt);
}

TEST(BenchReportTest, WhatIsNotMeasuredIsMissingByName) {
  BenchReport report;
  const std::vector<Figure> figures = {
      {.name = "plain", .least = 0.88}, {.name = "ReRoPE", .least = 0.95}, {.name = "prefill"}};
  report.Measure(figures, [&] {
    report.Add({.name = "plain", .value = 285, .against = "copy", .fraction = 0.9, .least = 0.88});
    throw BackendError(LS_RESOURCE_EXHAUSTED, "a benchmark: the device has no 7 bytes");
  });
  EXPECT_THAT(Names(report), ElementsAre("plain", "ReRoPE", "prefill"));
  EXPECT_EQ(report.num_failed(), 1);  // the third figure has no target

  const auto json = nlohmann::json::parse(report.Json("a GPU"));
  EXPECT_EQ(json["device"], "a GPU");
  EXPECT_EQ(json["figures"][0]["value"], 285);
  EXPECT_EQ(json["figures"][0]["pass"], true);
  EXPECT_EQ(json["figures"][1]["missing"], "a benchmark: the device has no 7 bytes");
  EXPECT_EQ(json["figures"][1]["least"], 0.95);
  EXPECT_FALSE(json["figures"][1].contains("value"));
  EXPECT_FALSE(json["figures"][1].contains("pass"));
}

}  // namespace
}  // namespace longstream
