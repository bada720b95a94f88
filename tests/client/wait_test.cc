// --wait: the server does not listen yet, or the model of a session is still loading.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "tests/processes/client_process.h"
#include "tests/processes/dropping_proxy.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

constexpr char kServer[] = LONGSTREAM_BINARY_DIR "/bin/longstream-server";
constexpr char kSlowOpen[] = LONGSTREAM_BINARY_DIR "/test_plugins/slow_open.so";

// Serves `ready` and `gated`. Once the gate is shut, `gated` loads until it is opened
// (tests/service/serving/models/slow_open.cc).
class GatedServer {
 public:
  GatedServer() {
    std::filesystem::copy_file(kSlowOpen, plugins_.path() / "minimal.cpu.so");
    for (const TemporaryDirectory* model : {&ready_, &gated_}) {
      model->Write("config.json", R"({"model_type": "minimal"})");
    }
    Start();
  }
  ~GatedServer() {
    if (std::filesystem::exists(gate_)) OpenGate();
  }

  void Start() {
    process_.reset();
    process_ = std::make_unique<ServerProcess>(
        kServer, std::vector<std::string>{
                     "--plugins", plugins_.string(), "--store", store_.string() + "/store",
                     "--model", "ready=" + ready_.string() + ",options.utf8=true", "--model",
                     "gated=" + gated_.string() + ",options.utf8=true"});
  }
  void ShutGate() const { mkfifo(gate_.c_str(), 0600); }
  // Waits until the model is being opened.
  void OpenGate() const {
    std::ofstream(gate_).close();
    std::filesystem::remove(gate_);
  }
  std::string address() const { return process_->address(); }
  ServerProcess& process() { return *process_; }

 private:
  const TemporaryDirectory plugins_;
  const TemporaryDirectory ready_;
  const TemporaryDirectory gated_;
  const TemporaryDirectory store_;
  const std::filesystem::path gate_ = gated_.path() / "gate";
  std::unique_ptr<ServerProcess> process_;
};

constexpr std::chrono::seconds kLong{60};

