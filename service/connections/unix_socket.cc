// Binds a Unix socket.
#include "service/connections/unix_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace longstream {
namespace {

constexpr std::string_view kScheme = "unix:";

// A socket gets its own name when it has its mode and listens.
constexpr std::string_view kTemporary = ".new";

// A server that starts holds the lock for some microseconds.
constexpr int kLockTries = 400;
constexpr absl::Duration kLockPeriod = absl::Milliseconds(5);

absl::Status CannotBind(const std::string& path, std::string_view reason) {
  return absl::UnavailableError(absl::StrCat("cannot bind unix:", path, ": ",
                                             absl::string_view(reason.data(), reason.size())));
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Descriptor NewSocket() {
  return Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool Bind(const Descriptor& socket, const sockaddr_un& address) {
  return bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// Whether a socket file is there on which no process listens. errno says why not.
bool IsLeftOver(const std::string& path) {
  struct stat file {};
  if (lstat(path.c_str(), &file) != 0) return false;
  errno = EADDRINUSE;
  if (!S_ISSOCK(file.st_mode)) return false;
  const sockaddr_un address = AddressOf(path);
  const Descriptor probe = NewSocket();
  const int connected =
      connect(probe.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (connected != 0 && errno == ECONNREFUSED) return true;
  errno = EADDRINUSE;
  return false;
}

// Whether the name is free, or has a socket file on which no process listens. errno says why not.
bool MayTake(const std::string& path) { return IsLeftOver(path) || errno == ENOENT; }

// A lock file beside the socket that only this user can open, locked while the object exists. So of
// two servers that start at the same time only one takes the name.
class StartLock {
 public:
  explicit StartLock(const std::string& path) : path_(path + ".lock") {}
  ~StartLock() {
    if (file_.open()) unlink(path_.c_str());  // before the lock is free
  }
  StartLock(const StartLock&) = delete;
  StartLock& operator=(const StartLock&) = delete;

  // False: another process keeps the lock. True: it is taken, or there can be no such file.
  bool Take() {
    for (int tries = 0; tries < kLockTries; ++tries) {
      Descriptor file(open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
      struct stat opened {};
      if (!file.open() || fstat(file.number(), &opened) != 0) return true;
      const bool is_mine = S_ISREG(opened.st_mode) && opened.st_uid == geteuid() &&
                           (opened.st_mode & (S_IRWXG | S_IRWXO)) == 0;
      if (!is_mine) return true;
      if (flock(file.number(), LOCK_EX | LOCK_NB) == 0) {
        struct stat present {};
        const bool is_there = lstat(path_.c_str(), &present) == 0 &&
                              present.st_dev == opened.st_dev && present.st_ino == opened.st_ino;
        if (is_there) file_ = std::move(file);
        if (is_there) return true;
        continue;  // the process that had the lock has removed the file
      }
      if (errno != EINTR && errno != EWOULDBLOCK) return true;
      absl::SleepFor(kLockPeriod);
    }
    return false;
  }

 private:
  const std::string path_;
  Descriptor file_;
};

}  // namespace

std::optional<std::string> UnixSocketPath(std::string_view address) {
  if (!address.starts_with(kScheme)) return std::nullopt;
  return std::string(address.substr(kScheme.size()));
}

absl::StatusOr<UnixSocketFile> ListenOnUnixSocket(const std::string& path,
                                                  ListeningSockets* listening) {
  constexpr size_t kMostBytes = sizeof(sockaddr_un::sun_path) - 1 - kTemporary.size();
  if (path.empty() || path.size() > kMostBytes) {
    return CannotBind(path, absl::StrCat("a path has 1 to ", kMostBytes, " bytes"));
  }
  StartLock lock(path);
  if (!lock.Take()) return CannotBind(path, "another process keeps its lock file locked");
  if (!MayTake(path)) return CannotBind(path, std::strerror(errno));
  const std::string temporary =
      absl::StrCat(path, absl::string_view(kTemporary.data(), kTemporary.size()));
  if (IsLeftOver(temporary)) unlink(temporary.c_str());
  Descriptor opened = NewSocket();
  // bind gives the file the mode of the socket, less the umask.
  if (!opened.open() || fchmod(opened.number(), 0600) != 0 || !Bind(opened, AddressOf(temporary))) {
    return CannotBind(path, std::strerror(errno));
  }
  struct stat file {};
  if (listen(opened.number(), SOMAXCONN) != 0 || lstat(temporary.c_str(), &file) != 0 ||
      std::rename(temporary.c_str(), path.c_str()) != 0) {
    absl::Status failed = CannotBind(path, std::strerror(errno));
    unlink(temporary.c_str());
    return failed;
  }
  listening->sockets.push_back(std::move(opened));
  return UnixSocketFile{path, file.st_dev, file.st_ino};
}

void RemoveSocketFile(const UnixSocketFile& file) {
  struct stat present {};
  if (lstat(file.path.c_str(), &present) != 0) return;
  if (present.st_dev != file.device || present.st_ino != file.inode) return;
  unlink(file.path.c_str());
}

}  // namespace longstream
