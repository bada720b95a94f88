// Deadlines of first requests, and the safe way to end a connection of gRPC.
#include "service/connections/first_requests.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>

#include <charconv>
#include <cstddef>
#include <iterator>

#include "service/connections/descriptor.h"
#include "service/connections/handed_over.h"

namespace longstream {
namespace {

uint16_t PortOf(const sockaddr_storage& address) {
  // The port is at the same place for IPv4 and IPv6.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

uint16_t PortOf(std::string_view peer) {
  uint16_t port = 0;
  const size_t colon = peer.rfind(':');
  if (colon == std::string_view::npos) return port;
  std::from_chars(peer.data() + colon + 1, peer.data() + peer.size(), port);
  return port;
}

// The number of bytes that the client has sent on this connection. The largest number if the kernel
// does not tell.
uint64_t BytesReceived(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  constexpr socklen_t kNeeded = offsetof(tcp_info, tcpi_bytes_received) + sizeof(uint64_t);
  const bool known = getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  return known && size >= kNeeded ? info.tcpi_bytes_received : UINT64_MAX;
}

}  // namespace

// gRPC may close the descriptor at any moment, and another thread may get the same number for
// something else. So this looks at a duplicate, which stays what it is.
bool FirstRequests::EndWithoutRequest(const Connection& connection) const {
  const Descriptor socket(fcntl(connection.descriptor, F_DUPFD_CLOEXEC, 0));
  if (!socket.open() || connection.identity == 0 ||
      SocketIdentity(socket.number()) != connection.identity) {
    return false;
  }
  if (BytesReceived(socket.number()) >= bytes_of_a_request_) return false;
  return shutdown(socket.number(), SHUT_RDWR) == 0;
}

void FirstRequests::Expect(int descriptor, const sockaddr_storage& peer) {
  const Connection connection{descriptor, SocketIdentity(descriptor), PortOf(peer),
                              MonotonicTime::Now() + timeout_};
  absl::MutexLock lock(&mutex_);
  const auto ended = by_descriptor_.find(descriptor);
  if (ended != by_descriptor_.end()) Forget(ended->second);
  const Place place = expected_.insert(expected_.end(), connection);
  by_descriptor_[descriptor] = place;
  by_port_.emplace(connection.peer_port, place);
}

void FirstRequests::CallFrom(std::string_view peer) {
  const uint16_t port = PortOf(peer);
  absl::MutexLock lock(&mutex_);
  for (auto found = by_port_.find(port); found != by_port_.end(); found = by_port_.find(port)) {
    Forget(found->second);
  }
}

size_t FirstRequests::EndOverdue(MonotonicTime now) {
  size_t num_ended = 0;
  absl::MutexLock lock(&mutex_);
  while (!expected_.empty() && expected_.front().deadline <= now) {
    if (EndWithoutRequest(expected_.front())) ++num_ended;
    Forget(expected_.begin());
  }
  return num_ended;
}

MonotonicTime FirstRequests::next_deadline() const {
  absl::MutexLock lock(&mutex_);
  return expected_.empty() ? MonotonicTime::InfiniteFuture() : expected_.front().deadline;
}

void FirstRequests::Forget(Place connection) {
  by_descriptor_.erase(connection->descriptor);
  auto [found, end] = by_port_.equal_range(connection->peer_port);
  while (found != end && found->second != connection) ++found;
  if (found != end) by_port_.erase(found);
  expected_.erase(connection);
}

}  // namespace longstream
