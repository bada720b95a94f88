// Opens the sockets that a port of the server listens on.
#ifndef LONGSTREAM_SERVICE_CONNECTIONS_LISTENING_SOCKETS_H_
#define LONGSTREAM_SERVICE_CONNECTIONS_LISTENING_SOCKETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/connections/descriptor.h"

namespace longstream {

struct ListeningSockets {
  std::vector<Descriptor> sockets;  // at least one; they do not block
  int port = 0;                     // the same for all sockets
};

// Listens on `address`, host:port. The host is a name, an IPv4 address or an IPv6 address in
// brackets. 0.0.0.0 and [::] both mean every address of the machine, IPv4 and IPv6. Port 0 takes
// any free port. If a name has several addresses, one address that can be bound is enough.
//
// Accepted connections inherit two options: they send small messages at once (TCP_NODELAY), and the
// kernel closes them if the peer does not acknowledge data for `acknowledgement_timeout`
// (TCP_USER_TIMEOUT; 0: the kernel's default).
//
// UNAVAILABLE: no address can be bound. The message names the address and the reason.
absl::StatusOr<ListeningSockets> Listen(const std::string& address,
                                        absl::Duration acknowledgement_timeout);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONNECTIONS_LISTENING_SOCKETS_H_
