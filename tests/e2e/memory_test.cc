// The memory of a server process: one budget for all models, and memory that closed sessions give
// back.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string Model(const std::string& name) {
  return name + "=" LONGSTREAM_SOURCE_DIR "/models/demo/" + name + ",device=cpu";
}

class MemoryTest : public testing::Test {
 protected:
  void Start(const std::string& config) {
    server_ = std::make_unique<ServerProcess>(
        kServerBinary,
        std::vector<std::string>{"--config", files_.Write("server.yaml", config), "--model",
                                 Model("dense"), "--model", Model("hypenet")});
    for (const char* model : {"dense", "hypenet"}) {
      client::Connection(server_->address()).WaitUntilServing(model, seconds(60));
    }
    stub_ = v1::Longstream::NewStub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  }

  // Opens a session with a turn that reads `text`. The id is put into *session as soon as the
  // session is open.
  grpc::Status Turn(const std::string& model, const std::string& text, std::string* session) {
    v1::OpenSessionRequest open;
    open.set_model(model);
    v1::Session opened;
    grpc::ClientContext open_context;
    if (grpc::Status status = stub_->OpenSession(&open_context, open, &opened); !status.ok()) {
      return status;
    }
    *session = opened.session_id();
    v1::GenerateRequest request;
    request.set_session_id(*session);
    request.mutable_input()->set_text(text);
    request.set_max_tokens(2);
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, request);
    for (v1::GenerateResponse response; reader->Read(&response);) {
    }
    return reader->Finish();
  }

  grpc::Status Close(const std::string& session) {
    v1::CloseSessionRequest request;
    request.set_session_id(session);
    v1::CloseSessionResponse response;
    grpc::ClientContext context;
    return stub_->CloseSession(&context, request, &response);
  }

  // Runs task(i) for each i below `count`, on several threads.
  template <typename Task>
  static void InParallel(size_t count, const Task& task) {
    constexpr size_t kThreads = 16;
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (size_t taken = next++; taken < count; taken = next++) task(taken);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Opens `count` sessions on each model, and closes all of them. Returns the most memory that the
  // server had.
  uint64_t OpenAndClose(size_t count, const std::string& text) {
    uint64_t most = 0;
    for (const char* model : {"dense", "hypenet"}) {
      std::vector<std::string> ids(count);
      InParallel(count, [&](size_t i) {
        const grpc::Status status = Turn(model, text, &ids[i]);
        EXPECT_TRUE(status.ok()) << status.error_message();
      });
      most = std::max(most, server_->resident_bytes());
      InParallel(count, [&](size_t i) { EXPECT_TRUE(Close(ids[i]).ok()); });
    }
    return most;
  }

  const TemporaryDirectory files_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
};

TEST_F(MemoryTest, AllModelsTogetherStayWithinTheLimit) {
  constexpr uint64_t kLimit = 300 * kMiB;
  Start("memory_bytes: 300MiB\n");
  const std::string text(2800, 'a');
  for (const char* model : {"dense", "hypenet"}) {
    size_t sessions = 0;
    grpc::Status status;
    for (std::string session; status.ok() && sessions < 1000; ++sessions) {
      status = Turn(model, text, &session);
    }
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << model;
    EXPECT_GT(sessions, 10u) << model;
    EXPECT_LT(server_->resident_bytes(), kLimit) << model << ": " << sessions << " sessions";
  }
}

TEST_F(MemoryTest, CacheBytesThatCannotFitAreAnErrorAtTheStart) {
  const std::string config = files_.Write("server.yaml", "memory_bytes: 500MiB\n");
  const ServerRun run =
      RunServer(kServerBinary, {"--config", config, "--listen", "127.0.0.1:0", "--metrics-listen",
                                "", "--model", Model("dense") + ",cache_bytes=300MiB", "--model",
                                Model("hypenet") + ",cache_bytes=200MiB"});
  EXPECT_EQ(run.exit_code, 1);
  for (const std::string& part :
       {"dense (" + std::to_string(300 * kMiB) + "), hypenet (" + std::to_string(200 * kMiB) + ")",
        std::to_string(500 * kMiB)}) {
    EXPECT_THAT(run.log, HasSubstr(part));
  }
}

// The server refuses these requests before a turn begins. It must give back their memory all the
// same.
TEST_F(MemoryTest, RefusedRequestsGiveTheirMemoryBack) {
  Start("");
  const uint64_t before = server_->resident_bytes();
  v1::GenerateRequest request;  // its elements take far more memory than their two bytes each
  for (int i = 0; i < 12 << 20; ++i) request.mutable_stop()->add_strings();
  for (int round = 0; round < 2; ++round) {
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse response;
    EXPECT_FALSE(reader->Read(&response));
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    const auto until = Clock::now() + seconds(20);
    while (server_->resident_bytes() > before + 32 * kMiB && Clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(50));
    }
    EXPECT_LE(server_->resident_bytes(), before + 32 * kMiB) << "before: " << before;
  }
}

// After the first round, what the server keeps for later sessions has been allocated. The second
// round shows that it does not grow.
TEST_F(MemoryTest, ClosedSessionsGiveTheirMemoryBack) {
  Start("");
  const uint64_t before = server_->resident_bytes();
  const uint64_t small = before + before / 5 + 64 * kMiB;
  for (int round = 0; round < 2; ++round) {
    const uint64_t most = OpenAndClose(600, std::string(150, 'a'));
    EXPECT_GT(most, 2 * small) << "the sessions must be large enough for the test";
    const auto until = Clock::now() + seconds(10);
    while (server_->resident_bytes() > small && Clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(50));
    }
    EXPECT_LE(server_->resident_bytes(), small) << "before: " << before << ", most: " << most;
  }
}

}  // namespace
}  // namespace longstream
