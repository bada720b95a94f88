// Sessions as files over gRPC: an exported session goes on where it is imported, and the server
// trusts nothing in a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/clock.h"
#include "tests/service/server/transfer/server_files_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

TEST_F(ServerFilesTest, AnExportedSessionGoesOnWithTheSameTokens) {
  const std::string control = Open();
  ASSERT_TRUE(Generate(Turn(control, 1)).status.ok());
  const Generated expected = Generate(Turn(control, 2));

  const std::string id = Open();
  const Generated first = Generate(Turn(id, 1));
  ASSERT_TRUE(first.status.ok());
  const v1::Session before = Get(id);
  const std::string file = Exported(id);
  for (const size_t piece : {size_t{1} << 20, size_t{1}, size_t{77}}) {
    SCOPED_TRACE(piece);
    Close(id);
    v1::Session session;
    const grpc::Status status = Import(file, &session, "", piece);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(session.session_id(), id);
    EXPECT_EQ(session.position(), before.position());
    EXPECT_EQ(session.idle_timeout().seconds(), before.idle_timeout().seconds());
    EXPECT_EQ(session.create_time().seconds(), before.create_time().seconds());
    EXPECT_EQ(session.bytes().state(), before.bytes().state());
    EXPECT_EQ(session.durability(), v1::DURABILITY_TURN);
    const Generated repeated = Generate(Turn(id, 1));
    EXPECT_EQ(repeated.started.how(), v1::ATTACH_REPLAYED) << "the turn's id is known";
    EXPECT_EQ(repeated.tokens, first.tokens);
    const Generated next = Generate(Turn(id, 2));
    EXPECT_EQ(next.tokens, expected.tokens);
    EXPECT_EQ(next.finish.usage().recomputed_tokens(), 0u) << "the caches came with the file";
  }
}

TEST_F(ServerFilesTest, ACopyStandsBesideTheSessionAndIsExportedAgain) {
  const std::string id = Open();
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  const std::string file = Exported(id);
  v1::Session session;
  grpc::Status status = Import(file, &session);
  EXPECT_EQ(status.error_code(), StatusCode::ALREADY_EXISTS) << status.error_message();
  const std::string copy = "000000000000000000000000000000aa";
  status = Import(file, &session, copy);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(session.session_id(), copy);
  EXPECT_EQ(Generate(Turn(copy, 2)).tokens, Generate(Turn(id, 2)).tokens);

  // A fork has turns of its source, with their ids only there.
  grpc::ClientContext context;
  v1::ForkSessionRequest request;
  v1::Session fork;
  request.set_session_id(id);
  ASSERT_TRUE(stub().ForkSession(&context, request, &fork).ok());
  ASSERT_TRUE(Generate(Turn(fork.session_id(), 2)).status.ok());
  status = Import(Exported(fork.session_id()), &session, "000000000000000000000000000000bb");
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(session.forked_from(), id);
  EXPECT_EQ(Generate(Turn(session.session_id(), 2)).started.how(), v1::ATTACH_REPLAYED);
  EXPECT_EQ(Generate(Turn(session.session_id(), 1)).started.how(), v1::ATTACH_NEW);
}

TEST_F(ServerFilesTest, GetSessionTellsTheBytesInTheStore) {
  const std::string id = Open();
  const uint64_t empty = Get(id).stored_bytes();
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  const uint64_t one = Get(id).stored_bytes();
  EXPECT_GT(one, empty);
  ASSERT_TRUE(Generate(Turn(id, 2)).status.ok());
  EXPECT_GT(Get(id).stored_bytes(), one);
}

