// The JSON and the page of a comparison.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "client/compare/page/chart.h"
#include "client/compare/page/html_text.h"
#include "client/compare/page/report_html.h"
#include "client/compare/report_json.h"
#include "client/compare/report_text.h"
#include "nlohmann/json.hpp"
#include "tests/client/compare/example_comparison.h"

namespace longstream::client {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Page(const Comparison& comparison) {
  return ComparisonPage(comparison, Analyze(comparison));
}

nlohmann::json Json(const Comparison& comparison) {
  return nlohmann::json::parse(ComparisonJson(comparison, Analyze(comparison)));
}

// Fails if an element is not closed by its own end tag, or if quotes of attributes do not match.
void ExpectNested(const std::string& html) {
  const std::vector<std::string> empty = {"meta", "line", "polyline", "polygon", "circle"};
  std::vector<std::string> open;
  size_t at = html.find('>') + 1;  // behind the document type
  while ((at = html.find('<', at)) != std::string::npos) {
    const size_t end = html.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const bool closes = html[at + 1] == '/';
    const size_t name = at + 1 + static_cast<size_t>(closes);
    const std::string tag = html.substr(name, html.find_first_of(" >/\n", name) - name);
    ASSERT_FALSE(tag.empty()) << html.substr(at, 80);
    const std::string whole = html.substr(at, end - at + 1);
    EXPECT_EQ(std::count(whole.begin(), whole.end(), '"') % 2, 0) << whole;
    if (closes) {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), tag) << html.substr(at > 200 ? at - 200 : 0, 300);
      open.pop_back();
    } else if (std::find(empty.begin(), empty.end(), tag) == empty.end()) {
      open.push_back(tag);
    }
    at = end + 1;
  }
  EXPECT_TRUE(open.empty()) << open.back();
}

const std::string kHostile =
    "</script><script>alert(1)</script><img src=x onerror=\"a()\">&amp;'\"--><!--\n\t" +
    std::string("\x00\x1b\x7f", 3) + "\xff\xc3\xe2\x82 \xe2\x80\xae \xc2\x85 \xed\xa0\x80";

// Puts hostile text in every field.
Comparison Hostile() {
  Comparison comparison = ExampleComparison(6);
  comparison.teacher_forced = false;
  for (ComparedArm& arm : comparison.arms) {
    for (std::string* field : {&arm.name, &arm.model, &arm.version, &arm.tokenizer}) {
      *field = kHostile;
    }
  }
  comparison.forced_by = comparison.server = comparison.measured_at = kHostile;
  comparison.latency = kHostile;
  for (PromptRun& prompt : comparison.prompts) {
    prompt.id = kHostile;
    for (ArmRun& run : prompt.arms) {
      run.text = kHostile;
      for (TokenScore& token : run.tokens) token.text = token.top1_text = kHostile;
    }
  }
  comparison.prompts[0].arms[1].error = kHostile;
  return comparison;
}

