// `longstream eval` as a user runs it.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "client/eval/tasks.h"
#include "tests/client/client_fixture.h"

namespace longstream {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class EvalTest : public ClientTest {
 protected:
  EvalTest() {
    std::ifstream file(LONGSTREAM_SOURCE_DIR "/models/demo/heldout.txt", std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(file), {});
    text.resize(3000);
    directory_.Write("text", text);
    directory_.Write("empty", "");
  }

  std::string Path(const std::string& name) const { return directory_.string() + "/" + name; }

 private:
  const TemporaryDirectory directory_;
};

// The demo model has one token per byte, so a window of `eval` (bytes) equals one of `score`
// (tokens), and both report the same figures.
TEST_F(EvalTest, TextAgreesWithScore) {
  const json eval = RunJson({"eval", "text", "-m", "dense", "-m", "quick", "--lengths", "200,700",
                             "--positions", "50,300", Path("text")});
  EXPECT_EQ(eval["models"], (json{"dense", "quick"}));
  EXPECT_EQ(eval["bytes"], 3000);
  for (size_t i = 0; i < 2; ++i) {
    const std::string length = i == 0 ? "200" : "700";
    const json score = RunJson({"score", "-m", "dense", "-w", length, Path("text")});
    const json& row = eval["by_length"][i];
    EXPECT_EQ(row["length"], length);
    const json& figures = row["models"]["dense"];
    EXPECT_EQ(figures["count"], score["tokens"]);
    EXPECT_DOUBLE_EQ(figures["accuracy"], score["top1_accuracy"]);
    EXPECT_NEAR(figures["perplexity"], score["perplexity"].get<double>(), 1e-5);
  }
  // The text has four windows of 700 bytes. The first token of each window has no probability.
  const json& rows = eval["by_position"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["position"], "0-49");
  EXPECT_EQ(rows[0]["models"]["dense"]["count"], 4 * 49);
  EXPECT_EQ(rows[1]["position"], "50-299");
  EXPECT_EQ(rows[1]["models"]["dense"]["count"], 4 * 250);
  EXPECT_EQ(rows[2]["position"], "300-699");
  EXPECT_EQ(rows[2]["models"]["dense"]["count"], 4 * 400);
  uint64_t correct = 0;
  for (const json& row : rows) correct += row["models"]["dense"]["correct"].get<uint64_t>();
  EXPECT_EQ(eval["by_length"][1]["models"]["dense"]["correct"], correct);
}

TEST_F(EvalTest, TextAsTableAndPlot) {
  const std::string svg = Path("plot.svg");
  const ClientRun run = RunOk({"eval", "text", "-m", "dense", "--lengths", "256", "--max-bytes",
                               "1000", "--svg", svg, Path("text")});
  EXPECT_THAT(run.out, HasSubstr("Next token by position: accuracy, %"));
  EXPECT_THAT(run.out, HasSubstr("\n128-255 "));
  // The text has three windows of 1000 bytes.
  EXPECT_THAT(run.out, testing::ContainsRegex("\n256 .* 765\n"));
  std::ifstream file(svg);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(file), {}), HasSubstr("</svg>"));
}

// The demo model answers at its training length but not at four times that length.
TEST_F(EvalTest, PasskeysAreCountedWhereTheyAreRight) {
  const Strings command = {"eval",     "passkey",   "-m", "dense",  "--lengths",
                           "300,2048", "--samples", "10", "--seed", "5"};
  const json eval = RunJson(command);
  ASSERT_EQ(eval["questions"].size(), 20u);
  uint64_t correct = 0;
  for (const json& question : eval["questions"]) {
    const std::string text = question["text"];
    EXPECT_EQ(question["correct"], client::IsAnswer(text, question["answer"])) << text;
    correct += question["correct"].get<bool>() ? 1 : 0;
    EXPECT_NEAR(question["tokens"], question["length"].get<double>(), 100);
  }
  EXPECT_GT(correct, 0u);
  EXPECT_LT(correct, 20u);
  uint64_t counted = 0;
  for (const json& row : eval["by_length"]) {
    EXPECT_EQ(row["models"]["dense"]["count"], 10);
    counted += row["models"]["dense"]["correct"].get<uint64_t>();
  }
  EXPECT_EQ(counted, correct);
  // Depths are spread evenly: each fifth of the depth has four questions.
  ASSERT_EQ(eval["by_depth"].size(), 5u);
  for (const json& row : eval["by_depth"]) EXPECT_EQ(row["models"]["dense"]["count"], 4);
  // A second run with the same seed has the same questions and answers.
  EXPECT_EQ(RunJson(command), eval);
}