TEST_F(ServerFilesTest, AConversationAndAnEmptySessionComeBack) {
  const auto ask = [&](const std::string& id, const std::string& text) {
    v1::GenerateRequest request = Request(id);
    v1::Message* message = request.mutable_input()->mutable_messages()->add_messages();
    message->set_role("user");
    message->set_content(text);
    const Generated answer = Generate(request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    return answer.tokens;
  };
  const std::string id = Open();
  v1::Session empty;
  grpc::Status status = Import(Exported(id), &empty, "000000000000000000000000000000aa");
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(empty.position(), 0u);
  EXPECT_EQ(ask(empty.session_id(), "hello"), ask(id, "hello"));
  v1::Session session;
  status = Import(Exported(id), &session, "000000000000000000000000000000bb");
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(ask(session.session_id(), "and?"), ask(id, "and?"));
}

TEST_F(ServerFilesTest, ASessionThatHasReturnedToAPositionComesBackThere) {
  const std::string id = Open();
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  const uint64_t end = Generate(Turn(id, 2)).finish.position();
  grpc::ClientContext context;
  v1::RewindSessionRequest request;
  v1::Session rewound;
  request.set_session_id(id);
  request.set_position(end - 3);
  const grpc::Status returned = stub().RewindSession(&context, request, &rewound);
  ASSERT_TRUE(returned.ok()) << returned.error_message();
  v1::Session session;
  const grpc::Status status = Import(Exported(id), &session, "000000000000000000000000000000aa");
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(session.position(), end - 3);
  EXPECT_EQ(Generate(Turn(session.session_id(), 3)).tokens, Generate(Turn(id, 3)).tokens);
}

TEST_F(ServerFilesTest, ARequestNamesTheTtl) {
  const auto open = [this](int64_t seconds, int32_t nanos, v1::Session* session) {
    v1::OpenSessionRequest request;
    request.set_model("m");
    request.mutable_ttl()->set_seconds(seconds);
    request.mutable_ttl()->set_nanos(nanos);
    grpc::ClientContext context;
    return stub().OpenSession(&context, request, session);
  };
  v1::Session session;
  const grpc::Status opened = open(90, 500'000'000, &session);
  ASSERT_TRUE(opened.ok()) << opened.error_message();
  EXPECT_EQ(session.ttl().seconds(), 90);
  EXPECT_EQ(session.ttl().nanos(), 500'000'000);
  v1::Session copy;
  const grpc::Status imported =
      Import(Exported(session.session_id()), &copy, "000000000000000000000000000000aa");
  ASSERT_TRUE(imported.ok()) << imported.error_message();
  EXPECT_EQ(copy.ttl().seconds(), 90);
  for (const auto& [seconds, nanos] :
       {std::pair(int64_t{0}, 0), std::pair(int64_t{-1}, 0), std::pair(int64_t{1}, -1),
        std::pair(int64_t{3600} * 24 * 90, 1), std::pair(int64_t{400'000'000'000}, 0)}) {
    const grpc::Status refused = open(seconds, nanos, &session);
    EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT) << seconds << " " << nanos;
    EXPECT_THAT(refused.error_message(), testing::StartsWith("ttl: expected "));
  }
}

TEST_F(ServerFilesTest, SessionsInMemoryAndRunningTurnsAreRefused) {
  grpc::ClientContext context;
  v1::OpenSessionRequest open;
  v1::Session session;
  open.set_model("m");
  open.set_durability(v1::DURABILITY_MEMORY);
  ASSERT_TRUE(stub().OpenSession(&context, open, &session).ok());
  std::string file;
  grpc::Status status = Export(session.session_id(), &file);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("lives in memory"));
  EXPECT_EQ(Export("000000000000000000000000000000cc", &file).error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(Export("cc", &file).error_code(), StatusCode::INVALID_ARGUMENT);
  Close(session.session_id());

  OpenTurn turn(this, Open());
  status = Export(turn.session(), &file);
  EXPECT_EQ(status.error_code(), StatusCode::ABORTED) << status.error_message();
  ExpectAlive();
}

TEST_F(ServerFilesTest, DamagedFilesAreRefusedAndLeaveNothing) {
  const uint64_t held = models().host_memory()->held_bytes();
  const std::string id = Open();
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  const std::string file = Exported(id);
  Close(id);
  v1::Session session;
  for (size_t size = 0; size < file.size(); size += 1 + size / 10) {
    const grpc::Status status = Import(file.substr(0, size), &session);
    EXPECT_FALSE(status.ok()) << "cut at " << size;
  }
  for (size_t at = 0; at < file.size(); at += 1 + at / 10) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    const grpc::Status status = Import(damaged, &session);
    EXPECT_FALSE(status.ok()) << "byte " << at;
    EXPECT_NE(status.error_message(), "") << "byte " << at;
  }
  EXPECT_EQ(Import(file + "x", &session).error_code(), StatusCode::DATA_LOSS);
  EXPECT_EQ(Import("", &session).error_code(), StatusCode::INVALID_ARGUMENT);
  // A call may answer a little before it has freed its memory.
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  while (models().host_memory()->held_bytes() != held && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(models().host_memory()->held_bytes(), held);
  const grpc::Status status = Import(file, &session);
  EXPECT_TRUE(status.ok()) << status.error_message();
  ExpectAlive();
}

TEST_F(ServerFilesTest, AnAbandonedImportLeavesNothing) {
  const std::string id = Open();
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  const std::string file = Exported(id);
  Close(id);
  for (const size_t size : {size_t{20}, file.size() / 2, file.size() - 10}) {
    grpc::ClientContext context;
    v1::Session session;
    const auto writer = stub().ImportSession(&context, &session);
    v1::ImportSessionRequest request;
    request.set_data(file.substr(0, size));
    writer->Write(request);
    context.TryCancel();
    EXPECT_FALSE(writer->Finish().ok());
  }
  v1::Session session;
  const grpc::Status status = Import(file, &session);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(ServerFilesTest, AnAbandonedExportLeavesTheSession) {
  const std::string id = Open();
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  grpc::ClientContext context;
  v1::ExportSessionRequest request;
  request.set_session_id(id);
  const auto reader = stub().ExportSession(&context, request);
  context.TryCancel();
  v1::ExportSessionResponse response;
  while (reader->Read(&response)) {
  }
  reader->Finish();
  // The export may still begin, and then it holds the session for a moment.
  grpc::Status status;
  do {
    WaitUntilIdle(id);
    status = Generate(Turn(id, 2)).status;
  } while (status.error_code() == StatusCode::ABORTED);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

// The memory of one turn: a state, and its copy to roll back to.
class ServerScarceFilesTest : public ServerFilesTest {
 protected:
  ServerScarceFilesTest() : ServerFilesTest(/*cache_bytes=*/2 * kStateBytes) {}
};

TEST_F(ServerScarceFilesTest, ASessionIsImportedWithoutCachesIfThereIsNoMemory) {
  const std::string id = Open();
  ASSERT_EQ(Get(id).bytes().state(), kStateBytes);
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  const std::string file = Exported(id);
  const Generated expected = Generate(Turn(id, 2));
  Close(id);
  {
    // This turn holds all memory while the file comes.
    const OpenTurn turn(this, Open());
    v1::Session session;
    const grpc::Status status = Import(file, &session);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(session.bytes().state(), 0u);
  }
  const Generated next = Generate(Turn(id, 2));
  EXPECT_EQ(next.tokens, expected.tokens);
  EXPECT_GT(next.finish.usage().recomputed_tokens(), 0u);
}

// --- without a store -----------------------------------------------------------------------------

TEST_F(ServerTest, WithoutAStoreThereAreNoFiles) {
  const std::string id = Open();
  grpc::ClientContext context;
  v1::ExportSessionRequest request;
  request.set_session_id(id);
  v1::ExportSessionResponse response;
  const auto reader = stub().ExportSession(&context, request);
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::FAILED_PRECONDITION);
  grpc::ClientContext import_context;
  v1::Session session;
  const auto writer = stub().ImportSession(&import_context, &session);
  v1::ImportSessionRequest piece;
  piece.set_data("x");
  writer->Write(piece);
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("--store"));
}

}  // namespace
}  // namespace longstream
