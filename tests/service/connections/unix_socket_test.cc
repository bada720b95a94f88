// Unix sockets that only this user can open.
#include "service/connections/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/temporary_directory.h"

namespace longstream {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat file {};
  return lstat(path.c_str(), &file) == 0 ? file.st_mode & 07777 : 0;
}

bool Connects(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const Descriptor client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(client.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
         0;
}

int64_t FilesIn(const TemporaryDirectory& directory) {
  return std::distance(std::filesystem::directory_iterator(directory.path()),
                       std::filesystem::directory_iterator());
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
    ListeningSockets listening;
    const auto file = ListenOnUnixSocket(path, &listening);
    umask(before);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(ModeOf(path), 0600u);
    EXPECT_TRUE(Connects(path));
  }
  EXPECT_EQ(FilesIn(directory), 3) << "nothing is left of the temporary names";
}

TEST(UnixSocketTest, ReplacesOnlyASocketOfNobody) {
  const TemporaryDirectory directory;
  const std::string path = directory.string() + "/socket";
  {
    ListeningSockets first, second;
    ASSERT_TRUE(ListenOnUnixSocket(path, &first).ok());
    EXPECT_TRUE(absl::IsUnavailable(ListenOnUnixSocket(path, &second).status()));
    EXPECT_TRUE(Connects(path));
  }
  // The process has ended without removing the file, and another one while it started.
  EXPECT_EQ(FilesIn(directory), 1);
  {
    ListeningSockets killed;
    EXPECT_TRUE(ListenOnUnixSocket(path + ".new", &killed).ok());
  }
  ListeningSockets listening;
  EXPECT_TRUE(ListenOnUnixSocket(path, &listening).ok());
  EXPECT_TRUE(Connects(path));
  EXPECT_EQ(FilesIn(directory), 1);
  const std::string file = directory.Write("file", "text");
  EXPECT_TRUE(absl::IsUnavailable(ListenOnUnixSocket(file, &listening).status()));
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "text");
}

TEST(UnixSocketTest, OneOfManyTakesTheName) {
  constexpr int kServers = 4;
  const TemporaryDirectory directory;
  const std::string path = directory.string() + "/socket";
  for (int round = 0; round < 50; ++round) {
    std::vector<ListeningSockets> listening(kServers);
    std::atomic<int> taken{0};
    std::vector<std::thread> servers;
    for (int i = 0; i < kServers; ++i) {
      servers.emplace_back(
          [&, i] { taken += ListenOnUnixSocket(path, &listening[i]).ok() ? 1 : 0; });
    }
    for (std::thread& server : servers) server.join();
    EXPECT_EQ(taken, 1);
    EXPECT_TRUE(Connects(path)) << "the file is that of the one that succeeded";
  }
  EXPECT_EQ(FilesIn(directory), 1);
}

TEST(UnixSocketTest, OtherUsersCannotHoldTheStartUp) {
  const TemporaryDirectory directory;
  const std::string path = directory.string() + "/socket";
  // A user who may read a directory may lock it.
  const Descriptor locked(open(directory.string().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(flock(locked.number(), LOCK_EX), 0);
  // A file of other users is no lock.
  const std::string file = directory.Write("socket.lock", "");
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  const Descriptor theirs(open(file.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(theirs.number(), LOCK_EX), 0);
  ListeningSockets listening;
  const auto listens = ListenOnUnixSocket(path, &listening);
  EXPECT_TRUE(listens.ok()) << listens.status();
}

TEST(UnixSocketTest, RemovesOnlyItsOwnFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.string() + "/socket";
  ListeningSockets first, second;
  const auto mine = ListenOnUnixSocket(path, &first);
  ASSERT_TRUE(mine.ok()) << mine.status();
  std::filesystem::remove(path);
  const auto theirs = ListenOnUnixSocket(path, &second);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  RemoveSocketFile(*mine);
  EXPECT_TRUE(Connects(path));
  RemoveSocketFile(*theirs);
  EXPECT_FALSE(std::filesystem::exists(path));
  RemoveSocketFile(*theirs);
}

TEST(UnixSocketTest, RefusesWrongPaths) {
  ListeningSockets listening;
  for (const std::string& path : {std::string(), std::string(200, 'a'), std::string(104, 'a'),
                                  std::string("/nonexistent/a/b")}) {
    EXPECT_TRUE(absl::IsUnavailable(ListenOnUnixSocket(path, &listening).status())) << path;
  }
  EXPECT_TRUE(listening.sockets.empty());
}

}  // namespace
}  // namespace longstream