TEST_F(EvalTest, RecallForksOneContext) {
  const json eval = RunJson(
      {"eval", "recall", "-m", "dense", "--lengths", "185", "--samples", "3", "--questions", "2"});
  ASSERT_EQ(eval["questions"].size(), 6u);
  for (const json& question : eval["questions"]) {
    // The prompt has 20 lines of 9 bytes and "abc =".
    EXPECT_EQ(question["tokens"], 185);
    EXPECT_LE(question["text"].get<std::string>().size(), 4u);
  }
  EXPECT_NE(eval["questions"][0]["answer"], eval["questions"][2]["answer"]);
}

TEST_F(EvalTest, ListOpsOfEveryLength) {
  const json eval = RunJson({"eval", "listops", "-m", "dense", "--lengths", "300,600", "--samples",
                             "3", "--streams", "2"});
  EXPECT_EQ(eval["by_length"].size(), 2u);
  EXPECT_EQ(eval["questions"].size(), 6u);
  EXPECT_FALSE(eval.contains("by_depth"));
  for (const json& question : eval["questions"]) {
    EXPECT_THAT(question["question"].get<std::string>(), testing::EndsWith("] ="));
    EXPECT_LE(question["tokens"], question["length"].get<int>());
  }
}

// With a tokenizer of bytes, neither the caller's texts nor the model's answers need to be UTF-8.
TEST_F(EvalTest, BytesThatAreNoText) {
  const json eval = RunJson({"eval", "passkey", "-m", "dense", "--lengths", "256", "--samples", "2",
                             "--question", "\xff {}"});
  EXPECT_EQ(eval["questions"][0]["question"], "\xef\xbf\xbd");
}

TEST_F(EvalTest, WrongUsage) {
  ExpectFailure(2, {"eval"}, "subcommand");
  ExpectFailure(2, {"eval", "text", "-m", "dense", "-m", "dense", Path("text")},
                "dense is named twice");
  ExpectFailure(2, {"eval", "text", "-m", "dense", Path("none")}, "cannot be read");
  ExpectFailure(2, {"eval", "text", "-m", "dense", Path("empty")}, "is empty");
  ExpectFailure(2, {"eval", "text", "-m", "dense", Path("text")},
                "4096 tokens of dense are about 4096 bytes, and the text has 3000");
  ExpectFailure(2, {"eval", "text", "-m", "dense", "--lengths", "1", Path("text")},
                "expected a whole number from 2 to 16777216, found '1'");
  ExpectFailure(2, {"eval", "passkey", "-m", "dense", "--needle", "none"},
                "expected {}, which stands for the number");
  ExpectFailure(2, {"eval", "passkey", "-m", "dense", "--filler", Path("empty")}, "is empty");
  ExpectFailure(2, {"eval", "passkey", "-m", "dense", "--lengths", "50"},
                "50 tokens of dense are about 50 bytes, and a question needs 9");
  ExpectFailure(2,
                {"eval", "listops", "-m", "dense", "--lengths", "128", "--samples", "1", "--svg",
                 Path("no/plot.svg")},
                "cannot be written");
}

TEST_F(EvalTest, WhatTheServerRefuses) {
  EXPECT_EQ(Run({"eval", "recall", "-m", "none"}).exit_code, 1);
  ExpectFailure(1, {"eval", "recall", "-m", "dense", "--lengths", "40000", "--samples", "1"},
                "32768");
}

TEST_F(EvalTest, AnInterruptLeavesNoSession) {
  ClientProcess client(Arguments({"eval", "recall", "-m", "slow", "--lengths", "2000"}));
  EXPECT_GT(OpenSessions(4), 0u);
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), 130);
  EXPECT_EQ(client.out(), "");
}

}  // namespace
}  // namespace longstream
