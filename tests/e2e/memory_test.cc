// The memory of a server process: one budget for all models, and memory that closed sessions give
// back.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
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
    request.mutable_sampling()->set_temperature(0);
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, request);
    for (v1::GenerateResponse response; reader->Read(&response);) {
    }
    return reader->Finish();
  }

  // Lets a session generate a few more tokens. *last is the last message.
  grpc::Status Continue(const std::string& session, v1::GenerateResponse* last,
                        std::string* tokens = nullptr) {
    v1::GenerateRequest request;
    request.set_session_id(session);
    request.set_max_tokens(8);
    request.set_log_probs(true);
    request.mutable_sampling()->set_temperature(0);
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, request);
    while (reader->Read(last)) {
      if (tokens == nullptr || !last->has_delta()) continue;
      for (const v1::TokenLogProb& token : last->delta().log_probs()) {
        *tokens += token.SerializeAsString();
      }
    }
    return reader->Finish();
  }

  // The tokens that the session generates next, with the bits of their log-probabilities.
  std::string Answer(const std::string& session) {
    std::string tokens;
    v1::GenerateResponse last;
    const grpc::Status status = Continue(session, &last, &tokens);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_NE(tokens, "");
    return tokens;
  }

  uint64_t CacheBytes(const std::string& session) {
    v1::GetSessionRequest request;
    request.set_session_id(session);
    v1::Session response;
    grpc::ClientContext context;
    EXPECT_TRUE(stub_->GetSession(&context, request, &response).ok());
    const v1::SessionBytes& bytes = response.bytes();
    return bytes.kv() + bytes.window() + bytes.state();
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

  // A request whose elements take far more memory than their two bytes each.
  static v1::GenerateRequest ManyStopStrings(int count) {
    v1::GenerateRequest request;
    for (int i = 0; i < count; ++i) request.mutable_stop()->add_strings();
    return request;
  }

  void ExpectRefused(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse response;
    EXPECT_FALSE(reader->Read(&response));
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }

  // Waits until the server has given back enough memory. The end of a call at the client may come
  // while the server still reads the call's message, so one small value is not enough: the memory
  // must stay at most this large for half a second. Caches keep what sessions gave up for 10 to 20
  // seconds (RecentPeak), and are asked for it every 5 seconds.
  void ExpectAtMost(uint64_t bytes) {
    constexpr int kReadings = 10;
    const auto until = Clock::now() + seconds(60);
    uint64_t resident = 0;
    for (int in_a_row = 0; in_a_row < kReadings;) {
      resident = server_->resident_bytes();
      in_a_row = resident <= bytes ? in_a_row + 1 : 0;
      if (Clock::now() > until) break;
      std::this_thread::sleep_for(milliseconds(50));
    }
    EXPECT_LE(resident, bytes);
  }

  const TemporaryDirectory files_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
};

// More sessions than the budgets have room for: idle ones are evicted, and no call is refused.
TEST_F(MemoryTest, AllModelsTogetherStayWithinTheLimit) {
  constexpr uint64_t kLimit = 300 * kMiB;
  constexpr size_t kSessions = 60;
  Start("memory_bytes: 300MiB\n");
  const std::string text(2800, 'a');
  for (const char* model : {"dense", "hypenet"}) {
    std::vector<std::string> ids(kSessions);
    for (std::string& id : ids) {
      const grpc::Status status = Turn(model, text, &id);
      ASSERT_TRUE(status.ok()) << model << ": " << status.error_message();
    }
    EXPECT_LT(server_->resident_bytes(), kLimit) << model;
    EXPECT_EQ(CacheBytes(ids.front()), 0u) << model << ": no session was evicted";
    v1::GenerateResponse last;
    const grpc::Status status = Continue(ids.front(), &last);
    EXPECT_TRUE(status.ok()) << model << ": " << status.error_message();
    EXPECT_GT(last.finish().usage().recomputed_tokens(), 2800u);
    EXPECT_NE(last.finish().usage().recompute_reason(), "");
  }
}

