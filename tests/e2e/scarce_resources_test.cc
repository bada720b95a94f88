// Servers that get just enough threads or address space to start. They must also serve many calls
// at once, and end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kModels = {"dense", "hwfa2", "hypenet"};

std::vector<std::string> Arguments() {
  std::vector<std::string> arguments = {"--threads", "2"};
  for (const std::string& model : kModels) {
    arguments.insert(arguments.end(), {"--model", model + "=" + LONGSTREAM_SOURCE_DIR +
                                                      "/models/demo/" + model + ",device=cpu"});
  }
  return arguments;
}

// Opens sessions of `model` one after the other, generates in each and forks it.
void Call(const std::string& address, const std::string& model) {
  client::Connection connection(address);
  for (int i = 0; i < 8; ++i) {
    const std::string id = connection.Open(model).session_id();
    v1::GenerateRequest request;
    request.set_session_id(id);
    for (int word = 0; word < 20; ++word) request.mutable_input()->mutable_text()->append("abc ");
    request.set_max_tokens(40);
    request.mutable_stop()->set_ignore_eos(true);
    EXPECT_EQ(connection.Generate(request).tokens(), 40) << model;
    connection.Close(connection.Fork(id).session_id());
    connection.Close(id);
  }
}

// Many clients call all models at once, over connections of their own. Then the server ends.
void ServeAndStop(ServerProcess& server) {
  constexpr int kClientsPerModel = 8;
  for (const std::string& model : kModels) {
    client::Connection(server.address()).WaitUntilServing(model, std::chrono::seconds(30));
  }
  std::vector<std::future<void>> clients;
  for (int i = 0; i < kClientsPerModel; ++i) {
    for (const std::string& model : kModels) {
      clients.push_back(std::async(std::launch::async, Call, server.address(), model));
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  bool hangs = false;
  for (std::future<void>& client : clients) {
    if (!hangs && client.wait_until(deadline) == std::future_status::timeout) {
      hangs = true;
      server.Signal(SIGKILL);  // so that the calls end
    }
    if (hangs) {
      client.wait();
    } else {
      EXPECT_NO_THROW(client.get());
    }
  }
  ASSERT_FALSE(hangs) << server.Log();
  EXPECT_EQ(server.Stop(), 0) << server.Log();
}

int ThreadsOf(const ServerProcess& server) {
  const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(server.pid()) +
                                                  "/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

// If gRPC cannot start a thread while it serves, calls never end, and neither does the server. So a
// server starts only if it can have all threads that it may need later. Besides those of an idle
// server, these are the threads of gRPC's two executors. Each has one thread at first and may have
// two per processor. It depends on chance when an executor starts another one.
TEST(ScarceResources, TheFewestThreadsThatStartAServerAreEnough) {
  const TemporaryDirectory directory;
  for (int most = 12; most <= 1000; ++most) {
    std::vector<std::string> arguments = {"LD_PRELOAD=" + std::string(kLimitedThreads),
                                          "LONGSTREAM_MAX_THREADS=" + std::to_string(most),
                                          kServerBinary};
    for (const std::string& argument : Arguments()) arguments.push_back(argument);
    arguments.insert(arguments.end(), {"--store", directory.string() + "/store"});
    try {
      ServerProcess server("/usr/bin/env", arguments);
      const int processors = static_cast<int>(sysconf(_SC_NPROCESSORS_CONF));
      EXPECT_GE(most, ThreadsOf(server) + 2 * (2 * processors - 1));
      return ServeAndStop(server);
    } catch (const std::runtime_error& error) {
      ASSERT_THAT(error.what(), HasSubstr("the system gives no further thread: ")) << most;
    }
  }
  FAIL() << "1000 threads do not start a server";
}

// Caches reserve address space. The stacks of threads that start later need some of it too.
TEST(ScarceResources, CachesLeaveAddressSpaceForThreads) {
  for (const char* mebibytes : {"1000", "1500", "2400"}) {
    SCOPED_TRACE(mebibytes);
    std::vector<std::string> arguments = {"-c", "ulimit -v $(($1 << 10)); shift; exec \"$@\"",
                                          "bash", mebibytes, kServerBinary};
    for (const std::string& argument : Arguments()) arguments.push_back(argument);
    ServerProcess server("/bin/bash", arguments);
    ServeAndStop(server);
  }
}

}  // namespace
}  // namespace longstream
