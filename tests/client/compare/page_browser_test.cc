// Opens the page of a comparison in headless Chromium, as wide as a phone and as a screen, light
// and dark. LONGSTREAM_CHROMIUM names another program than `chromium`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "client/compare/page/report_html.h"
#include "nlohmann/json.hpp"
#include "tests/client/compare/example_comparison.h"
#include "tests/temporary_directory.h"

namespace longstream::client {
namespace {

// Measures a page inside a frame of some width. The page itself may not run scripts, so this one
// does. It writes its findings as JSON between two marks.
constexpr const char* kMeasure = R"html(<!DOCTYPE html><meta charset="utf-8">
<iframe id="frame" style="width: %WIDTH%px; height: 900px; border: 0"></iframe>
<script>
const frame = document.getElementById("frame");
frame.onload = () => {
  const page = frame.contentDocument, root = page.documentElement;
  const boxes = [...page.querySelectorAll("figure > svg")].map(svg => svg.getBoundingClientRect());
  const texts = [...page.querySelectorAll("svg text")].map(text => text.getBoundingClientRect());
  const found = {
    width: root.clientWidth, needed: root.scrollWidth,
    background: frame.contentWindow.getComputedStyle(page.body).backgroundColor,
    first: page.querySelector("main").children[1].textContent,
    headings: page.querySelectorAll("h2").length,
    charts: boxes.length, narrowest_chart: Math.min(...boxes.map(box => box.width)),
    lowest_text: Math.min(...texts.map(box => box.height)),
    named_images: [...page.querySelectorAll("svg[role=img]")].filter(e => e.ariaLabel).length,
    tables: page.querySelectorAll("table").length,
    captions: page.querySelectorAll("table > caption").length,
    scripts_ran: frame.contentWindow.scripts_ran === true,
  };
  document.body.append("MEASURED" + JSON.stringify(found) + "END");
};
frame.srcdoc = document.getElementById("page").value;
</script>)html";

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

class PageBrowserTest : public testing::Test {
 protected:
  // Runs Chromium and returns its standard output. The sandbox is off because it needs rights that
  // containers do not give; the page is ours.
  std::string Chromium(const std::string& arguments) const {
    const char* program = std::getenv("LONGSTREAM_CHROMIUM");
    const std::string command =
        "HOME=" + directory_.string() + " timeout 120 " +
        (program != nullptr ? program : "chromium") +
        " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
        " --disable-background-networking --disable-extensions --hide-scrollbars " +
        arguments + " 2>" + directory_.string() + "/errors";
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error("cannot run: " + command);
    std::string output;
    char buffer[65536];
    size_t length;
    while ((length = fread(buffer, 1, sizeof(buffer), pipe)) > 0) output.append(buffer, length);
    if (pclose(pipe) != 0) {
      std::stringstream errors;
      errors << std::ifstream(directory_.path() / "errors").rdbuf();
      throw std::runtime_error(command + " failed: " + errors.str());
    }
    return output;
  }

  nlohmann::json Measure(const std::string& page, int width, bool dark) const {
    const std::string frame =
        "<textarea id=\"page\" hidden>" + Markup(page) + "</textarea>" + kMeasure;
    const std::string file =
        directory_.Write("measure.html", Replaced(frame, "%WIDTH%", std::to_string(width)));
    const std::string dom =
        Chromium("--blink-settings=preferredColorScheme=" + std::string(dark ? "0" : "1") +
                 " --virtual-time-budget=10000 --dump-dom file://" + file);
    const size_t begin = dom.rfind("MEASURED{") + 8;
    return nlohmann::json::parse(dom.substr(begin, dom.rfind("}END") + 1 - begin));
  }

  static std::string Page(const Comparison& comparison) {
    return ComparisonPage(comparison, Analyze(comparison));
  }

  TemporaryDirectory directory_;

 private:
  // Markup as the text of an element.
  static std::string Markup(const std::string& html) {
    std::string text;
    for (const char c : html) text += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
    return text;
  }
};

TEST_F(PageBrowserTest, FitsAPhoneAndAScreen) {
  const std::string page = Page(ExampleComparison(24));
  std::string backgrounds[2];
  for (const bool dark : {false, true}) {
    for (const int width : {390, 1200}) {
      const nlohmann::json found = Measure(page, width, dark);
      SCOPED_TRACE(found.dump());
      EXPECT_EQ(found["width"], width);
      EXPECT_EQ(found["needed"], width);  // the page does not scroll sideways
      EXPECT_THAT(found["first"].get<std::string>(), testing::StartsWith("hwfa2 equals dense"));
      EXPECT_EQ(found["headings"], 7);
      EXPECT_EQ(found["charts"], 5);
      EXPECT_EQ(found["named_images"], 5);
      EXPECT_EQ(found["captions"], found["tables"]);
      EXPECT_GE(found["narrowest_chart"], 340);
      EXPECT_GE(found["lowest_text"], 10);
      backgrounds[dark ? 1 : 0] = found["background"];
    }
  }
  EXPECT_EQ(backgrounds[0], "rgb(255, 255, 255)");
  EXPECT_EQ(backgrounds[1], "rgb(13, 17, 23)");
}

TEST_F(PageBrowserTest, TextsOfModelsRunNothing) {
  const std::string hostile =
      "</textarea></style></title><script>window.scripts_ran = true</script>"
      "<img src=x onerror=\"window.scripts_ran = true\">";
  Comparison comparison = ExampleComparison(24);
  for (ComparedArm& arm : comparison.arms) arm.name += hostile;
  for (PromptRun& prompt : comparison.prompts) {
    prompt.id += hostile;
    for (ArmRun& run : prompt.arms) {
      for (TokenScore& token : run.tokens) token.text = token.top1_text = hostile;
    }
  }
  std::string page = Page(comparison);
  EXPECT_EQ(Measure(page, 390, false)["scripts_ran"], false);
  // The policy stops scripts even in a page that failed to escape a text.
  page = Replaced(page, "<main>", "<main>" + hostile);
  EXPECT_EQ(Measure(page, 390, false)["scripts_ran"], false);
  // The measurement would see a script: without the policy it runs.
  page = Replaced(page, "default-src 'none'", "default-src 'unsafe-inline'");
  EXPECT_EQ(Measure(page, 390, false)["scripts_ran"], true);
}

// Leaves pictures for people to look at: <build>/compare_page/{light,dark}-{390,1200}.png.
TEST_F(PageBrowserTest, TakesPictures) {
  const std::filesystem::path pictures = LONGSTREAM_BINARY_DIR "/compare_page";
  std::filesystem::remove_all(pictures);
  std::filesystem::create_directories(pictures);
  const std::string file = directory_.Write("page.html", Page(ExampleComparison(60)));
  for (const bool dark : {false, true}) {
    for (const int width : {390, 1200}) {
      const std::filesystem::path picture =
          pictures / ((dark ? "dark-" : "light-") + std::to_string(width) + ".png");
      Chromium("--blink-settings=preferredColorScheme=" + std::string(dark ? "0" : "1") +
               " --window-size=" + std::to_string(width) +
               ",4800 --screenshot=" + picture.string() + " file://" + file);
      // A white page of this size has 10 KB.
      EXPECT_GT(std::filesystem::file_size(picture), 50000);
    }
  }
}

}  // namespace
}  // namespace longstream::client
