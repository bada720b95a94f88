// The server as a process: failures at start, models that fail to load, the server's reports, and
// how it stops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/e2e/scrape.h"
#include "tests/processes/server_process.h"
#include "tests/service/server/transport/raw_call.h"
#include "tests/tcp_client.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kPatience{30000};
constexpr char kPlugins[] = LONGSTREAM_BINARY_DIR "/plugins";

v1::GenerateRequest Request(const std::string& session, const std::string& text, uint32_t tokens) {
  v1::GenerateRequest request;
  request.set_session_id(session);
  request.mutable_input()->set_text(text);
  request.set_max_tokens(tokens);
  request.mutable_stop()->set_ignore_eos(true);
  return request;
}

class ServerE2eTest : public testing::Test {
 protected:
  // Runs a server that must fail to start. Adds free ports for listeners that `arguments` does not
  // set.
  static ServerRun FailToStart(std::vector<std::string> arguments) {
    for (const std::string flag : {"--listen", "--metrics-listen"}) {
      if (std::find(arguments.begin(), arguments.end(), flag) != arguments.end()) continue;
      arguments.insert(arguments.end(), {flag, "127.0.0.1:0"});
    }
    return RunServer(kServerBinary, arguments);
  }

  const MinimalModelDirectory minimal_;
};

TEST_F(ServerE2eTest, AModelThatFailsIsListedWithItsReasonAndTheOthersServe) {
  const TemporaryDirectory broken;
  broken.Write("config.json", R"({"model_type": "bert"})");
  ServerProcess server(kServerBinary,
                       {"--model", "broken=" + broken.string(), "--model", minimal_.Flag()});
  client::Connection connection(server.address());
  connection.WaitUntilServing("m", kPatience);

  const v1::Model failed = connection.Model("broken");
  EXPECT_EQ(failed.state(), v1::MODEL_STATE_FAILED);
  EXPECT_THAT(failed.error(), HasSubstr("model broken: no plugin for device 'auto' serves"));
  EXPECT_THAT(failed.error(), HasSubstr("minimal: model_type: bert, not minimal"));
  EXPECT_EQ(connection.Models().size(), 2u);
  EXPECT_EQ(connection.Model("m").state(), v1::MODEL_STATE_READY);
  EXPECT_THROW(connection.WaitUntilServing("broken", milliseconds(100)), client::CallError);

  try {
    connection.Open("broken");
    ADD_FAILURE() << "a session was opened on a model that failed to load";
  } catch (const client::CallError& error) {
    EXPECT_EQ(error.status().error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(error.what(), HasSubstr("model broken could not be loaded: no plugin for device"));
  }
  EXPECT_EQ(connection.Generate(Request(connection.Open("m").session_id(), "abc", 5)).tokens(), 5);
  EXPECT_THAT(server.Log(), HasSubstr("\"event\":\"model_failed\",\"model\":\"broken\""));
  EXPECT_EQ(server.Stop(), 0);
}

TEST_F(ServerE2eTest, PrometheusReportsTheBytesOfTheOnlySession) {
  ServerProcess server(kServerBinary, {"--model", minimal_.Flag()});
  client::Connection connection(server.address());
  connection.WaitUntilServing("m", kPatience);
  const std::string id = connection.Open("m").session_id();
  connection.Generate(Request(id, "some text", 20));
  const v1::SessionBytes bytes = connection.Get(id).bytes();
  const double held = static_cast<double>(bytes.kv() + bytes.window() + bytes.state());
  ASSERT_GT(held, 0);

  // The server returns a turn's reservation and sets the gauges just after the turn's last message.
  const auto until = Clock::now() + seconds(10);
  std::string text = Scrape(server.metrics_port());
  while (SampleValue(text, "longstream_sessions", {{"state", "idle"}}) != 1 &&
         Clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(20));
    text = Scrape(server.metrics_port());
  }
  const auto memory = [&](const std::string& kind) {
    return SampleValue(text, "longstream_memory_bytes",
                       {{"kind", kind},
                        {"model", "m"},
                        {"version", "1"},
                        {"backend", "minimal"},
                        {"device", "cpu"}});
  };
  EXPECT_EQ(memory("kv"), bytes.kv());
  EXPECT_EQ(memory("window"), bytes.window());
  EXPECT_EQ(memory("state"), bytes.state());
  EXPECT_EQ(memory("checkpoint"), 0);
  EXPECT_EQ(SampleValue(text, "longstream_session_bytes_sum", {{"model", "m"}}), held);
  EXPECT_EQ(SampleValue(text, "longstream_session_bytes_count", {{"model", "m"}}), 1);
  EXPECT_EQ(SampleValue(text, "longstream_prompt_tokens_total", {{"model", "m"}}), 9);
  EXPECT_EQ(SampleValue(text, "longstream_generated_tokens_total", {{"model", "m"}}), 20);
  EXPECT_EQ(SampleValue(text, "longstream_requests_total",
                        {{"code", "OK"}, {"finish_reason", "max_tokens"}}),
            1);
  EXPECT_EQ(text.find(id), std::string::npos) << "a session's id is in the metrics";
}

