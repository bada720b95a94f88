// `longstream score`: its figures, its windows, and texts that are too short.
#include <cmath>
#include <csignal>

#include "tests/client/client_fixture.h"

namespace longstream {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ScoreTest : public ClientTest {
 protected:
  ScoreTest() {
    directory_.Write("one", "a");
    directory_.Write("text", "import os\nimport sys\n");
    directory_.Write("umlauts", "\xc3\xa4\xc3\xb6\xc3\xbc");
    directory_.Write("binary", std::string(100, '\x80'));
    directory_.Write("long", std::string(60000, 'x'));
  }

  std::string Path(const std::string& name) const { return directory_.string() + "/" + name; }

 private:
  const TemporaryDirectory directory_;
};

TEST_F(ScoreTest, FiguresBelongTogether) {
  const json score = RunJson({"score", "-m", "dense", Path("text")});
  EXPECT_EQ(score["windows"], 1);
  EXPECT_EQ(score["tokens"], 20);
  EXPECT_GT(score["top1_accuracy"], 0.3);
  EXPECT_LE(score["top1_accuracy"], 1.0);
  EXPECT_NEAR(score["perplexity"], std::exp(score["nats_per_token"].get<double>()), 1e-9);
  EXPECT_EQ(RunJson({"score", "-m", "dense", "-w", "10", Path("text")})["windows"], 2);
  EXPECT_EQ(
      RunJson({"score", "-m", "dense", "-w", "5", "--max-windows", "3", Path("text")})["tokens"],
      12);
  const ClientRun run = Run({"score", "-m", "dense", Path("text")});
  EXPECT_THAT(run.out, HasSubstr("1 windows, 20 tokens: next-token accuracy "));
}

TEST_F(ScoreTest, OneTokenHasNothingToScore) {
  const ClientRun run = RunOk({"score", "-m", "quick", Path("one")});
  EXPECT_THAT(run.out, HasSubstr("nothing to score"));
  EXPECT_THAT(run.out, testing::Not(HasSubstr("nan")));
  EXPECT_TRUE(RunJson({"score", "-m", "quick", Path("one")})["perplexity"].is_null());
}

TEST_F(ScoreTest, WrongUsage) {
  EXPECT_EQ(Run({"score", "-m", "quick", Path("")}).exit_code, 2);
  EXPECT_EQ(Run({"score", "-m", "quick", Path("none")}).exit_code, 2);
  EXPECT_EQ(Run({"score", "-m", "quick", "-w", "100", Path("text")}).exit_code, 2);
}

// Each window makes progress, even if it is shorter than the character at its beginning or if the
// bytes are not UTF-8.
TEST_F(ScoreTest, WindowsShorterThanACharacter) {
  EXPECT_EQ(RunJson({"score", "-m", "dense", "-w", "1", Path("umlauts")})["windows"], 3);
  EXPECT_EQ(RunJson({"score", "-m", "dense", "-w", "3", Path("umlauts")})["tokens"], 2);
  EXPECT_EQ(RunJson({"score", "-m", "dense", "-w", "4", Path("binary")})["windows"], 1);
}

TEST_F(ScoreTest, WindowsLongerThanAnyText) {
  ExpectFailure(2, {"score", "-m", "dense", "-w", "18446744073709551615", Path("text")},
                "shorter than one window");
}

TEST_F(ScoreTest, AnInterruptStopsIt) {
  ClientProcess client(Arguments({"score", "-m", "slow", "-w", "100", Path("long")}));
  client.WaitUntilItHandles(SIGINT);
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), 130);
  EXPECT_EQ(client.out(), "");
}

}  // namespace
}  // namespace longstream
