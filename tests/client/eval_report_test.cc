// The table, the JSON and the plot of an evaluation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/eval/report.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

using testing::HasSubstr;
using testing::Not;

Report Example() {
  Report report{"text", "Next token", {"a", "b<&\">"}, true, {}, 128};
  report.grids.push_back(
      {"position", {{"0-63", 32, {{4, 1, -4}, {}}}, {"64-255", 160, {{4, 3, -1}, {100, 50, 0}}}}});
  report.grids.push_back({"length", {{"256", 256, {{8, 4, -5}, {100, 50, 0}}}}});
  return report;
}

TEST(FiguresTest, WorkedOutByHand) {
  Figures figures{4, 1, -2};
  figures.Add({4, 3, -6});
  EXPECT_DOUBLE_EQ(figures.accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(figures.standard_error(), std::sqrt(0.25 / 8));
  EXPECT_DOUBLE_EQ(figures.perplexity(), std::exp(1.0));
  EXPECT_TRUE(std::isnan(Figures().accuracy()));
  EXPECT_TRUE(std::isnan(Figures().standard_error()));
  EXPECT_TRUE(std::isnan(Figures().perplexity()));
}

TEST(TableTest, HasAColumnAModel) {
  EXPECT_EQ(Table(Example()),
            "Next token by position: accuracy, %\n"
            "\n"
            "position      a  b<&\">    n\n"
            "0-63      25.00      -    4\n"
            "64-255    75.00  50.00  100\n"
            "\n"
            "perplexity by position\n"
            "\n"
            "position      a  b<&\">    n\n"
            "0-63      2.718      -    4\n"
            "64-255    1.284  1.000  100\n"
            "\n"
            "Next token by length: accuracy, %\n"
            "\n"
            "length      a  b<&\">    n\n"
            "256     50.00  50.00  100\n"
            "\n"
            "perplexity by length\n"
            "\n"
            "length      a  b<&\">    n\n"
            "256     1.868  1.000  100\n");
  Report report = Example();
  report.likelihood = false;
  EXPECT_THAT(Table(report), Not(HasSubstr("perplexity")));
}

TEST(JsonTest, NamesRowsAndModels) {
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(JsonOf(Example()).dump());
  EXPECT_EQ(json["task"], "text");
  EXPECT_EQ(json["by_position"][1]["position"], "64-255");
  const nlohmann::ordered_json& row = json["by_position"][1]["models"];
  EXPECT_EQ(row["a"]["count"], 4);
  EXPECT_EQ(row["a"]["correct"], 3);
  EXPECT_EQ(row["a"]["accuracy"], 0.75);
  EXPECT_DOUBLE_EQ(row["a"]["perplexity"], std::exp(0.25));
  EXPECT_EQ(row["b<&\">"]["accuracy"], 0.5);
  EXPECT_TRUE(json["by_position"][0]["models"]["b<&\">"]["accuracy"].is_null());
  EXPECT_EQ(json["by_length"][0]["length"], "256");
}

TEST(PlotTest, DrawsWhatWasCounted) {
  const std::string svg = Plot(Example());
  EXPECT_THAT(svg, HasSubstr("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, HasSubstr("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr(">b&lt;&amp;&quot;><"));
  EXPECT_THAT(svg, HasSubstr(">position, tokens<"));
  // The x axis has log2(256/32) = 3 steps from position 32 to 256. These are 500 pixels that begin
  // at x = 60. Position 160 lies at log2(160/32) = 2.32 steps. On the y axis, 0 % is at y = 345 and
  // 100 % at y = 40. The first row of the second model is empty.
  EXPECT_THAT(svg, HasSubstr("points=\"60.0,268.8 447.0,116.2 \""));
  EXPECT_THAT(svg, HasSubstr("points=\"447.0,192.5 \""));
  // The mark is at 128, which is two of the three steps.
  EXPECT_THAT(svg, HasSubstr("x1=\"393.3\" y1=\"40.0\" x2=\"393.3\" y2=\"345.0\" stroke=\"#555\""));
}

TEST(PlotTest, OfNothing) {
  Report report = Example();
  for (Row& row : report.grids[0].rows) row.models = {{}, {}};
  EXPECT_THAT(Plot(report), HasSubstr("points=\"\""));
  EXPECT_THAT(Plot(report), Not(HasSubstr("nan")));
  EXPECT_THAT(Plot(report), Not(HasSubstr("inf")));
}

TEST(PlotTest, ManyModelsHaveRoom) {
  Report report = Example();
  for (int i = 0; i < 30; ++i) {
    report.models.push_back("model " + std::to_string(i));
    for (Row& row : report.grids[0].rows) row.models.push_back({1, 1, 0});
  }
  const std::string svg = Plot(report);
  EXPECT_THAT(svg, HasSubstr("height=\"700.0\""));
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray=\"6 3\""));
}

}  // namespace
}  // namespace longstream::client