TEST_F(ServerE2eTest, PrometheusCountsTheCallsByMethodAndCode) {
  ServerProcess server(kServerBinary, {"--model", minimal_.Flag()});
  client::Connection connection(server.address());
  connection.WaitUntilServing("m", kPatience);
  const std::string id = connection.Open("m").session_id();
  for (int turn = 0; turn < 2; ++turn) connection.Generate(Request(id, "abc", 2));
  EXPECT_THROW(connection.Get(std::string(32, 'f')), client::CallError);
  const auto channel = grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials());
  // A client makes no metrics.
  for (const char* const method : {"/longstream.v1.Longstream/Unknown", "/a.Service/Of", "/", ""}) {
    EXPECT_FALSE(CallRaw(channel, method, {""}).status.ok());
  }
  const std::string text = Scrape(server.metrics_port());
  const auto calls = [&](const std::string& method, const std::string& code,
                         const std::string& service = "longstream.v1.Longstream") {
    return SampleValue(text, "longstream_calls_total",
                       {{"service", service}, {"method", method}, {"code", code}});
  };
  EXPECT_EQ(calls("Generate", "OK"), 2);
  EXPECT_EQ(calls("OpenSession", "OK"), 1);
  EXPECT_EQ(calls("GetSession", "NOT_FOUND"), 1);
  EXPECT_EQ(calls("GetSession", "OK"), std::nullopt);
  EXPECT_EQ(calls("Generate", "UNAVAILABLE"), 0) << "a rate would not see the first one";
  EXPECT_GT(calls("Check", "OK", "grpc.health.v1.Health"), 0);
  EXPECT_EQ(calls("", "UNIMPLEMENTED", ""), 4);
  for (const char* const name : {"Unknown", "a.Service"}) {
    EXPECT_EQ(text.find(name), std::string::npos) << name;
  }
}

