// Unix sockets that only this user can open.
#include "service/connections/unix_socket.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "tests/temporary_directory.h"

namespace longstream {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat file {};
  return lstat(path.c_str(), &file) == 0 ? file.st_mode & 07777 : 0;
}

TEST(UnixSocketTest, KnowsItsAddresses) {
  EXPECT_EQ(UnixSocketPath("unix:/run/a"), "/run/a");
  EXPECT_EQ(UnixSocketPath("unix:a"), "a");
  EXPECT_FALSE(UnixSocketPath("localhost:50051").has_value());
}

TEST(UnixSocketTest, HasItsModeWhateverTheUmaskIs) {
  const TemporaryDirectory directory;
  for (const mode_t mask : {0000, 0022, 0077}) {
    const std::string path = directory.string() + "/socket" + std::to_string(mask);
    const mode_t before = umask(mask);
    const auto listening = ListenOnUnixSocket(path);
    umask(before);
    ASSERT_TRUE(listening.ok()) << listening.status();
    EXPECT_EQ(ModeOf(path), 0600u);
  }
}

TEST(UnixSocketTest, ReplacesOnlyASocketOfNobody) {
  const TemporaryDirectory directory;
  const std::string path = directory.string() + "/socket";
  {
    const auto first = ListenOnUnixSocket(path);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(absl::IsUnavailable(ListenOnUnixSocket(path).status()));
  }
  // The process has ended without removing the file.
  EXPECT_TRUE(ListenOnUnixSocket(path).ok());
  const std::string file = directory.Write("file", "text");
  EXPECT_TRUE(absl::IsUnavailable(ListenOnUnixSocket(file).status()));
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "text");
}

TEST(UnixSocketTest, RefusesWrongPaths) {
  EXPECT_TRUE(absl::IsUnavailable(ListenOnUnixSocket("").status()));
  EXPECT_TRUE(absl::IsUnavailable(ListenOnUnixSocket(std::string(200, 'a')).status()));
  EXPECT_TRUE(absl::IsUnavailable(ListenOnUnixSocket("/nonexistent/a/b").status()));
}

}  // namespace
}  // namespace longstream
