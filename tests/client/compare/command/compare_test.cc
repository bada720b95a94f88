// `longstream compare`: its figures, its output for people, and wrong usage.
#include <cmath>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/client/client_fixture.h"

namespace longstream {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class CompareCommandTest : public ClientTest {};

TEST_F(CompareCommandTest, TwoRunsOfOneModelAreEqual) {
  const json result =
      RunJson({"compare", "--arms", "dense,dense", "-n", "20", "--seed", "7", "import os\n"});
  ASSERT_EQ(result["arms"].size(), 2u);
  EXPECT_EQ(result["arms"][0]["text"], result["arms"][1]["text"]);
  EXPECT_EQ(result["arms"][0]["code"], 0);
  EXPECT_EQ(result["rows"].size(), 20u);
  ASSERT_EQ(result["pairs"].size(), 1u);
  EXPECT_EQ(result["pairs"][0]["sum_kl"], 0.0);
  EXPECT_EQ(result["pairs"][0]["same_best"], 20);
  EXPECT_FALSE(result["pairs"][0].contains("first_difference"));
  const json generated =
      RunJson({"generate", "-m", "dense", "-n", "20", "--seed", "7", "import os\n"});
  EXPECT_EQ(result["arms"][0]["text"], generated["text"]);
  EXPECT_GT(result["arms"][1]["usage"]["bytes"]["kv"], 0);
  EXPECT_GT(result["arms"][1]["inter_token_milliseconds"]["p50"], 0.0);
}

TEST_F(CompareCommandTest, ThePromptIsScored) {
  const json result =
      RunJson({"compare", "-a", "dense,quick", "--prompt-from", "0", "import os\nimport sys\n"});
  const json& arm = result["arms"][0];
  EXPECT_EQ(arm["tokens"], 20);
  EXPECT_NEAR(arm["bits_per_byte"], -arm["sum_log_prob"].get<double>() / std::log(2.0) / 20, 1e-12);
  EXPECT_GT(result["pairs"][0]["sum_kl"], 0.0);
  EXPECT_EQ(result["pairs"][0]["rows"], 20);
}

// `eval` scores the text in the same way, so the mean log-probabilities are the same.
TEST_F(CompareCommandTest, AgreesWithEval) {
  std::ifstream file(LONGSTREAM_SOURCE_DIR "/models/demo/heldout.txt", std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  text.resize(700);
  const TemporaryDirectory directory;
  const std::string path = directory.Write("text", text);
  const json compared = RunJson({"compare", "-a", "dense,quick", "--prompt-from", "0", "-f", path});
  const json eval =
      RunJson({"eval", "text", "-m", "dense", "-m", "quick", "--lengths", "700", path});
  for (size_t arm = 0; arm < 2; ++arm) {
    const json& said = compared["arms"][arm];
    const json& figures = eval["by_length"][0]["models"][said["model"].get<std::string>()];
    EXPECT_EQ(said["tokens"], 699);
    EXPECT_EQ(figures["count"], said["tokens"]);
    EXPECT_EQ(figures["correct"], said["best_tokens"]);
    EXPECT_NEAR(said["sum_log_prob"].get<double>() / 699,
                -std::log(figures["perplexity"].get<double>()), 1e-9);
  }
}

TEST_F(CompareCommandTest, PeopleSeeTextsAndTables) {
  const ClientRun run =
      RunOk({"compare", "-a", "dense,quick,dense", "-n", "12", "--seed", "1", "import os\n"});
  EXPECT_THAT(run.out, HasSubstr("== 0: dense (baseline)\n"));
  EXPECT_THAT(run.out, HasSubstr("== 1: quick\n"));
  EXPECT_THAT(run.out, HasSubstr("[[differs from here]]"));
  EXPECT_THAT(run.out, HasSubstr("TTFT ms"));
  EXPECT_THAT(run.out, HasSubstr("mean KL"));
  EXPECT_THAT(run.out, HasSubstr("100.0 %  none\n"));
}

TEST_F(CompareCommandTest, WrongUsage) {
  ExpectFailure(2, {"compare", "x"}, "--arms");
  ExpectFailure(2, {"compare", "-a", "dense", "x"}, "expected 2 to 8 models, found 1");
  EXPECT_EQ(
      Run({"compare", "-a", "dense,quick", "--force-text", "a", "--answer-of", "0", "x"}).exit_code,
      2);
  ExpectFailure(1, {"compare", "-a", "dense,unknown", "x"},
                "NOT_FOUND: arms[1].model: no model 'unknown'; ");
  ExpectFailure(2, {"compare", "-a", "dense,quick"}, "prompt: give a prompt, --file or --prompts");
  ExpectFailure(1, {"compare", "-a", "dense,quick", "--force-text", "a"},
                "input: a comparison needs");
  const std::string none = "forced.text: expected 1 byte or more, found none";
  ExpectFailure(1, {"compare", "-a", "dense,quick", "--force-text", "", "x"}, none);
  ExpectFailure(1, {"compare", "-a", "dense,quick", "--force-file", "-", "x"}, none);
  ExpectFailure(2, {"compare", "-a", "dense,quick", "-f", "-", "--force-file", "-"},
                "--force-file: --file reads standard input already", "x");
}

TEST_F(CompareCommandTest, AnInterruptStopsIt) {
  ClientProcess client(Arguments({"compare", "-a", "slow,slow", "-n", "50000", "x"}));
  client.WaitUntilItHandles(SIGINT);
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), 130);
}

}  // namespace
}  // namespace longstream
