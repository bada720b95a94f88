// Binds a Unix socket.
#include "service/connections/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

constexpr std::string_view kScheme = "unix:";

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

// Whether the file is a socket on which no process listens.
bool IsLeftOver(const std::string& path, const sockaddr_un& address) {
  struct stat file {};
  if (lstat(path.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode)) return false;
  const Descriptor probe = NewSocket();
  const int connected =
      connect(probe.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  return connected != 0 && errno == ECONNREFUSED;
}

}  // namespace

std::optional<std::string> UnixSocketPath(std::string_view address) {
  if (!address.starts_with(kScheme)) return std::nullopt;
  return std::string(address.substr(kScheme.size()));
}

absl::StatusOr<ListeningSockets> ListenOnUnixSocket(const std::string& path) {
  constexpr size_t kMostBytes = sizeof(sockaddr_un::sun_path) - 1;
  if (path.empty() || path.size() > kMostBytes) {
    return CannotBind(path, absl::StrCat("a path has 1 to ", kMostBytes, " bytes"));
  }
  const sockaddr_un address = AddressOf(path);
  Descriptor opened = NewSocket();
  // bind gives the file the mode of the socket, less the umask.
  if (!opened.open() || fchmod(opened.number(), 0600) != 0) {
    return CannotBind(path, std::strerror(errno));
  }
  bool bound = Bind(opened, address);
  if (!bound && errno == EADDRINUSE) {
    if (!IsLeftOver(path, address)) return CannotBind(path, std::strerror(EADDRINUSE));
    unlink(path.c_str());
    bound = Bind(opened, address);
  }
  if (!bound || listen(opened.number(), SOMAXCONN) != 0) {
    return CannotBind(path, std::strerror(errno));
  }
  ListeningSockets listening;
  listening.sockets.push_back(std::move(opened));
  return listening;
}

}  // namespace longstream
