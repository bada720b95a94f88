// Starts that fail because the machine gives too little, and checks before a start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

class ServerStartTest : public testing::Test {
 protected:
  std::vector<std::string> Arguments() const {
    return {"--listen", "127.0.0.1:0",   "--metrics-listen", "127.0.0.1:0",
            "--model",  minimal_.Flag(), "--threads",        "4"};
  }

  // Runs a server that can have at most `most` threads. It is killed by SIGTERM after a while if it
  // starts.
  ServerRun WithThreads(int most) const {
    std::vector<std::string> arguments = {"LD_PRELOAD=" + std::string(kLimitedThreads),
                                          "LONGSTREAM_MAX_THREADS=" + std::to_string(most),
                                          kServerBinary};
    for (const std::string& argument : Arguments()) arguments.push_back(argument);
    return RunServer("/usr/bin/env", arguments);
  }

  const MinimalModelDirectory minimal_;
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

// The output of `--check-config` with these arguments, and its exit code.
ServerRun CheckConfig(const std::vector<std::string>& arguments,
                      const std::string& listen = "127.0.0.1:0",
                      const std::string& metrics_listen = "127.0.0.1:0") {
  std::vector<std::string> all = {"-c",          "exec \"$@\" >&2",  "bash",
                                  kServerBinary, "--check-config",   "--listen",
                                  listen,        "--metrics-listen", metrics_listen};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunServer("/bin/bash", all);
}

TEST_F(ServerStartTest, CheckConfigPrintsWhatItFound) {
  const std::string dense = std::string(LONGSTREAM_SOURCE_DIR) + "/models/demo/dense";
  const ServerRun run =
      CheckConfig({"--model", minimal_.Flag(), "--model", "d=" + dense + ",device=cpu"});
  EXPECT_EQ(run.exit_code, 0) << run.log;
  EXPECT_THAT(run.log, HasSubstr("  dense.cpu, version "));
  EXPECT_THAT(run.log, HasSubstr("model m: " + minimal_.string() +
                                 "\n  plugin: minimal.cpu\n"
                                 "  weights: 0 safetensors files, 0 bytes\n  tokenizer: byte\n"));
  EXPECT_THAT(run.log, HasSubstr("model d: " + dense + "\n  plugin: dense.cpu\n  weights: 1 "));
  EXPECT_THAT(run.log, HasSubstr("the configuration is usable"));
}

TEST_F(ServerStartTest, CheckConfigChecksTheInstructionSet) {
  setenv("LONGSTREAM_ISA", "nonsense", /*overwrite=*/1);
  const ServerRun wrong = CheckConfig({"--model", minimal_.Flag()});
  setenv("LONGSTREAM_ISA", "baseline", /*overwrite=*/1);
  const ServerRun right = CheckConfig({"--model", minimal_.Flag()});
  unsetenv("LONGSTREAM_ISA");
  EXPECT_EQ(wrong.exit_code, 1) << wrong.log;
  EXPECT_THAT(wrong.log, HasSubstr("LONGSTREAM_ISA: nonsense\n  error: no model would be loaded on "
                                   "the CPU: LONGSTREAM_ISA: expected one of baseline, avx2, "));
  EXPECT_EQ(right.exit_code, 0) << right.log;
  EXPECT_THAT(right.log, HasSubstr("LONGSTREAM_ISA: baseline\n"));
}

TEST_F(ServerStartTest, CheckConfigNamesEveryFault) {
  const TemporaryDirectory shards;
  shards.Write("config.json", R"({"model_type": "minimal"})");
  shards.Write("model.safetensors.index.json", R"({"weight_map": {"a": "x.safetensors"}})");
  const TemporaryDirectory tokenizer;
  tokenizer.Write("config.json", R"({"model_type": "minimal"})");
  tokenizer.Write("tokenizer.json", "{");
  const ServerRun run =
      CheckConfig({"--model", "a=/nowhere", "--model", "b=" + shards.string(), "--model",
                   "c=" + tokenizer.string(), "--model", minimal_.Flag()});
  EXPECT_EQ(run.exit_code, 1) << run.log;
  EXPECT_THAT(run.log, HasSubstr("model a: /nowhere\n  error: "));
  EXPECT_THAT(run.log, HasSubstr("  error: " + shards.string() +
                                 "/x.safetensors: No such file or directory\n"));
  EXPECT_THAT(run.log, HasSubstr("model c: " + tokenizer.string() + "\n  error: "));
  EXPECT_THAT(run.log, HasSubstr("\nerrors: 3\n"));
}

TEST_F(ServerStartTest, CheckConfigTriesTheAddresses) {
  const std::vector<std::string> model = {"--model", minimal_.Flag()};
  ServerProcess server(kServerBinary, {"--model", minimal_.Flag()});
  const std::string taken = server.address();
  EXPECT_THAT(CheckConfig(model, taken).log,
              HasSubstr("listen: " + taken + "\n  error: cannot bind " + taken +
                        ": Address already in use\nmetrics_listen: 127.0.0.1:0\n"));
  EXPECT_THAT(CheckConfig(model, "127.0.0.1:0", taken).log,
              HasSubstr("metrics_listen: " + taken + "\n  error: cannot bind " + taken));
  EXPECT_EQ(server.Stop(), 0);
  EXPECT_EQ(CheckConfig(model, taken, "").exit_code, 0) << "nobody listens there now";
  const ServerRun same = CheckConfig(model, taken, taken);
  EXPECT_EQ(same.exit_code, 1);
  EXPECT_THAT(same.log, HasSubstr("\nmetrics_listen: " + taken + "\n  error: cannot bind "));
  EXPECT_THAT(same.log, HasSubstr("\nerrors: 1\n"));
}

TEST_F(ServerStartTest, CheckConfigCountsTheMemoryOfAllModels) {
  const std::string half = minimal_.string() + ",device=cpu,cache_bytes=100000GiB";
  const ServerRun run = CheckConfig({"--model", "a=" + half, "--model", "b=" + half});
  EXPECT_EQ(run.exit_code, 1) << run.log;
  EXPECT_THAT(run.log, HasSubstr("\nmemory: "));
  EXPECT_THAT(run.log, HasSubstr("\n  error: cache_bytes"));
  EXPECT_THAT(run.log, HasSubstr("\nerrors: 1\n"));
}

// A file of a checkpoint may be nested so deeply that a copy of it would overflow the stack.
TEST_F(ServerStartTest, CheckConfigOfADeepIndexExitsWith1) {
  constexpr int kDepth = 1'000'000;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  const TemporaryDirectory directory;
  directory.Write("config.json", R"({"model_type": "minimal"})");
  const struct {
    std::string index;
    std::string error;
  } cases[] = {{"{\"weight_map\":" + deep + "}", "expected an object with the object weight_map"},
               {"{\"weight_map\":{\"a\":\"none\",\"b\":" + deep + "}}", "/none: No such file"}};
  for (const auto& [index, error] : cases) {
    directory.Write("model.safetensors.index.json", index);
    const ServerRun run = CheckConfig({"--model", "m=" + directory.string()});
    EXPECT_EQ(run.exit_code, 1) << run.log;
    EXPECT_THAT(run.log, HasSubstr(error));
  }
}

TEST_F(ServerStartTest, CheckConfigOfAWrongFileExitsWith1) {
  const TemporaryDirectory directory;
  directory.Write("server.yaml", "threads: many\n");
  const ServerRun run = CheckConfig({"--config", directory.string() + "/server.yaml"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.log, HasSubstr("server.yaml:1: threads: expected a whole number"));
  EXPECT_EQ(CheckConfig({"--plugins", "/nowhere", "--model", minimal_.Flag()}).log,
            "listen: 127.0.0.1:0\nmetrics_listen: 127.0.0.1:0\n"
            "error: plugin directory /nowhere: No such file or directory\nerrors: 1\n");
}

// A limit on the address space below the machine's memory lowers the budget of the caches. It does
// not keep a model from loading.
TEST_F(ServerStartTest, ALimitOnAddressSpaceLowersTheBudget) {
  const std::string demo = std::string(LONGSTREAM_SOURCE_DIR) + "/models/demo/";
  for (const char* gigabytes : {"3", "6"}) {
    for (const char* name : {"dense", "hwfa2", "hypenet"}) {
      ServerProcess server("/bin/bash", {"-c", "ulimit -v $(($1 << 20)); shift; exec \"$@\"",
                                         "bash", gigabytes, kServerBinary, "--threads", "2",
                                         "--model", "m=" + demo + name + ",device=cpu"});
      client::Connection connection(server.address());
      connection.WaitUntilServing("m", std::chrono::seconds(30));
      v1::GenerateRequest request;
      request.set_session_id(connection.Open("m").session_id());
      request.mutable_input()->set_text("def main():");
      request.set_max_tokens(5);
      EXPECT_EQ(connection.Generate(request).tokens(), 5) << name << " " << gigabytes;
      EXPECT_EQ(server.Stop(), 0);
    }
  }
}

// Whatever the limit leaves for threads, caches and the allocator, the server says why it does not
// start and exits with 1, or serves and stops when it is told to.
TEST_F(ServerStartTest, EveryLimitOnAddressSpaceIsServedOrRefused) {
  int served = 0;
  for (int kilobytes = 200'000; kilobytes < 2'000'000; kilobytes += kilobytes / 10) {
    // `timeout` sends SIGTERM after a second, and SIGKILL if the server does not end then.
    std::vector<std::string> arguments = {
        "-c", "ulimit -v $1; shift; exec timeout --preserve-status -k 20 1 \"$@\"", "bash",
        std::to_string(kilobytes), kServerBinary};
    for (const std::string& argument : Arguments()) arguments.push_back(argument);
    const ServerRun run = RunServer("/bin/bash", arguments);
    if (run.log.find("\"event\":\"listening\"") == std::string::npos) {
      EXPECT_EQ(run.exit_code, 1) << kilobytes << ": " << run.log;
      EXPECT_THAT(run.log, HasSubstr("\"event\":\"start_failed\",\"error\":\"")) << kilobytes;
    } else {
      EXPECT_EQ(run.exit_code, 0) << kilobytes << ": " << run.log;
      EXPECT_THAT(run.log, HasSubstr("\"event\":\"stopped\"")) << kilobytes;
      ++served;
    }
  }
  EXPECT_GE(served, 5);
}

TEST_F(ServerStartTest, TooLittleAddressSpaceEndsTheStartWithASentence) {
  std::vector<std::string> arguments = {"-c", "ulimit -v 204800; exec \"$@\"", "bash",
                                        kServerBinary};
  for (const std::string& argument : Arguments()) arguments.push_back(argument);
  const ServerRun run = RunServer("/bin/bash", arguments);
  EXPECT_EQ(run.exit_code, 1) << run.log;
  EXPECT_THAT(run.log, HasSubstr("\"event\":\"start_failed\",\"error\":\""));
}

// The output of --check-config with these arguments behind those of the class.
std::string Checked(std::vector<std::string> all, const std::vector<std::string>& more) {
  all.insert(all.begin(), {"-c", "exec \"$@\" >&2", "bash", kServerBinary, "--check-config"});
  all.insert(all.end(), more.begin(), more.end());
  return RunServer("/bin/bash", all).log;
}

TEST_F(ServerStartTest, AServerThatIsOpenToTheNetworkSaysSo) {
  const std::string warning = "may use the models and read all sessions";
  const std::vector<std::string> model = {"--model", minimal_.Flag(), "--metrics-listen", ""};
  EXPECT_THAT(Checked(model, {"--listen", "0.0.0.0:0"}), HasSubstr(warning));
  EXPECT_THAT(Checked(model, {"--listen", "127.0.0.1:0"}), testing::Not(HasSubstr(warning)));
  // ServerProcess adds loopback addresses.
  ServerProcess server("/bin/bash", {"-c", R"(exec "$0" "${@/127.0.0.1/0.0.0.0}")", kServerBinary,
                                     "--model", minimal_.Flag()});
  EXPECT_EQ(server.Stop(), 0);
  EXPECT_THAT(server.Log(), HasSubstr("\"event\":\"open_to_network\",\"listen\":\"0.0.0.0:0\""));
  EXPECT_THAT(server.Log(), HasSubstr(warning));
}

TEST_F(ServerStartTest, TheFolderOfTheOperatorsSocketIsChecked) {
  const TemporaryDirectory folder;
  EXPECT_THAT(Checked(Arguments(), {"--admin-listen", "unix:" + folder.string() + "/admin.sock"}),
              testing::Not(HasSubstr("error")));
  EXPECT_THAT(
      Checked(Arguments(), {"--admin-listen", "unix:" + folder.string() + "/none/admin.sock"}),
      HasSubstr("error: cannot make a file in " + folder.string() +
                "/none: No such file or directory"));
}

TEST_F(ServerStartTest, AReplicaIsShown) {
  const std::string shown =
      Checked(Arguments(), {"--peer-listen", "127.0.0.1:0", "--replica-id", "one", "--store",
                            "postgresql://nobody@127.0.0.1:1/none"});
  EXPECT_THAT(shown, HasSubstr("fleet.peer_listen: 127.0.0.1:0\n"));
  EXPECT_THAT(shown,
              HasSubstr("fleet: replica one\n  replicas reach it at 127.0.0.1:0, clients at "));
  EXPECT_THAT(
      Checked(Arguments(), {"--peer-listen", "127.0.0.1:0", "--client-address", "10.1.2.3:50051",
                            "--store", "postgresql://nobody@127.0.0.1:1/none"}),
      HasSubstr("clients at 10.1.2.3:50051\n"));
  EXPECT_THAT(shown, HasSubstr("lease_ttl 10s, min_residency 5s, foreign fetch"));
  EXPECT_THAT(Checked(Arguments(), {"--peer-listen", "127.0.0.1:0"}),
              HasSubstr("fleet.peer_listen: a fleet needs store.url = postgresql://"));
}

TEST_F(ServerStartTest, Version) {
  const ServerRun run = RunServer("/bin/bash", {"-c", "exec \"$0\" --version >&2", kServerBinary});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.log, "longstream-server " LONGSTREAM_VERSION "\n");
}

}  // namespace
}  // namespace longstream
