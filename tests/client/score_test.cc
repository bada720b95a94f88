// `longstream score`: figures, windows, and texts too short for either.
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
  const ClientRun run = Run({"score", "-m", "quick", Path("one")});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("nothing to score"));
  EXPECT_THAT(run.out, testing::Not(HasSubstr("nan")));
  EXPECT_TRUE(RunJson({"score", "-m", "quick", Path("one")})["perplexity"].is_null());
}

TEST_F(ScoreTest, WrongUsage) {
  EXPECT_EQ(Run({"score", "-m", "quick", Path("")}).exit_code, 2);
  EXPECT_EQ(Run({"score", "-m", "quick", Path("none")}).exit_code, 2);
  EXPECT_EQ(Run({"score", "-m", "quick", "-w", "100", Path("text")}).exit_code, 2);
}

TEST_F(ScoreTest, AnInterruptStopsIt) {
  ClientProcess client(Arguments({"score", "-m", "slow", "-w", "100", Path("long")}));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), 130);
  EXPECT_EQ(client.out(), "");
}

}  // namespace
}  // namespace longstream
