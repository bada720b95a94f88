// How a server ends: turns end first, then calls get their last messages. Idle connections cause no
// delay.
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/service/server/server_fixture.h"
#include "tests/service/server/transport/retry_seconds.h"

namespace longstream {
namespace {

class ShutdownTest : public ServerTest {
 protected:
  ShutdownTest() : ServerTest(R"({"step_delay_us": 2000})") {}
};

TEST_F(ShutdownTest, IdleConnectionsDelayNothing) {
  Open();  // the channel stays connected
  sessions().Drain(absl::ZeroDuration());
  const MonotonicTime begin = MonotonicTime::Now();
  server().Shutdown(begin + absl::Seconds(30));
  EXPECT_LT(MonotonicTime::Now() - begin, absl::Seconds(15));
}

TEST_F(ShutdownTest, RunningCallsGetTheirLastMessages) {
  v1::GenerateRequest request = Request(Open());
  request.set_max_tokens(100);
  std::thread shutdown;
  const Generated generated =
      Generate(request, [&](const v1::GenerateResponse& response, grpc::ClientContext*) {
        if (!response.has_started()) return;
        shutdown = std::thread([this] {
          sessions().Drain(absl::Seconds(30));
          server().Shutdown(MonotonicTime::Now() + absl::Seconds(30));
        });
      });
  shutdown.join();
  EXPECT_TRUE(generated.status.ok()) << generated.status.error_message();
  EXPECT_EQ(generated.tokens.size(), 100u);
  EXPECT_EQ(generated.finish.position(), 105u);
}

TEST_F(ShutdownTest, TurnsPastTheGraceTimeAreUnavailable) {
  const std::string id = Open();
  v1::GenerateRequest request = Request(id);
  request.set_max_tokens(60000);
  std::thread drain;
  const Generated generated =
      Generate(request, [&](const v1::GenerateResponse& response, grpc::ClientContext*) {
        if (!response.has_started()) return;
        drain = std::thread([this] { sessions().Drain(absl::Milliseconds(50)); });
      });
  drain.join();
  EXPECT_EQ(generated.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(generated.status.error_message().find("grace time"), std::string::npos);
  EXPECT_EQ(RetrySeconds(generated.status), 0.5) << "another server may go on with it";
  EXPECT_EQ(Get(id).position(), 0u) << "the aborted turn was not rolled back";
  const grpc::Status refused = Generate(Request(id)).status;
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(RetrySeconds(refused), 0.5) << refused.error_message();
}

// A model with a tokenizer that needs some time for a long text.
class ShutdownTextsTest : public ServerTest {
 protected:
  ShutdownTextsTest() : ServerTest("{}", 0, MinimalModel::PluginFile(), ByteTokensJson()) {}
};

// An Append that has sent one short message, which is read at once.
struct BegunAppend {
  BegunAppend(v1::Longstream::Stub& stub, const std::string& session) : id(session) {
    writer = stub.Append(&context, &response);
    Write("short");
  }
  void Write(const std::string& text) {
    v1::AppendRequest piece;
    piece.set_session_id(id);
    piece.mutable_input()->set_text(text);
    EXPECT_TRUE(writer->Write(piece));
  }

  const std::string id;
  grpc::ClientContext context;
  v1::AppendResponse response;
  std::unique_ptr<grpc::ClientWriter<v1::AppendRequest>> writer;
};

// The calls have ended, but their texts still wait for a text thread. After Shutdown the server's
// owner may destroy all objects that these texts use.
TEST_F(ShutdownTextsTest, NothingOfACallIsLeft) {
  auto own = GrpcServer::Start({.listen = "127.0.0.1:0"}, &models(), &sessions());
  ASSERT_TRUE(own.ok()) << own.status();
  const auto own_stub = v1::Longstream::NewStub(grpc::CreateChannel(
      "127.0.0.1:" + std::to_string((*own)->port()), grpc::InsecureChannelCredentials()));
  const std::shared_ptr<Engine> engine = *models().Find("m");
  std::vector<std::unique_ptr<BegunAppend>> appends;
  for (int i = 0; i < 40; ++i) appends.push_back(std::make_unique<BegunAppend>(*own_stub, Open()));
  for (const auto& append : appends) append->Write(std::string(190000, 'a'));
  absl::SleepFor(absl::Milliseconds(50));  // the texts have arrived
  for (const auto& append : appends) Close(append->id);
  for (const auto& append : appends) EXPECT_FALSE(append->writer->Finish().ok());
  (*own)->Shutdown(MonotonicTime::Now());
  EXPECT_EQ(engine.use_count(), 2) << "only the model set and this test should hold the engine";
}

// A host that has vanished does not answer pings. A host that is only silent answers them.
TEST_F(ShutdownTest, ConnectionsThatAnswerNoPingAreClosed) {
  auto quick = GrpcServer::Start({.listen = "127.0.0.1:0",
                                  .keepalive_time = absl::Milliseconds(300),
                                  .keepalive_timeout = absl::Milliseconds(300)},
                                 &models(), &sessions());
  ASSERT_TRUE(quick.ok()) << quick.status();
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(connection, 0);
  timeval patience{20, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>((*quick)->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  // The preface of HTTP/2 and an empty SETTINGS frame. After that the client sends nothing.
  const std::string hello("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 24 + 9);
  ASSERT_EQ(write(connection, hello.data(), hello.size()), static_cast<ssize_t>(hello.size()));
  char buffer[1024];
  ssize_t got;
  while ((got = read(connection, buffer, sizeof(buffer))) > 0) {
  }
  EXPECT_TRUE(got == 0 || errno == ECONNRESET)
      << "the server keeps a connection whose client answers no ping";
  close(connection);
}

}  // namespace
}  // namespace longstream
