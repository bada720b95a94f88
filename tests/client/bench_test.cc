// `longstream bench`: the figures that it reports, after a whole run and after an interrupt.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <set>
#include <string>

#include "tests/client/client_fixture.h"

namespace longstream {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using BenchTest = ClientTest;

TEST_F(BenchTest, MeasuresEveryRequest) {
  const json bench = RunJson({"bench", "-m", "slow", "--streams", "3", "--requests", "7",
                              "--prompt-tokens", "10", "--output-tokens", "10"});
  EXPECT_EQ(bench["requests"], 7);
  EXPECT_EQ(bench["interrupted"], false);
  EXPECT_GT(bench["generated_tokens_per_second"], 0.0);
  for (const char* figure :
       {"time_to_first_token_ms", "inter_token_latency_ms", "finish_latency_ms"}) {
    EXPECT_GT(bench[figure]["p50"], 0.0);
    EXPECT_LE(bench[figure]["p50"], bench[figure]["p90"]);
    EXPECT_LE(bench[figure]["p90"], bench[figure]["p99"]);
    EXPECT_LE(bench[figure]["p99"], bench[figure]["max"]);
  }
  // A step of the model takes 20 ms and gives each stream one token.
  EXPECT_GT(bench["inter_token_latency_ms"]["p50"], 19.0);
}

TEST_F(BenchTest, TimesAreOfEveryToken) {
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const double before = now();
  const json bench = RunJson({"bench", "-m", "slow", "--streams", "2", "--requests", "3",
                              "--output-tokens", "5", "--temperature", "0", "--times"});
  ASSERT_EQ(bench["times"].size(), 3u);
  for (const json& request : bench["times"]) {
    EXPECT_GE(request["start"], before);
    const auto times = request["token_seconds"].get<std::vector<double>>();
    ASSERT_EQ(times.size(), 5u);
    // A step takes 20 ms. Two messages may still arrive together, so only the last time is checked.
    EXPECT_GT(times.back(), 4 * 0.019);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    EXPECT_LE(request["start"].get<double>() + times.back(), now());
  }
  EXPECT_FALSE(RunJson({"bench", "-m", "quick", "--requests", "1"}).contains("times"));
}

TEST_F(BenchTest, TextNamesTheRequests) {
  const ClientRun run = RunOk({"bench", "-m", "quick", "--requests", "5", "--output-tokens", "4"});
  EXPECT_THAT(run.out, HasSubstr("5 requests of 64 + 4 tokens over 4 streams"));
  EXPECT_THAT(run.out, HasSubstr("inter-token latency"));
}

TEST_F(BenchTest, OneTokenHasNoGapToItsNext) {
  const Strings command = {"bench", "-m", "quick", "--requests", "2", "--output-tokens", "1"};
  const ClientRun run = RunOk(command);
  EXPECT_THAT(run.out, testing::Not(HasSubstr("nan")));
  EXPECT_TRUE(RunJson(command)["inter_token_latency_ms"]["p50"].is_null());
}

TEST_F(BenchTest, AnInterruptReportsWhatWasFinishedAndIsNoSuccess) {
  ClientProcess client(Arguments({"--json", "bench", "-m", "slow", "--streams", "2", "--requests",
                                  "500", "--output-tokens", "20"}));
  EXPECT_EQ(OpenSessions(2), 2u);
  // A third session belongs to a stream's second request, so that stream's first request has
  // finished.
  for (std::set<std::string> seen; seen.size() < 3;) {
    for (const v1::Session& session : connection_.Sessions("")) seen.insert(session.session_id());
  }
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), 130);
  const json bench = json::parse(client.out());
  EXPECT_EQ(bench["interrupted"], true);
  EXPECT_GE(bench["requests"], 1);
  EXPECT_LT(bench["requests"], 100);
}

TEST_F(BenchTest, AModelThatIsNotThereIsAnError) {
  ExpectFailure(3, {"bench", "-m", "broken"}, "model broken could not be loaded: ");
  EXPECT_EQ(Run({"bench", "-m", "nobody"}).exit_code, 1);
}

TEST_F(BenchTest, NobodyWaitsForAModelThatHasFailed) {
  const ClientRun run = Run({"--wait", "3600", "bench", "-m", "broken", "--requests", "1"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("UNAVAILABLE: model broken: /nonexistent"));
}

TEST_F(BenchTest, AFailedRequestIsAnError) {
  ExpectFailure(1, {"bench", "-m", "quick", "--prompt-tokens", "70000"}, "INVALID_ARGUMENT");
  EXPECT_EQ(Run({"bench", "--streams", "0"}).exit_code, 2);
}

}  // namespace
}  // namespace longstream