TEST_F(ServerE2eTest, SigtermLetsARunningTurnFinish) {
  constexpr uint32_t kTokens = 100;
  ServerProcess server(kServerBinary, {"--model", minimal_.Flag(",options.step_delay_us=20000")});
  client::Connection connection(server.address());
  connection.WaitUntilServing("m", kPatience);
  const std::string id = connection.Open("m").session_id();

  int exit_code = -1;
  bool refused = false;
  std::thread stopper;
  const client::Generation generation =
      connection.Generate(Request(id, "abc", kTokens), [&](const v1::GenerateResponse& response) {
        if (!response.has_delta() || stopper.joinable()) return true;
        stopper = std::thread([&] { exit_code = server.Stop(); });
        // The server refuses new work as soon as it has the signal. The turn's 100 steps take at
        // least 2 s.
        const auto until = Clock::now() + seconds(1);
        while (!refused && Clock::now() < until) {
          try {
            connection.Open("m");
          } catch (const client::CallError& error) {
            refused = error.status().error_code() == grpc::StatusCode::UNAVAILABLE;
          }
        }
        EXPECT_THROW(TcpClient{server.port()}, std::runtime_error) << "the port is still open";
        return true;
      });
  stopper.join();
  EXPECT_TRUE(refused);
  EXPECT_EQ(generation.tokens(), static_cast<int>(kTokens));
  EXPECT_EQ(generation.finish.reason(), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(exit_code, 0);
  EXPECT_THAT(server.Log(), HasSubstr("\"event\":\"draining\",\"signal\":\"15\""));
  EXPECT_THAT(server.Log(), HasSubstr("\"event\":\"stopped\""));
}

// A client's error and the server's log name the same call.
TEST_F(ServerE2eTest, AFailureHasItsRequestIdInTheLog) {
  ServerProcess server(kServerBinary, {"--model", minimal_.Flag(",options.fail_at_position=20")});
  client::Connection connection(server.address());
  connection.WaitUntilServing("m", kPatience);
  std::string message;
  try {
    connection.Generate(Request(connection.Open("m").session_id(), "abc", 50));
  } catch (const client::CallError& error) {
    message = error.what();
  }
  const std::string before = " (request id ";
  const size_t found = message.find(before);
  ASSERT_NE(found, std::string::npos) << message;
  const std::string id = message.substr(found + before.size(), 32);
  EXPECT_THAT(message, testing::StartsWith("INTERNAL: "));
  EXPECT_EQ(server.Stop(), 0);
  EXPECT_THAT(server.Log(), HasSubstr("\"event\":\"call_failed\",\"request_id\":\"" + id +
                                      "\",\"method\":\"/longstream.v1.Longstream/Generate\","
                                      "\"code\":\"INTERNAL\",\"error\":\""));
  EXPECT_THAT(server.Log(),
              HasSubstr("\"event\":\"turn_failed\",\"model\":\"m\",\"request_id\":\"" + id +
                        "\",\"error\":\""));
}

// gRPC's channelz answers a malformed request with INTERNAL. A client could fill the log with such
// requests.
TEST_F(ServerE2eTest, AMalformedRequestToChannelzIsNotLogged) {
  minimal_.Write("server.yaml", "connections: {channelz: true}\nmodels:\n- {name: m, directory: " +
                                    minimal_.string() + "}\n");
  ServerProcess server(kServerBinary, {"--config", (minimal_.path() / "server.yaml").string()});
  const auto channel = grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials());
  const RawAnswer answer = CallRaw(channel, "/grpc.channelz.v1.Channelz/GetServer", {"\xff"});
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(server.Stop(), 0);
  EXPECT_THAT(server.Log(), Not(HasSubstr("call_failed")));
}

// If packed weights exceed the file size limit, the server does not write them and serves all the
// same.
TEST_F(ServerE2eTest, AFileSizeLimitEndsNoServer) {
  constexpr uint64_t kMaxFileBytes = 64 << 10;
  const TemporaryDirectory packed;
  ServerProcess server(
      kServerBinary,
      {"--model", "m=" + std::string(LONGSTREAM_SOURCE_DIR) +
                      "/models/demo/dense,device=cpu,options.packed_cache=" + packed.string()},
      {.max_file_bytes = kMaxFileBytes});
  client::Connection connection(server.address());
  connection.WaitUntilServing("m", kPatience);
  EXPECT_EQ(connection.Generate(Request(connection.Open("m").session_id(), "abc", 5)).tokens(), 5);
  EXPECT_THAT(server.Log(), HasSubstr("File too large")) << "no packed weights were written";
  EXPECT_EQ(server.Stop(), 0);
}

