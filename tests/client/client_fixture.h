// One server for all tests of a program, and functions that run the client against it.
#ifndef LONGSTREAM_TESTS_CLIENT_CLIENT_FIXTURE_H_
#define LONGSTREAM_TESTS_CLIENT_CLIENT_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "nlohmann/json.hpp"
#include "tests/processes/client_process.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {

// Serves four models and fails to load a fifth. `quick`, `slow` and `talk` use the minimal backend;
// a step of `slow` takes 20 ms, and `talk` has a chat template. `dense` is the demo model. `broken`
// cannot be loaded.
class TestServer {
 public:
  TestServer() : process_(LONGSTREAM_BINARY_DIR "/bin/longstream-server", Arguments()) {
    client::Connection connection(address());
    for (const char* model : {"quick", "slow", "talk", "dense"}) {
      connection.WaitUntilServing(model, std::chrono::seconds(60));
    }
  }

  std::string address() const { return process_.address(); }

 private:
  std::vector<std::string> Arguments() const {
    directory_.Write("config.json", R"({"model_type": "minimal", "context_limit": 65536})");
    const std::string minimal = directory_.string();
    talking_.Write("config.json", R"({"model_type": "minimal", "context_limit": 65536})");
    talking_.Write("chat_template.jinja",
                   "{{ tools|length if tools }}{{ mood }}{% for m in messages %}[{{ m.role }}]"
                   "{{ m.content }}.{% endfor %}{{ '[assistant]' if add_generation_prompt }}");
    return {"--plugins", LONGSTREAM_BINARY_DIR "/plugins",
            "--model",   "quick=" + minimal + ",options.utf8=true",
            "--model",   "slow=" + minimal + ",options.utf8=true,options.step_delay_us=20000",
            "--model",   "talk=" + talking_.string() + ",options.utf8=true",
            "--model",   "broken=/nonexistent",
            "--model",   "dense=" LONGSTREAM_SOURCE_DIR "/models/demo/dense"};
  }

  const TemporaryDirectory directory_;
  const TemporaryDirectory talking_;
  ServerProcess process_;
};

class ClientTest : public testing::Test {
 protected:
  using Strings = std::vector<std::string>;

  static TestServer& Server() {
    static TestServer server;
    return server;
  }

  ClientTest() : connection_(Server().address()) {}

  // A command must leave no session open. A test must close the sessions that it opens itself.
  ~ClientTest() override { EXPECT_EQ(OpenSessions(0), 0u) << "sessions were left open"; }

  // A whole command line, except for the program's name.
  static Strings Arguments(const Strings& command) {
    Strings arguments = {"--server", Server().address()};
    arguments.insert(arguments.end(), command.begin(), command.end());
    return arguments;
  }

  static ClientRun Run(const Strings& command, const std::string& input = "") {
    return RunClient(Arguments(command), input);
  }

  // Runs a command that must succeed.
  static ClientRun RunOk(const Strings& command, const std::string& input = "") {
    ClientRun run = Run(command, input);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run;
  }

  // Runs a command that must end with this exit code and write `sentence` to its standard error.
  static void ExpectFailure(int exit_code, const Strings& command, const std::string& sentence,
                            const std::string& input = "") {
    const ClientRun run = Run(command, input);
    EXPECT_EQ(run.exit_code, exit_code) << testing::PrintToString(command) << run.err;
    EXPECT_THAT(run.err, testing::HasSubstr(sentence));
  }

  // Runs a command that must succeed. Returns its standard output, parsed as JSON.
  static nlohmann::json RunJson(const Strings& command, const std::string& input = "") {
    Strings arguments = {"--json"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    return nlohmann::json::parse(RunOk(arguments, input).out);
  }

  // Waits up to a minute until `expected` sessions are open. Returns how many are open then.
  size_t OpenSessions(size_t expected) {
    size_t open = connection_.Sessions("").size();
    for (int i = 0; i < 1200 && open != expected; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      open = connection_.Sessions("").size();
    }
    return open;
  }

  client::Connection connection_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_CLIENT_CLIENT_FIXTURE_H_
