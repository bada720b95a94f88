// Listens on a Unix socket, which only this user can open.
#ifndef LONGSTREAM_SERVICE_CONNECTIONS_UNIX_SOCKET_H_
#define LONGSTREAM_SERVICE_CONNECTIONS_UNIX_SOCKET_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "service/connections/listening_sockets.h"

namespace longstream {

// The path in "unix:PATH". Absent: the address is no Unix socket.
std::optional<std::string> UnixSocketPath(std::string_view address);

// Listens on a new socket file with the mode 0600, whatever the umask is. Replaces a socket file on
// which no process listens any more. UNAVAILABLE: a process listens there, another file has the
// name, the path is longer than the system allows, or the file cannot be made.
absl::StatusOr<ListeningSockets> ListenOnUnixSocket(const std::string& path);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONNECTIONS_UNIX_SOCKET_H_