// Many more sessions than the budget has room for come and stay, each with a turn of its own. The
// server's memory stays flat, and the oldest sessions answer as they would have at once. To run
// the test with more sessions, set LONGSTREAM_TEST_SESSIONS.
TEST_F(MemoryTest, IdleSessionsLeaveTheMemoryFlat) {
  const char* asked = std::getenv("LONGSTREAM_TEST_SESSIONS");
  const size_t sessions = asked == nullptr ? 600 : std::stoul(asked);
  const uint64_t limit = asked == nullptr ? 256 * kMiB : 1024 * kMiB;
  Start("memory_bytes: " + std::to_string(limit / kMiB) + "MiB\n");
  const std::string text(300, 'b');
  for (const char* model : {"dense", "hypenet"}) {
    // An equal session, which is not evicted, gives the answer that the oldest session must give.
    std::string undisturbed;
    ASSERT_TRUE(Turn(model, text, &undisturbed).ok());
    const std::string expected = Answer(undisturbed);
    ASSERT_TRUE(Close(undisturbed).ok());
    std::vector<std::string> ids(sessions);
    uint64_t at_half = 0;
    for (size_t i = 0; i < sessions; ++i) {
      const grpc::Status status = Turn(model, text, &ids[i]);
      ASSERT_TRUE(status.ok()) << model << " " << i << ": " << status.error_message();
      if (i == sessions / 2) at_half = server_->resident_bytes();
      if (i % (sessions / 10) == 0) {
        std::cout << model << ": " << i << " sessions, " << server_->resident_bytes() / kMiB
                  << " MiB" << std::endl;
      }
    }
    const uint64_t at_end = server_->resident_bytes();
    EXPECT_LT(at_end, limit) << model;
    // The second half added its tokens, and a kilobyte for each session.
    const uint64_t of_host = sessions / 2 * (1024 + 16 * text.size());
    EXPECT_LT(at_end, at_half + of_host + 16 * kMiB) << model << ", at half: " << at_half;
    EXPECT_EQ(CacheBytes(ids.front()), 0u) << model << ": no session was evicted";
    for (const size_t i : {size_t{0}, size_t{1}, sessions / 3, sessions - 1}) {
      EXPECT_EQ(Answer(ids[i]), expected) << model << " " << i;
    }
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
  const v1::GenerateRequest request = ManyStopStrings(12 << 20);
  for (int round = 0; round < 2; ++round) {
    ExpectRefused(request);
    ExpectAtMost(before + 32 * kMiB);
  }
}

// malloc learns from large blocks that are freed. Then it must not keep more at the ends of the
// arenas, where the small blocks of these requests lie.
TEST_F(MemoryTest, LargeRequestsDoNotMakeTheHeapKeepMore) {
  Start("");
  const uint64_t before = server_->resident_bytes();
  v1::GenerateRequest large;
  large.mutable_input()->set_text(std::string(28 << 20, 'a'));
  ExpectRefused(large);
  const v1::GenerateRequest request = ManyStopStrings(1 << 20);
  for (int round = 0; round < 4; ++round) {
    InParallel(16, [&](size_t /*i*/) { ExpectRefused(request); });
    ExpectAtMost(before + 32 * kMiB);
  }
}

// gRPC itself ends these calls, so no request notes that it was freed.
TEST_F(MemoryTest, MessagesThatNoCallReadsGiveTheirMemoryBack) {
  Start("");
  const uint64_t before = server_->resident_bytes();
  v1::GenerateRequest large;  // more than max_message_bytes
  large.mutable_input()->set_text(std::string(80 << 20, 'a'));
  for (int round = 0; round < 2; ++round) {
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, large);
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    ExpectAtMost(before + 32 * kMiB);
  }
  v1::AppendRequest part;
  part.mutable_input()->set_text(std::string(60 << 20, 'a'));
  for (int round = 0; round < 2; ++round) {
    grpc::ClientContext context;
    v1::AppendResponse response;
    const auto writer = stub_->Append(&context, &response);
    std::thread cancel([&] {
      std::this_thread::sleep_for(milliseconds(30 * round));
      context.TryCancel();
    });
    writer->Write(part);
    EXPECT_FALSE(writer->Finish().ok());
    cancel.join();
    ExpectAtMost(before + 32 * kMiB);
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
    ExpectAtMost(small);
  }
}

}  // namespace
}  // namespace longstream