TEST_F(ServerE2eTest, APortInUseEndsTheStart) {
  ServerProcess server(kServerBinary, {"--model", minimal_.Flag()});
  ServerRun second = FailToStart({"--model", minimal_.Flag(), "--listen", server.address()});
  EXPECT_EQ(second.exit_code, 1) << second.log;
  EXPECT_THAT(second.log, HasSubstr("\"level\":\"error\",\"event\":\"start_failed\","
                                    "\"error\":\"listen: cannot bind " +
                                    server.address() + ": Address already in use\"}\n"));
  const std::string metrics = "127.0.0.1:" + std::to_string(server.metrics_port());
  second = FailToStart({"--model", minimal_.Flag(), "--metrics-listen", metrics});
  EXPECT_EQ(second.exit_code, 1) << second.log;
  EXPECT_THAT(second.log, HasSubstr("\"event\":\"start_failed\",\"error\":\"metrics_listen: "
                                    "cannot bind " +
                                    metrics + ": Address already in use\"}\n"));
  EXPECT_TRUE(server.running());
}

// gRPC logs how it starts if it is asked to. Its lines have the format of the server's log.
TEST_F(ServerE2eTest, LinesOfLibrariesAreInTheLog) {
  setenv("GRPC_VERBOSITY", "DEBUG", 1);
  const ServerProcess server(kServerBinary, {"--model", minimal_.Flag()});
  unsetenv("GRPC_VERBOSITY");
  EXPECT_THAT(server.Log(), HasSubstr("\"event\":\"library\",\"library\":\"grpc\""));
  std::istringstream lines(server.Log());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.starts_with("{\"time\":") && line.ends_with("}")) << line;
  }
}

TEST_F(ServerE2eTest, APluginDirectoryThatIsNotThereEndsTheStart) {
  const ServerRun run = FailToStart({"--model", minimal_.Flag(), "--plugins", "/nowhere/plugins"});
  EXPECT_EQ(run.exit_code, 1) << run.log;
  EXPECT_THAT(run.log, HasSubstr("\"event\":\"start_failed\",\"error\":\"plugin directory "
                                 "/nowhere/plugins: No such file or directory\""));
  const TemporaryDirectory empty;
  const ServerRun none = FailToStart({"--model", minimal_.Flag(), "--plugins", empty.string()});
  EXPECT_EQ(none.exit_code, 1) << none.log;
  EXPECT_THAT(none.log, HasSubstr("\"error\":\"plugin directory " + empty.string() +
                                  ": found no plugin that can be used\""));
}

TEST_F(ServerE2eTest, AWrongConfigurationEndsTheStartWithOneLine) {
  const TemporaryDirectory directory;
  directory.Write("server.yaml", "threads: 1\ncolour: red\n");
  const std::string file = (directory.path() / "server.yaml").string();
  ServerRun run = FailToStart({"--config", file});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(
      run.log,
      "longstream-server: " + file +
          ":2: unknown key 'colour'; expected one of: listen, metrics_listen, "
          "max_message_bytes, max_transit_bytes, plugin_directory, threads, memory_bytes, grace, "
          "drain_timeout, log_level, scheduler, connections, sessions, store, tls, metrics_tls, "
          "security, admin, fleet, cluster, http, tenants, models, aliases\n");

  run = FailToStart({"--config", directory.string()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.log, "longstream-server: " + directory.string() + ": cannot be read\n");

  run = FailToStart({});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.log,
            "longstream-server: models: no model is configured; name one in the file or with "
            "--model NAME=DIR\n");

  run = FailToStart({"--model", minimal_.Flag(",colour=red")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.log, HasSubstr("unknown key 'colour'"));

  run = FailToStart({"--colour"});
  EXPECT_EQ(run.exit_code, 2);
}

// A value in the file means the same as the value of the flag with that name.
TEST_F(ServerE2eTest, FlagsOverrideTheFile) {
  const TemporaryDirectory directory;
  directory.Write("server.yaml",
                  "plugin_directory: /nowhere/plugins\nmodels:\n- name: m\n  "
                  "directory: /nowhere/model\n");
  const std::string file = (directory.path() / "server.yaml").string();
  ServerProcess server(kServerBinary,
                       {"--config", file, "--model", minimal_.Flag(), "--plugins", kPlugins});
  client::Connection connection(server.address());
  connection.WaitUntilServing("m", kPatience);
  EXPECT_EQ(connection.Models().size(), 1u);
}

}  // namespace
}  // namespace longstream
