// Asks the kernel whether descriptors still belong to the sockets that were handed over.
#include "service/connections/handed_over.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace longstream {

uint64_t SocketIdentity(int descriptor) {
  // The kernel counts sockets in 64 bits and never reuses a number.
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0) return cookie;
  if (errno == EBADF || errno == ENOTSOCK) return 0;
  // Some sandboxes do not have SO_COOKIE. Numbers of inodes are not reused while a socket is open.
  struct stat status {};
  const bool is_socket = fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
  return is_socket ? status.st_ino : 0;
}

void HandedOver::Add(int descriptor, std::string peer, const OnEnded& on_ended) {
  const auto [place, added] = connections_.try_emplace(descriptor);
  // The kernel has reused the descriptor, so the connection before has ended.
  if (!added) on_ended(place->second.peer);
  place->second = {SocketIdentity(descriptor), std::move(peer)};
}

void HandedOver::RemoveEnded(const OnEnded& on_ended) {
  for (auto one = connections_.begin(); one != connections_.end();) {
    const uint64_t identity = SocketIdentity(one->first);
    if (identity != 0 && identity == one->second.identity) {
      ++one;
      continue;
    }
    on_ended(one->second.peer);
    one = connections_.erase(one);
  }
}

}  // namespace longstream
