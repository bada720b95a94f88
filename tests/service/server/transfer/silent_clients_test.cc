// Clients that begin to export or to import a session, or repeat an Append, and then neither read
// nor send.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/service/server/transfer/server_files_fixture.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

class SilentClientsTest : public ServerFilesTest {
 protected:
  explicit SilentClientsTest(absl::Duration client_timeout = absl::Milliseconds(500))
      : ServerFilesTest(/*cache_bytes=*/0, kFilesTemplate, {}, /*only_sealed=*/false,
                        client_timeout) {}

  // A client that takes only 1 KiB before it reads.
  std::unique_ptr<v1::Longstream::Stub> NarrowStub() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return v1::Longstream::NewStub(
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server().port()),
                                  grpc::InsecureChannelCredentials(), arguments));
  }
  static void ExpectTimedOut(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("500ms, scheduler.client_timeout"));
  }
};

TEST_F(SilentClientsTest, AnExportThatNobodyReadsEnds) {
  const std::string id = Open();
  v1::GenerateRequest long_turn = Turn(id, 1);
  long_turn.mutable_input()->set_text(std::string(50'000, 'x'));
  const Generated generated = Generate(long_turn);
  ASSERT_TRUE(generated.status.ok()) << generated.status.error_message();
  const auto narrow = NarrowStub();
  grpc::ClientContext context;
  v1::ExportSessionRequest request;
  request.set_session_id(id);
  const auto reader = narrow->ExportSession(&context, request);
  ASSERT_TRUE(WaitUntil([&] { return TransfersEnded("export", "DEADLINE_EXCEEDED") == 1; }));
  v1::ExportSessionResponse response;
  while (reader->Read(&response)) {
  }
  ExpectTimedOut(reader->Finish());
  ExpectAlive();
}

class StoppedTransfersTest : public SilentClientsTest {
 protected:
  StoppedTransfersTest() : SilentClientsTest(absl::Minutes(5)) {}

  // Does what a stopping server does, until it has ended a call of the kind.
  bool StopUntilEnded(const char* kind) {
    return WaitUntil([&] {
      sessions().timers()->CallBy(MonotonicTime::Now());
      return TransfersEnded(kind, "UNAVAILABLE") == 1;
    });
  }
  static void ExpectStopped(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
    // If the call still waited for the session, the message goes on.
    EXPECT_THAT(status.error_message(), testing::StartsWith("the server is shutting down"));
  }
};

// The client was not silent for five minutes.
TEST_F(StoppedTransfersTest, TransfersAreToldThatTheServerStops) {
  const std::string id = Open();
  v1::GenerateRequest long_turn = Turn(id, 1);
  long_turn.mutable_input()->set_text(std::string(50'000, 'x'));
  ASSERT_TRUE(Generate(long_turn).status.ok());
  const auto narrow = NarrowStub();
  grpc::ClientContext context;
  v1::ExportSessionRequest request;
  request.set_session_id(id);
  const auto reader = narrow->ExportSession(&context, request);
  ASSERT_TRUE(StopUntilEnded("export"));
  v1::ExportSessionResponse response;
  while (reader->Read(&response)) {
  }
  ExpectStopped(reader->Finish());

  grpc::ClientContext import_context;
  v1::Session session;
  const auto writer = narrow->ImportSession(&import_context, &session);
  ASSERT_TRUE(StopUntilEnded("import"));
  ExpectStopped(writer->Finish());
}

TEST_F(SilentClientsTest, AnImportThatIsNotSentEnds) {
  const std::string id = Open();
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  std::string file;
  // On a busy machine, an honest client may fall silent too.
  ASSERT_TRUE(WaitUntil([&] { return Export(id, &file).ok(); }));
  Close(id);
  for (const size_t size : {size_t{0}, file.size() / 2, file.size()}) {
    SCOPED_TRACE(size);
    grpc::ClientContext context;
    v1::Session session;
    const auto writer = stub().ImportSession(&context, &session);
    v1::ImportSessionRequest piece;
    piece.set_data(file.substr(0, size));
    if (size > 0) writer->Write(piece);
    ExpectTimedOut(writer->Finish());
  }
  v1::Session session;
  EXPECT_TRUE(WaitUntil([&] { return Import(file, &session).ok(); }))
      << "the others have left nothing";
}

TEST_F(SilentClientsTest, ARepeatedAppendThatIsNotSentEnds) {
  const std::string id = Open();
  v1::AppendRequest request;
  request.set_session_id(id);
  request.set_turn_id(std::string(32, 'a'));
  request.mutable_input()->set_text("abc");
  // `whole`: the client closes its side.
  const auto append = [&](bool whole) {
    grpc::ClientContext context;
    v1::AppendResponse response;
    const auto writer = stub().Append(&context, &response);
    writer->Write(request);
    if (whole) writer->WritesDone();
    return writer->Finish();
  };
  // On a busy machine, an honest client may fall silent too.
  ASSERT_TRUE(WaitUntil([&] { return append(true).ok(); }));
  ExpectTimedOut(append(false));
  EXPECT_TRUE(WaitUntil([&] { return append(true).ok(); })) << "a repeat that is sent";
  EXPECT_EQ(Get(id).position(), 3u);
}

}  // namespace
}  // namespace longstream
