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
  void Watch(const std::vector<std::string>& paths) {
    absl::StatusOr<FileContents> known = ReadFiles(paths);
    ASSERT_TRUE(known.ok()) << known.status();
    files_.Watch(paths, *std::move(known), [this](const absl::StatusOr<FileContents>& contents) {
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
  EXPECT_EQ(ReadFiles({pipe}).status().message(), pipe + ": is no regular file");
  EXPECT_EQ(ReadFiles({directory_.string()}).status().message(),
            directory_.string() + ": is no regular file");
  EXPECT_EQ(ReadFiles({large}).status().message(), large + ": expected at most 1048576 bytes");
  directory_.Write("large", std::string(1 << 20, 'a'));
  EXPECT_EQ(ReadFiles({large})->at(0).size(), size_t{1} << 20);
}

}  // namespace
}  // namespace longstream