TEST(WaitTest, TheCommandMayStartBeforeTheServer) {
  GatedServer server;
  client::Connection(server.address()).WaitUntilServing("ready", kLong);
  DroppingProxy proxy(std::stoi(server.address().substr(server.address().rfind(':') + 1)));
  proxy.Refuse();
  // A thread of gRPC that looks at all channels every five seconds would hide a client that does
  // not connect by itself.
  constexpr const char* kPoller = "GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS";
  setenv(kPoller, "0", /*overwrite=*/1);
  ClientProcess command({"--server", proxy.address(), "--wait", "60", "models"});
  unsetenv(kPoller);
  command.WaitUntilItHandles(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // it tries, and is refused
  proxy.Listen();
  EXPECT_EQ(command.Wait(), 0) << command.err();
  EXPECT_THAT(command.out(), testing::HasSubstr("ready"));
}

TEST(WaitTest, ATurnWaitsForEveryModelThatItNeeds) {
  GatedServer server;
  std::string session;
  {
    client::Connection connection(server.address());
    connection.WaitUntilServing("gated", kLong);
    session = connection.Open("gated").session_id();
  }
  EXPECT_EQ(server.process().Stop(), 0);
  server.ShutGate();
  server.Start();
  client::Connection(server.address()).WaitUntilServing("ready", kLong);
  const std::vector<std::vector<std::string>> commands = {
      {"generate", "-s", session, "-n", "3", "x"},
      {"generate", "-m", "ready", "--twin", "gated", "-n", "3", "x"},
      {"compare", "--arms", "ready,gated", "-n", "3", "x"}};
  std::vector<std::unique_ptr<ClientProcess>> running;
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> all = {"--server", server.address(), "--wait", "60"};
    all.insert(all.end(), command.begin(), command.end());
    running.push_back(std::make_unique<ClientProcess>(all));
    running.back()->WaitUntilItHandles(SIGINT);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // they ask, and are told to wait
  server.OpenGate();
  for (size_t i = 0; i < commands.size(); ++i) {
    EXPECT_EQ(running[i]->Wait(), 0) << testing::PrintToString(commands[i]) << running[i]->err();
  }
}

TEST(WaitTest, ModelsWaitsUntilNoneIsLoading) {
  GatedServer server;
  EXPECT_EQ(server.process().Stop(), 0);
  server.ShutGate();
  server.Start();
  client::Connection(server.address()).WaitUntilServing("ready", kLong);
  const auto models = [&](const std::string& seconds, const std::string& name = "") {
    std::vector<std::string> all = {"--server", server.address(), "--wait", seconds, "models"};
    if (!name.empty()) all.push_back(name);
    return all;
  };
  EXPECT_EQ(RunClient(models("60", "ready")).exit_code, 0) << "the other one is still loading";
  EXPECT_EQ(RunClient({"--server", server.address(), "models"}).exit_code, 0);
  const ClientRun late = RunClient(models("0.3"));
  EXPECT_EQ(late.exit_code, 3);
  EXPECT_THAT(late.out, testing::HasSubstr("gated        LOADING"));
  EXPECT_EQ(late.err, "longstream: not loaded within the time of --wait: gated\n");
  ClientProcess waiting(models("60"));
  waiting.WaitUntilItHandles(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it asks, and is told to wait
  server.OpenGate();
  EXPECT_EQ(waiting.Wait(), 0) << waiting.err();
  EXPECT_THAT(waiting.out(), testing::HasSubstr("gated        READY"));
}

// No model has to serve: the list is what the command is asked for.
TEST(WaitTest, ModelsListsAServerWithoutAModelThatServes) {
  const TemporaryDirectory plugins, model;
  std::filesystem::copy_file(kSlowOpen, plugins.path() / "minimal.cpu.so");
  model.Write("config.json", R"({"model_type": "minimal"})");
  const std::filesystem::path gate = model.path() / "gate";
  mkfifo(gate.c_str(), 0600);
  const std::vector<std::string> arguments = {"--plugins", plugins.string(), "--model",
                                              "only=" + model.string() + ",options.utf8=true"};
  {
    ServerProcess server(kServer, arguments);
    const ClientRun late = RunClient({"--server", server.address(), "--wait", "0.3", "models"});
    EXPECT_EQ(late.exit_code, 3);
    EXPECT_THAT(late.out, testing::HasSubstr("only         LOADING"));
    EXPECT_EQ(late.err, "longstream: not loaded within the time of --wait: only\n");
    const ClientRun as_json =
        RunClient({"--server", server.address(), "--wait", "0.3", "--json", "models", "only"});
    EXPECT_EQ(as_json.exit_code, 3);
    EXPECT_THAT(as_json.out, testing::HasSubstr("MODEL_STATE_LOADING"));
    std::ofstream(gate).close();
    EXPECT_EQ(RunClient({"--server", server.address(), "--wait", "60", "models"}).exit_code, 0);
  }
  std::filesystem::remove(gate);
  model.Write("config.json", R"({"model_type": "none"})");
  ServerProcess server(kServer, arguments);
  const ClientRun failed = RunClient({"--server", server.address(), "--wait", "60", "models"});
  EXPECT_EQ(failed.exit_code, 0) << failed.err;
  EXPECT_THAT(failed.out, testing::HasSubstr("only         FAILED"));
}

TEST(WaitTest, TheTimeEnds) {
  const ClientRun models = RunClient({"--server", "127.0.0.1:1", "--wait", "0.2", "models"});
  EXPECT_EQ(models.exit_code, 3);
  EXPECT_THAT(models.err, testing::HasSubstr("did not serve within the time of --wait: "));
  const ClientRun turn = RunClient({"--server", "127.0.0.1:1", "--wait", "0.2", "generate", "-s",
                                    "0123456789abcdef0123456789abcdef", "x"});
  EXPECT_EQ(turn.exit_code, 3);
  EXPECT_THAT(turn.err, testing::HasSubstr("did not serve within the time of --wait: "));
}

}  // namespace
}  // namespace longstream
