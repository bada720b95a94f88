// Every way in which a file is replaced.
#include "service/security/watched_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

class WatchedFilesTest : public testing::Test {
 protected:
  void Watch(const std::vector<std::string>& paths, FileUsers users = FileUsers::kAnybody) {
    absl::StatusOr<FileContents> known = ReadFiles(paths, users);
    ASSERT_TRUE(known.ok()) << known.status();
    files_.Watch(paths, users, *std::move(known),
                 [this](const absl::StatusOr<FileContents>& contents) {
                   absl::MutexLock lock(&mutex_);
                   changes_.push_back(contents);
                 });
  }
  // Waits for the change number `count` and returns it.
  absl::StatusOr<FileContents> WaitForChange(size_t count) {
    const auto reached = [this, count]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return changes_.size() >= count;
    };
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&reached), absl::Seconds(30))) {
      return absl::DeadlineExceededError("no change was reported");
    }
    EXPECT_EQ(changes_.size(), count);
    return changes_.back();
  }

  const TemporaryDirectory directory_;
  absl::Mutex mutex_;
  std::vector<absl::StatusOr<FileContents>> changes_ ABSL_GUARDED_BY(mutex_);
  WatchedFiles files_{absl::Milliseconds(20)};  // the last member: its thread uses the others
};

TEST_F(WatchedFilesTest, SeesWritesAndRenames) {
  const std::string path = directory_.Write("a", "1");
  Watch({path});
  directory_.Write("a", "2");  // same size, same file
  EXPECT_EQ(*WaitForChange(1), FileContents{"2"});
  std::filesystem::rename(directory_.Write("b", "3"), path);
  EXPECT_EQ(*WaitForChange(2), FileContents{"3"});
  directory_.Write("a", "");
  EXPECT_EQ(*WaitForChange(3), FileContents{""});
}

// As Kubernetes replaces the files of a secret: a link to a directory changes.
TEST_F(WatchedFilesTest, SeesExchangedLinks) {
  for (const char* version : {"1", "2"}) {
    std::filesystem::create_directory(directory_.path() / version);
    for (const char* file : {"cert", "key"}) {
      directory_.Write(std::string(version) + "/" + file, std::string(file) + version);
    }
  }
  std::filesystem::create_directory_symlink("1", directory_.path() / "data");
  Watch({(directory_.path() / "data/cert").string(), (directory_.path() / "data/key").string()});
  std::filesystem::create_directory_symlink("2", directory_.path() / "next");
  std::filesystem::rename(directory_.path() / "next", directory_.path() / "data");
  EXPECT_EQ(*WaitForChange(1), (FileContents{"cert2", "key2"}));
}

TEST_F(WatchedFilesTest, AMissingFileIsReportedOnceAndComesBack) {
  const std::string path = directory_.Write("a", "1");
  Watch({path, ""});
  std::filesystem::remove(path);
  const absl::StatusOr<FileContents> missing = WaitForChange(1);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.status().message(), path + ": No such file or directory");
  directory_.Write("a", "2");
  EXPECT_EQ(*WaitForChange(2), (FileContents{"2", ""}));
}

TEST_F(WatchedFilesTest, SeveralGroupsAreApart) {
  const std::string one = directory_.Write("one", "1");
  const std::string other = directory_.Write("other", "1");
  Watch({one});
  Watch({other});
  directory_.Write("other", "2");
  EXPECT_EQ(*WaitForChange(1), FileContents{"2"});
  directory_.Write("one", "3");
  EXPECT_EQ(*WaitForChange(2), FileContents{"3"});
}

TEST_F(WatchedFilesTest, ReadsOnlySmallRegularFiles) {
  const std::string pipe = (directory_.path() / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string large = directory_.Write("large", std::string((1 << 20) + 1, 'a'));
  EXPECT_EQ(ReadFiles({pipe}, FileUsers::kAnybody).status().message(),
            pipe + ": is no regular file");
  EXPECT_EQ(ReadFiles({directory_.string()}, FileUsers::kAnybody).status().message(),
            directory_.string() + ": is no regular file");
  EXPECT_EQ(ReadFiles({large}, FileUsers::kAnybody).status().message(),
            large + ": expected at most 1048576 bytes");
  directory_.Write("large", std::string(1 << 20, 'a'));
  EXPECT_EQ(ReadFiles({large}, FileUsers::kAnybody)->at(0).size(), size_t{1} << 20);
}

// As Kubernetes lays out a secret: a link to a file behind a link to a directory. The links
// themselves always have mode 777.
TEST_F(WatchedFilesTest, SecretsAreForTheirOwnerAndReadersOfTheGroup) {
  std::filesystem::create_directory(directory_.path() / "1");
  std::filesystem::create_directory_symlink("1", directory_.path() / "data");
  const std::string file = directory_.Write("1/token", "1");
  const std::string path = directory_.string() + "/token";
  std::filesystem::create_symlink("data/token", path);
  for (const mode_t mode : {0400, 0440, 0600, 0640}) {
    ASSERT_EQ(chmod(file.c_str(), mode), 0);
    EXPECT_EQ(*ReadFiles({path}, FileUsers::kOwner), FileContents{"1"}) << mode;
  }
  for (const mode_t mode : {0644, 0604, 0602, 0620, 0601, 0660, 0777}) {
    ASSERT_EQ(chmod(file.c_str(), mode), 0);
    EXPECT_TRUE(ReadFiles({path}, FileUsers::kAnybody).ok());
    const absl::Status status = ReadFiles({path}, FileUsers::kOwner).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << mode;
    EXPECT_NE(status.message().find("chmod 600 " + path), std::string::npos) << status;
  }
}

TEST_F(WatchedFilesTest, SeesNewModesOfSecrets) {
  const std::string path = directory_.WriteSecret("a", "1");
  Watch({path}, FileUsers::kOwner);
  const std::string other = directory_.Write("b", "2");
  ASSERT_EQ(chmod(other.c_str(), 0644), 0);
  std::filesystem::rename(other, path);
  ASSERT_EQ(WaitForChange(1).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);  // the contents stay
  EXPECT_EQ(*WaitForChange(2), FileContents{"2"});
}

}  // namespace
}  // namespace longstream
