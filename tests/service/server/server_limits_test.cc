// Limits of the memory that clients can make a server hold before it has read their requests.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "google/rpc/status.pb.h"
#include "tests/service/server/held_turns.h"
#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;

constexpr size_t kLongText = 40000;

// Expects RESOURCE_EXHAUSTED with the limit's message, and the RetryInfo that tells a client when
// to try again.
void ExpectRefused(const grpc::Status& status) {
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("already wait to be read; the limit is 60000"),
            std::string::npos)
      << status.error_message();
  google::rpc::Status details;
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_TRUE(details.details(0).UnpackTo(&retry));
}

TEST_F(ServerTest, LongTextsThatWaitAreBounded) {
  HeldTurns held(&sessions(), kLongText, kLongText * 3 / 2);
  grpc::ClientContext first_context;
  v1::GenerateRequest first = Request(Open());
  first.mutable_input()->set_text(std::string(kLongText, 'x'));
  const auto waiting = held.stub().Generate(&first_context, first);

  v1::GenerateRequest second = first;
  second.set_session_id(Open());
  v1::GenerateResponse response;
  held.WaitForGenerate();
  {
    grpc::ClientContext context;
    const auto reader = held.stub().Generate(&context, second);
    EXPECT_FALSE(reader->Read(&response));
    ExpectRefused(reader->Finish());
  }
  // A long piece of an Append finds no room, so the server refuses the whole turn. A short piece is
  // read at once and needs no room.
  {
    grpc::ClientContext context;
    v1::AppendResponse appended;
    const auto writer = held.stub().Append(&context, &appended);
    v1::AppendRequest piece;
    piece.set_session_id(second.session_id());
    piece.mutable_input()->set_text("short");
    ASSERT_TRUE(writer->Write(piece));
    piece.mutable_input()->set_text(std::string(kLongText, 'x'));
    ASSERT_TRUE(writer->Write(piece));
    ExpectRefused(writer->Finish());
  }
  EXPECT_EQ(Get(second.session_id()).position(), 0u) << "the refused turn was not rolled back";
  EXPECT_FALSE(Get(second.session_id()).turn_running());

  held.Release();
  while (waiting->Read(&response)) {
  }
  const grpc::Status status = waiting->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

// An Append that sends no text and ends when it is told to.
class SilentAppend {
 public:
  SilentAppend(v1::Longstream::Stub& stub, const std::string& session)
      : writer_(stub.Append(&context_, &response_)) {
    v1::AppendRequest piece;
    piece.set_session_id(session);
    EXPECT_TRUE(writer_->Write(piece));
  }
  grpc::Status End() {
    writer_->WritesDone();
    return writer_->Finish();
  }

 private:
  grpc::ClientContext context_;
  v1::AppendResponse response_;
  const std::unique_ptr<grpc::ClientWriter<v1::AppendRequest>> writer_;
};

// A connection carries at most this many calls at once. Other connections are not affected.
TEST_F(ServerTest, CallsOfAConnectionAreBounded) {
  constexpr std::chrono::milliseconds kShort(300);
  constexpr std::chrono::milliseconds kLong(30000);
  auto server = GrpcServer::Start({.listen = "127.0.0.1:0", .max_concurrent_streams = 2}, &models(),
                                  &sessions());
  ASSERT_TRUE(server.ok()) << server.status();
  const auto connect = [&] {
    grpc::ChannelArguments own_connection;
    own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1::Longstream::NewStub(
        grpc::CreateCustomChannel("127.0.0.1:" + std::to_string((*server)->port()),
                                  grpc::InsecureChannelCredentials(), own_connection));
  };
  const std::string id = Open();
  const auto get = [&](v1::Longstream::Stub& stub, std::chrono::milliseconds patience) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    v1::GetSessionRequest request;
    request.set_session_id(id);
    v1::Session session;
    return stub.GetSession(&context, request, &session).error_code();
  };
  const auto full = connect();
  EXPECT_EQ(get(*full, kLong), StatusCode::OK)
      << "with the first answer the client learns the limit";
  SilentAppend first(*full, Open());
  SilentAppend second(*full, Open());
  EXPECT_EQ(get(*full, kShort), StatusCode::DEADLINE_EXCEEDED)
      << "the call should wait in the client";
  EXPECT_EQ(get(*connect(), kLong), StatusCode::OK);
  EXPECT_TRUE(first.End().ok());
  EXPECT_EQ(get(*full, kLong), StatusCode::OK);
  EXPECT_TRUE(second.End().ok());
}

}  // namespace
}  // namespace longstream
