// The disk of the store hangs while a session is imported.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "tests/service/serving/hanging_store.h"

namespace longstream {
namespace {

constexpr SessionId kCopy{5, 6};

class HangingImportTest : public HangingStoreTest {
 protected:
  // The bytes of kId, with one turn.
  std::string File() {
    EXPECT_TRUE(Open().ok());
    EXPECT_TRUE(ReadToEnd(Start(10, TurnId{7, 7})).status.ok());
    std::shared_ptr<SessionExport> file;
    absl::Notification done;
    sessions().ExportSession({"", kId},
                             [&](absl::StatusOr<std::shared_ptr<SessionExport>> exported) {
                               EXPECT_TRUE(exported.ok()) << exported.status();
                               file = exported.value_or(nullptr);
                               done.Notify();
                             });
    done.WaitForNotification();
    std::string bytes;
    EXPECT_TRUE(file->Read(size_t{1} << 20, &bytes).ok());
    return bytes;
  }
  std::shared_ptr<SessionImport> Import() {
    SessionImport::Wanted wanted;
    wanted.id = kCopy;
    auto import = sessions().ImportSession("", wanted);
    EXPECT_TRUE(import.ok()) << import.status();
    return import.value_or(nullptr);
  }
  static absl::Status Write(SessionImport& taker, const std::string& file) {
    absl::Status status;
    absl::Notification done;
    taker.Write(file, [&](const absl::Status& written) {
      status = written;
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  }
  static absl::StatusOr<SessionView> Finish(SessionImport& taker) {
    return WaitForSession([&](SessionManager::Opened opened) { taker.Finish(std::move(opened)); });
  }
};

TEST_F(HangingImportTest, TheCheckOfItsIdIsUnavailableWhileItHangs) {
  const std::string file = File();
  HangReads();
  ExpectLate([&] { return Write(*Import(), file); });
  GoOn();
  const std::shared_ptr<SessionImport> import = Import();
  ASSERT_TRUE(Write(*import, file).ok());
  const absl::StatusOr<SessionView> session = Finish(*import);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->position, 14u);
  EXPECT_EQ(Write(*Import(), file).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(HangingImportTest, TheRestoreOfASessionThatIsInTheStoreIsUnavailableWhileItHangs) {
  const std::string file = File();
  const std::shared_ptr<SessionImport> import = Import();
  ASSERT_TRUE(Write(*import, file).ok());
  HangReads();
  ExpectLate([&] { return Finish(*import).status(); });
  GoOn();
  const absl::StatusOr<SessionView> session = sessions().View({"", kCopy});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->position, 14u);
}

}  // namespace
}  // namespace longstream
