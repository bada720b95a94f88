// Starts that fail because the machine gives too little, and checks before a start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr char kBinary[] = LONGSTREAM_BINARY_DIR "/bin/longstream-server";
constexpr char kLimitedThreads[] = LONGSTREAM_BINARY_DIR "/test_plugins/limited_threads.so";

class ServerStartTest : public testing::Test {
 protected:
  ServerStartTest() { minimal_.Write("config.json", R"({"model_type": "minimal"})"); }

  std::vector<std::string> Arguments() const {
    return {"--listen",         "127.0.0.1:0",
            "--metrics-listen", "127.0.0.1:0",
            "--model",          "m=" + minimal_.string(),
            "--threads",        "4"};
  }

  // Runs a server that can have at most `most` threads. It is killed by SIGTERM after a while if it
  // starts.
  ServerRun WithThreads(int most) const {
    std::vector<std::string> arguments = {"LD_PRELOAD=" + std::string(kLimitedThreads),
                                          "LONGSTREAM_MAX_THREADS=" + std::to_string(most),
                                          kBinary};
    for (const std::string& argument : Arguments()) arguments.push_back(argument);
    return RunServer("/usr/bin/env", arguments);
  }

  const TemporaryDirectory minimal_;
};

// Whichever thread is the first that the system does not give, the server says so and exits with 1.
// It is never ended by a signal.
TEST_F(ServerStartTest, TooFewThreadsEndTheStartWithASentence) {
  for (int most = 1; most <= 20; ++most) {
    const ServerRun run = WithThreads(most);
    EXPECT_EQ(run.exit_code, 1) << most << " threads: " << run.log;
    EXPECT_THAT(run.log, HasSubstr("\"event\":\"start_failed\",\"error\":\"the system gives no "
                                   "further thread: "))
        << most << " threads";
  }
}

TEST_F(ServerStartTest, TooLittleAddressSpaceEndsTheStartWithASentence) {
  std::vector<std::string> arguments = {"-c", "ulimit -v 204800; exec \"$@\"", "bash", kBinary};
  for (const std::string& argument : Arguments()) arguments.push_back(argument);
  const ServerRun run = RunServer("/bin/bash", arguments);
  EXPECT_EQ(run.exit_code, 1) << run.log;
  EXPECT_THAT(run.log, HasSubstr("\"event\":\"start_failed\",\"error\":\""));
}

}  // namespace
}  // namespace longstream