TEST(EscapedTest, Table) {
  EXPECT_EQ(Escaped("</script>&\"'"), "&lt;/script&gt;&amp;&quot;&#39;");
  EXPECT_EQ(Escaped("a\n\tb"), "a↵⇥b");
  EXPECT_EQ(Escaped(std::string_view("\0\x1b\x7f", 3)), "␀␛␡");
  EXPECT_EQ(Escaped("\xc2\x85"), "\xef\xbf\xbd");  // a control character of C1
  EXPECT_EQ(Escaped("é€😀"), "é€😀");
  EXPECT_EQ(Escaped("\xff!"), "\xef\xbf\xbd!");
  EXPECT_EQ(Escaped("\xc3"), "\xef\xbf\xbd");  // cut
  EXPECT_EQ(Escaped("\xc3!"), "\xef\xbf\xbd!");
  EXPECT_EQ(Escaped("\xc0\xbc"), "\xef\xbf\xbd\xef\xbf\xbd");  // an overlong <
  EXPECT_EQ(Escaped("\xe0\x80\xbc"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(Escaped("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
  EXPECT_EQ(Escaped("\xf4\x90\x80\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(Escaped("\xef\xbf\xbf"), "\xef\xbf\xbd");  // U+FFFF is no character
  EXPECT_EQ(Escaped("a\u202eb\u2066"), "a⟨U+202E⟩b⟨U+2066⟩");
  EXPECT_EQ(Escaped(""), "");
}

TEST(PageTest, IsWellFormedAndNeedsNoNetwork) {
  const std::string page = Page(ExampleComparison(24));
  ExpectNested(page);
  for (const char* forbidden : {"http:", "https:", "//", "url(", "@import", "<script", "<link",
                                "<img", "nan", "inf\"", "inf,"}) {
    EXPECT_THAT(page, Not(HasSubstr(forbidden)));
  }
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("width=device-width"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
}

TEST(PageTest, BeginsWithTheSentences) {
  const Comparison comparison = ExampleComparison(60);
  const std::string page = Page(comparison);
  const size_t sentence = page.find("hypenet is different from dense: it predicts the text worse ");
  ASSERT_NE(sentence, std::string::npos);
  EXPECT_LT(sentence, page.find("<h2>"));
  EXPECT_LT(page.find("hwfa2 equals dense within"), sentence);
}

// hypenet predicts the text worse and is faster; the comparison the other way round says the
// reverse.
TEST(PageTest, ColoursAndWordsSayBetterOrWorse) {
  Comparison comparison = ExampleComparison(60);
  const auto expect = [&](const char* title, const char* of_text, const char* of_latency) {
    const std::string page = Page(comparison);
    const size_t table = page.find(title);
    ASSERT_NE(table, std::string::npos);
    const auto cell = [&](const char* metric) {
      const size_t row = page.find("<th scope=\"row\">" + std::string(metric), table);
      const size_t begin = page.find("<td", row);
      return page.substr(begin, page.find("</td>", begin) - begin);
    };
    const auto different = [](const std::string& outcome) {
      return "<td class=\"verdict " + outcome + "\">different: " + outcome;
    };
    EXPECT_EQ(cell("Log-probability"), different(of_text));
    EXPECT_EQ(cell("Inter-token latency"), different(of_latency));
    EXPECT_EQ(cell("Bytes of a session"), different(of_latency));
    EXPECT_EQ(cell("KL divergence"), "<td class=\"verdict neutral\">over δ");
    EXPECT_THAT(page, HasSubstr("<p class=\"lead " + std::string(of_text) + "\">"));
  };
  comparison.arms.erase(comparison.arms.begin() + 1);
  for (PromptRun& prompt : comparison.prompts) {
    prompt.arms.erase(prompt.arms.begin() + 1);
    prompt.pairs.erase(prompt.pairs.begin());
  }
  expect("hypenet against dense", "worse", "better");
  std::swap(comparison.arms[0], comparison.arms[1]);
  for (PromptRun& prompt : comparison.prompts) std::swap(prompt.arms[0], prompt.arms[1]);
  expect("dense against hypenet", "better", "worse");
}

TEST(PageTest, HasEverySection) {
  const std::string page = Page(ExampleComparison(24));
  for (const char* section : {"Verdicts", "By position", "By length of the prompt", "First flips",
                              "Latency", "Bytes of a session", "How it was measured"}) {
    EXPECT_THAT(page, HasSubstr("<h2>" + std::string(section) + "</h2>"));
  }
  EXPECT_THAT(page, Not(HasSubstr("<h2>Texts</h2>")));
  for (const char* text : {"seed 1", "24 ran, 24 were planned", "longstream-server 0.1.0",
                           "9f2c71aa", "teacher-forced", "KL divergence 0.01 nats"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  Comparison free_running = ExampleComparison(24);
  free_running.teacher_forced = false;
  EXPECT_THAT(Page(free_running), HasSubstr("<h2>Texts</h2>"));
}

TEST(PageTest, HostileTextsStayTexts) {
  const std::string page = Page(Hostile());
  ExpectNested(page);
  for (const char* forbidden : {"<script", "<img", "</script", "<!--", "\x1b", "\x7f", "\u202e"}) {
    EXPECT_THAT(page, Not(HasSubstr(forbidden)));
  }
  EXPECT_EQ(page.find('\0'), std::string::npos);
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;script&gt;alert(1)"));
  // Invalid bytes are gone: what remains is what the escaping of a valid text gives.
  EXPECT_NO_THROW(nlohmann::json(page).dump());
}

TEST(PageTest, ADifferenceWithoutSpreadHasNoEffectSize) {
  Comparison comparison = ExampleComparison(6);
  for (PromptRun& prompt : comparison.prompts) {
    for (ArmRun& run : prompt.arms) run.bytes = {&run == prompt.arms.data() ? 1000u : 500u, 0, 0};
  }
  const std::string page = Page(comparison);
  EXPECT_THAT(page, HasSubstr(">no spread<"));
  EXPECT_THAT(page, Not(HasSubstr("-inf<")));
}

TEST(PageTest, FewPromptsAndLostArmsHaveAPage) {
  ExpectNested(Page(ExampleComparison(0)));
  ExpectNested(Page(ExampleComparison(1)));
  Comparison lost = ExampleComparison(3);
  for (PromptRun& prompt : lost.prompts) {
    prompt.arms[0] = {};
    prompt.arms[0].error = "UNAVAILABLE: gone";
    prompt.pairs = {{}, {}};
  }
  const std::string page = Page(lost);
  ExpectNested(page);
  EXPECT_THAT(page, HasSubstr("Nothing is known about hypenet"));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
}

TEST(JsonReportTest, HasTheValuesOfThePage) {
  const Comparison comparison = ExampleComparison(24);
  const nlohmann::json json = Json(comparison);
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["interim"], false);
  EXPECT_EQ(json["plan"]["prompts"], 24);
  EXPECT_EQ(json["plan"]["minimum_effects"]["kl"], 0.01);
  EXPECT_EQ(json["arms"][2]["name"], "hypenet");
  EXPECT_EQ(json["arms"][2]["ttft_seconds"]["count"], 24);
  const nlohmann::json& pair = json["pairs"][1];
  EXPECT_EQ(pair["baseline"], "dense");
  EXPECT_EQ(pair["other"], "hypenet");
  EXPECT_EQ(pair["verdict"], "different");
  EXPECT_EQ(pair["metrics"][0]["metric"], "kl");
  EXPECT_EQ(pair["metrics"][0]["verdict"], "over");
  EXPECT_TRUE(pair["metrics"][0]["baseline"].is_null());
  EXPECT_LT(pair["metrics"][0]["interval"][0], pair["metrics"][0]["interval"][1]);
  EXPECT_EQ(pair["by_position"][2]["first"], 2);
  ASSERT_EQ(pair["by_length"].size(), 3);
  EXPECT_EQ(pair["by_length"][1]["longest"], 1024);
  EXPECT_NEAR(pair["by_length"][1]["bits_per_byte"], 0.2, 0.1);
  EXPECT_LT(pair["bits_per_byte_interval_95"][0], pair["bits_per_byte_interval_95"][1]);
  EXPECT_FALSE(pair["first_flips"].empty());
  EXPECT_EQ(json["prompts"].size(), 24);
  // The mean of the prompts' values is the pair's value.
  double sum = 0;
  for (const nlohmann::json& prompt : json["prompts"]) {
    sum += prompt["arms"][2]["against_baseline"]["kl"].get<double>();
  }
  EXPECT_NEAR(sum / 24, pair["metrics"][0]["mean"], 1e-12);
}

TEST(JsonReportTest, TakesAnyBytesAndNumbers) {
  const nlohmann::json hostile = Json(Hostile());
  EXPECT_EQ(hostile["prompts"][0]["arms"][1].contains("error"), true);
  const nlohmann::json single = Json(ExampleComparison(1));
  EXPECT_TRUE(single["pairs"][0]["metrics"][0]["standard_deviation"].is_null());
  EXPECT_TRUE(single["pairs"][0]["metrics"][0]["interval"][1].is_null());
  EXPECT_TRUE(Json(ExampleComparison(0))["prompts"].empty());
}

Chart ExampleChart(AxisScale x, AxisScale y, std::vector<ChartPoint> points) {
  const auto text = [](double value) { return std::to_string(value); };
  return {"t", "s", {"x", x, text}, {"y", y, text}, false, {{"a", 0, std::move(points)}}};
}

TEST(ChartTest, ScalesPoints) {
  // The axes go from 1 to 4 and from 0 to 10; the drawing has x from 64 to 408, y from 214 to 12.
  const std::string svg = ChartFigure(ExampleChart(AxisScale::kLog2, AxisScale::kLinear,
                                                   {{1, 10, 10, 10}, {2, 5, 5, 5}, {4, 0, 0, 0}}));
  EXPECT_THAT(svg, HasSubstr("points=\"64.0,12.0 236.0,113.0 408.0,214.0 \""));
  EXPECT_THAT(svg, Not(HasSubstr("polygon")));
}

TEST(ChartTest, BandsEndAtTheEdge) {
  const std::string svg = ChartFigure(
      ExampleChart(AxisScale::kLog2, AxisScale::kLinear, {{1, 1, 0, INFINITY}, {2, 1, 0.5, 1.5}}));
  EXPECT_THAT(svg, HasSubstr("polygon"));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(ChartTest, TakesAnyPoints) {
  for (const AxisScale scale :
       {AxisScale::kLinear, AxisScale::kLog2, AxisScale::kLog10, AxisScale::kPercent}) {
    for (const double value : std::vector<double>{1.0, 0.0, -1.0, 1e-300, 1e300, NAN, INFINITY}) {
      const std::string svg =
          ChartFigure(ExampleChart(scale, scale, {{value, value, value, value}, {1, 1, NAN, 2}}));
      EXPECT_THAT(svg, Not(HasSubstr("\"nan"))) << value;
      EXPECT_THAT(svg, Not(HasSubstr(",nan"))) << value;
      EXPECT_LT(svg.size(), 20000) << value;
    }
  }
  EXPECT_THAT(ChartFigure(ExampleChart(AxisScale::kLog2, AxisScale::kLog2, {{0, 1, 1, 1}})),
              HasSubstr("No values."));
}

TEST(ReportTextTest, HasASentenceAndATableOfVerdictsForEachPair) {
  const Comparison comparison = ExampleComparison(24);
  const Analysis analysis = Analyze(comparison);
  const std::string text = ComparisonText(comparison, analysis);
  EXPECT_EQ(text.find("hwfa2 "), 0u);
  EXPECT_THAT(text, HasSubstr("\nhypenet is different from dense: it predicts the text worse "));
  EXPECT_THAT(text, HasSubstr("\nhypenet against dense  verdict "));
  // Columns stay aligned below texts with characters of several bytes.
  const size_t title = text.find("hypenet against dense");
  const size_t column = text.find("difference", title) - title;
  const size_t row = text.find("KL divergence", title);
  const std::string before = text.substr(row, text.find(" nats", row) - row);
  EXPECT_THAT(before, HasSubstr("over δ"));
  EXPECT_EQ(before.rfind("  ") + 2, column + std::string("δ").size() - 1);
}

}  // namespace
}  // namespace longstream::client
