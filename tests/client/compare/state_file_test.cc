// The file of an unfinished comparison: what is written comes back, and only where it belongs.
#include "client/compare/state_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "client/compare/report_json.h"
#include "tests/client/compare/example_comparison.h"
#include "tests/temporary_directory.h"

namespace longstream::client {
namespace {

using testing::HasSubstr;

const Conditions kConditions = {{"arms", "dense, hwfa2, hypenet"}, {"sampling", "seed: 1\xff"}};

class StateFileTest : public testing::Test {
 protected:
  std::string Path() const { return (directory_.path() / "report.json.partial").string(); }

  std::string Content() const {
    std::ifstream file(Path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Returns what the constructor throws.
  std::string ErrorOf(const Conditions& conditions) const {
    try {
      const StateFile file(Path(), conditions);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "none";
  }

  const TemporaryDirectory directory_;
  const Comparison example_ = ExampleComparison(4);
};

// All values of the report. Tokens are checked by themselves.
std::string Report(Comparison comparison, const std::vector<FinishedPrompt>& finished) {
  comparison.prompts.clear();
  for (const FinishedPrompt& prompt : finished) comparison.prompts.push_back(prompt.run);
  return ComparisonJson(comparison, Analyze(comparison));
}

TEST_F(StateFileTest, PromptsComeBackWithAllBits) {
  {
    StateFile file(Path(), kConditions);
    EXPECT_TRUE(file.finished().empty());
    for (const PromptRun& run : example_.prompts) file.Append({run, {"t", "t", "u"}});
    EXPECT_EQ(file.finished().size(), 4u);
  }
  const StateFile file(Path(), kConditions);
  EXPECT_EQ(Report(example_, file.finished()), ComparisonJson(example_, Analyze(example_)));
  EXPECT_THAT(file.finished()[3].tokenizers, testing::ElementsAre("t", "t", "u"));
}

// It has prompts.
TEST_F(StateFileTest, OnlyItsUserReadsIt) {
  const StateFile file(Path(), kConditions);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(Path()).permissions(), perms::owner_read | perms::owner_write);
}

TEST_F(StateFileTest, AnyBytesAndNumbersComeBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  const double infinity = std::numeric_limits<double>::infinity();
  PromptRun run;
  run.id = bytes;
  run.tokens = std::numeric_limits<uint64_t>::max();
  run.arms.resize(2);
  run.arms[0].tokens = {{-infinity, 3, true, bytes, "\xc3"}, {-1.0 / 3, 0, false, "", bytes}};
  run.arms[0].itl_seconds = {1e-300, 0.1};
  run.arms[0].text = bytes + bytes;
  run.arms[0].bytes = {1, 2, 3};
  run.arms[0].reused_tokens = 4;
  run.arms[0].recomputed_tokens = 5;
  run.arms[0].bits_per_byte = 0.1 + 0.2;
  run.arms[1].error = "INTERNAL: \xff";
  run.pairs = {{{infinity, false, -1e-17}, {0, true, 0.25}}};
  StateFile(Path(), {}).Append({run, {"a", "b"}});

  const StateFile file(Path(), {});
  const PromptRun& read = file.finished().at(0).run;
  EXPECT_EQ(read.id, bytes);
  EXPECT_EQ(read.tokens, run.tokens);
  const ArmRun& arm = read.arms.at(0);
  ASSERT_EQ(arm.tokens.size(), 2u);
  EXPECT_EQ(arm.tokens[0].log_prob, -infinity);
  EXPECT_EQ(arm.tokens[0].rank, 3u);
  EXPECT_TRUE(arm.tokens[0].top1);
  EXPECT_EQ(arm.tokens[0].text, bytes);
  EXPECT_EQ(arm.tokens[0].top1_text, "\xc3");
  EXPECT_EQ(arm.tokens[1].log_prob, -1.0 / 3);
  EXPECT_TRUE(std::isnan(arm.ttft_seconds));
  EXPECT_EQ(arm.itl_seconds, run.arms[0].itl_seconds);
  EXPECT_EQ(arm.bytes.total(), 6u);
  EXPECT_EQ(arm.reused_tokens, 4u);
  EXPECT_EQ(arm.recomputed_tokens, 5u);
  EXPECT_EQ(arm.text, bytes + bytes);
  EXPECT_EQ(arm.bits_per_byte, 0.1 + 0.2);
  EXPECT_EQ(read.arms.at(1).error, "INTERNAL: \xff");
  ASSERT_EQ(read.pairs.at(0).size(), 2u);
  EXPECT_EQ(read.pairs[0][0].kl, infinity);
  EXPECT_FALSE(read.pairs[0][0].agrees);
  EXPECT_EQ(read.pairs[0][0].delta_p, -1e-17);
}

TEST_F(StateFileTest, ALineThatWasNotWrittenToItsEndIsDropped) {
  {
    StateFile file(Path(), kConditions);
    file.Append({example_.prompts[0], {"t", "t", "t"}});
  }
  const std::string whole = Content();
  const size_t header = whole.find('\n') + 1;
  for (const size_t cut : {size_t{0}, header - 1, header, header + 10, whole.size() - 1}) {
    directory_.Write("report.json.partial", whole.substr(0, cut));
    {
      StateFile file(Path(), kConditions);
      EXPECT_TRUE(file.finished().empty()) << cut;
      file.Append({example_.prompts[0], {"t", "t", "t"}});
    }
    EXPECT_EQ(Content(), whole) << cut;
  }
}

TEST_F(StateFileTest, OtherConditionsAreRefusedByName) {
  { const StateFile file(Path(), kConditions); }
  EXPECT_EQ(ErrorOf(kConditions), "none");
  Conditions others = kConditions;
  others[1].second = "seed: 2";
  const std::string error = ErrorOf(others);
  EXPECT_THAT(error, HasSubstr(Path() + " is an unfinished comparison with other sampling: there"));
  EXPECT_THAT(error, HasSubstr("here \"seed: 2\". Repeat the command that made it, or remove"));
  others = kConditions;
  others.emplace_back("latency", "not measured");
  EXPECT_THAT(ErrorOf(others), HasSubstr("other latency: there \"\", here \"not measured\""));
}

TEST_F(StateFileTest, OtherFilesAreRefused) {
  directory_.Write("report.json.partial", "{\"format\": 1}\n");
  EXPECT_THAT(ErrorOf(kConditions), HasSubstr("is not an unfinished comparison of this version"));
  directory_.Write("report.json.partial", "[]\n");
  EXPECT_THAT(ErrorOf(kConditions), HasSubstr("is not an unfinished comparison of this version"));
  directory_.Write("report.json.partial", "some text\n");
  EXPECT_THAT(ErrorOf(kConditions), HasSubstr("is damaged in line 1"));
  std::filesystem::remove(Path());
  { const StateFile file(Path(), kConditions); }
  const std::string header = Content();
  for (const char* line : {"{}\n", "[1]\n", "{\"id\": 1}\n", "\n", "x\n"}) {
    directory_.Write("report.json.partial", header + line);
    EXPECT_THAT(ErrorOf(kConditions), HasSubstr("is damaged in line 2; remove the file")) << line;
  }
}

TEST_F(StateFileTest, OnlyOneComparisonHasItOpen) {
  const StateFile file(Path(), kConditions);
  EXPECT_THROW(StateFile(Path(), kConditions), FileError);
}

TEST_F(StateFileTest, TheFileIsRemovedAtTheEnd) {
  StateFile file(Path(), kConditions);
  EXPECT_TRUE(std::filesystem::exists(Path()));
  file.Remove();
  EXPECT_FALSE(std::filesystem::exists(Path()));
}

TEST_F(StateFileTest, AFolderThatDoesNotExistIsAnError) {
  EXPECT_THROW(StateFile("/nonexistent/report.json.partial", {}), FileError);
  EXPECT_THROW(ReplaceFile("/nonexistent/report.json", "x"), FileError);
}

TEST(DigestTest, AgreesWithThePublishedValues) {
  EXPECT_EQ(Digest(""), "cbf29ce484222325");
  EXPECT_EQ(Digest("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(Digest("foobar"), "85944171f73967e8");
}

}  // namespace
}  // namespace longstream::client
