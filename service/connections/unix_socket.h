// Listens on a Unix socket, which only this user can open.
#ifndef LONGSTREAM_SERVICE_CONNECTIONS_UNIX_SOCKET_H_
#define LONGSTREAM_SERVICE_CONNECTIONS_UNIX_SOCKET_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "service/connections/listening_sockets.h"

namespace longstream {

// The path in "unix:PATH". Absent: the address is no Unix socket.
std::optional<std::string> UnixSocketPath(std::string_view address);

// A socket file that this process has made.
struct UnixSocketFile {
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
};

// Adds a socket that listens on a new file with the mode 0600, whatever the umask is. Replaces a
// socket file on which no process listens any more. The file appears under its name when it can be
// used. Of several processes of one user that do this at the same time, only one succeeds, if the
// file system has locks (a file PATH.lock is there meanwhile). UNAVAILABLE: a process listens
// there, another file has the name, the path is longer than the system allows, or the file cannot
// be made.
absl::StatusOr<UnixSocketFile> ListenOnUnixSocket(const std::string& path,
                                                  ListeningSockets* listening);

// Removes the file, unless another one has its name now. Call this while its socket still listens:
// then no other process takes the name meanwhile.
void RemoveSocketFile(const UnixSocketFile& file);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONNECTIONS_UNIX_SOCKET_H_
