// The connections that now belong to another part of the program, which closes them and does not
// report it.
#ifndef LONGSTREAM_SERVICE_CONNECTIONS_HANDED_OVER_H_
#define LONGSTREAM_SERVICE_CONNECTIONS_HANDED_OVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

namespace longstream {

// Returns a number that the kernel gives to no other socket, or 0 if the descriptor is closed or is
// no socket. Any thread may close or reuse the descriptor meanwhile.
uint64_t SocketIdentity(int descriptor);

// Keeps the number of each descriptor together with the identity of its socket. A connection has
// ended when its descriptor is closed, or belongs to another file. Not thread-safe.
//
// Nothing else is kept of a connection, for these reasons. A duplicate of the descriptor would take
// a second descriptor per connection. It would also keep the socket in gRPC's epoll set after gRPC
// has closed its own descriptor, and gRPC would get events for an object that it has reused.
class HandedOver {
 public:
  using OnEnded = std::function<void(const std::string& peer)>;

  // Call it before the new owner gets the descriptor. `peer` is given to OnEnded later.
  void Add(int descriptor, std::string peer, const OnEnded& on_ended);
  // Forgets the connections that have ended. It takes about half a microsecond per connection.
  void RemoveEnded(const OnEnded& on_ended);
  size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    uint64_t identity;
    std::string peer;
  };

  std::unordered_map<int, Connection> connections_;  // by descriptor
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONNECTIONS_HANDED_OVER_H_
