// Sealed files of sessions over gRPC: only a server with the key makes a session of one, and an
// altered file leaves nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/clock.h"
#include "service/sealing/sealer.h"
#include "service/sealing/unsealer.h"
#include "service/serving/file/file_records.h"
#include "tests/service/sealing/sealed_bytes.h"
#include "tests/service/server/transfer/server_files_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

class ServerSealedFilesTest : public ServerFilesTest {
 protected:
  explicit ServerSealedFilesTest(Compression compression = Compression::kNone,
                                 bool only_sealed = false)
      : ServerFilesTest(0, kFilesTemplate, SealingWith("ab", compression), only_sealed) {}

  grpc::Status ImportStatus(const std::string& file) {
    v1::Session session;
    return Import(file, &session);
  }
};

TEST_F(ServerSealedFilesTest, ASealedSessionGoesOnWithTheSameTokens) {
  const std::string control = Open();
  ASSERT_TRUE(Generate(Turn(control, 1)).status.ok());
  const Generated expected = Generate(Turn(control, 2));

  const std::string id = Open();
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  const std::string plain = Exported(id), sealed = Exported(id, true);
  EXPECT_EQ(sealed.find("turn 1"), std::string::npos);
  EXPECT_NE(plain.find("turn 1"), std::string::npos) << "the test looks for the right text";
  EXPECT_EQ(*SealedBy(sealed), "a");
  const auto opened = Unseal(SealingWith("ab").keys, kSealedFileContext, sealed);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->size(), plain.size());
  for (const size_t piece : {size_t{1} << 20, size_t{1}, size_t{77}}) {
    SCOPED_TRACE(piece);
    Close(id);
    v1::Session session;
    const grpc::Status status = Import(sealed, &session, "", piece);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const Generated next = Generate(Turn(id, 2));
    EXPECT_EQ(next.tokens, expected.tokens);
    EXPECT_EQ(next.finish.usage().recomputed_tokens(), 0u) << "the caches came with the file";
  }
  // A file that an older key has sealed, and one that is not sealed.
  Close(id);
  EXPECT_TRUE(ImportStatus(Seal(SealingWith("b"), kSealedFileContext, *opened)).ok());
  Close(id);
  EXPECT_TRUE(ImportStatus(plain).ok());
}

TEST_F(ServerSealedFilesTest, AlteredCutAndForeignFilesAreInvalidAndLeaveNothing) {
  const uint64_t held = models().host_memory()->held_bytes();
  const std::string id = Open();
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  const std::string plain = Exported(id), file = Exported(id, true);
  Close(id);
  const auto expect_invalid = [&](const std::string& bytes, const std::string& what) {
    const grpc::Status status = ImportStatus(bytes);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << what;
    EXPECT_THAT(status.error_message(), HasSubstr("data: the sealed file does not open")) << what;
  };
  for (size_t size = kSealedMagic.size(); size < file.size(); size += 1 + size / 10) {
    expect_invalid(file.substr(0, size), "cut");
  }
  for (size_t at = kSealedMagic.size(); at < file.size(); at += 1 + at / 10) {
    std::string altered = file;
    altered[at] = static_cast<char>(altered[at] ^ 0x40);
    expect_invalid(altered, "altered");
  }
  expect_invalid(file + "x", "longer");
  expect_invalid(file + file, "twice");
  expect_invalid(Seal(SealingWith("c"), kSealedFileContext, plain), "another key");
  expect_invalid(Seal(SealingWith("a"), "another context", plain), "no file of a session");
  // A segment of a store is sealed with the same key.
  expect_invalid(Seal(SealingWith("a"), "longstream segment\n", plain), "a segment");
  // The file was whole, and what was sealed was not.
  EXPECT_EQ(
      ImportStatus(Seal(SealingWith("a"), kSealedFileContext, plain.substr(0, plain.size() / 2)))
          .error_code(),
      StatusCode::DATA_LOSS);
  // A call may answer a little before it has freed its memory.
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  while (models().host_memory()->held_bytes() != held && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(models().host_memory()->held_bytes(), held);
  EXPECT_TRUE(ImportStatus(file).ok());
  ExpectAlive();
}

class ServerCompressedFilesTest : public ServerSealedFilesTest {
 protected:
  ServerCompressedFilesTest() : ServerSealedFilesTest(Compression::kZstd) {}
};

TEST_F(ServerCompressedFilesTest, ACompressedFileIsSmallerAndComesBack) {
  const std::string id = Open();
  v1::GenerateRequest request = Turn(id, 1);
  request.mutable_input()->set_text(std::string(20'000, 'x'));
  ASSERT_TRUE(Generate(request).status.ok());
  const std::string plain = Exported(id), sealed = Exported(id, true);
  EXPECT_LT(sealed.size(), plain.size() / 2);
  const Generated expected = Generate(Turn(id, 2));
  Close(id);
  ASSERT_TRUE(ImportStatus(sealed).ok());
  EXPECT_EQ(Generate(Turn(id, 2)).tokens, expected.tokens);
}

class ServerOnlySealedFilesTest : public ServerSealedFilesTest {
 protected:
  ServerOnlySealedFilesTest() : ServerSealedFilesTest(Compression::kNone, true) {}
};

TEST_F(ServerOnlySealedFilesTest, OtherFilesAreRefused) {
  const std::string id = Open();
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  const std::string plain = Exported(id), sealed = Exported(id, true);
  Close(id);
  for (const std::string& file : {plain, plain.substr(0, 3), std::string("LNSGSEA")}) {
    const grpc::Status status = ImportStatus(file);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("data: the file is not sealed"));
  }
  EXPECT_TRUE(ImportStatus(sealed).ok());
}

TEST_F(ServerFilesTest, WithoutKeysNothingIsSealedOrOpened) {
  const std::string id = Open();
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  std::string file;
  const grpc::Status exported = Export(id, &file, true);
  EXPECT_EQ(exported.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(exported.error_message(), HasSubstr("store.keys"));
  const std::string plain = Exported(id);
  Close(id);
  v1::Session session;
  const grpc::Status imported = Import(Seal(SealingWith("a"), kSealedFileContext, plain), &session);
  EXPECT_EQ(imported.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(imported.error_message(), HasSubstr("this server has no keys"));
  EXPECT_TRUE(Import(plain, &session).ok());
}

}  // namespace
}  // namespace longstream
