// The connections that gRPC has got and on which no request has begun yet, and the time that they
// have left.
#ifndef LONGSTREAM_SERVICE_CONNECTIONS_FIRST_REQUESTS_H_
#define LONGSTREAM_SERVICE_CONNECTIONS_FIRST_REQUESTS_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string_view>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"

namespace longstream {

// A request has begun when gRPC reports a call, or when so many bytes have arrived on the
// connection: gRPC does not report a call before its first message is complete, and a large message
// may take longer than the time limit.
//
// gRPC only tells the address of a call's peer, as text. So a call counts for all connections whose
// peers have the same port. If another client happens to have this port, its connection is no
// longer limited here, and falls under the idle timeout.
//
// Thread-safe.
class FirstRequests {
 public:
  // Without a request, a client sends less: the preface, SETTINGS and a few pings.
  static constexpr uint64_t kBytesOfARequest = 1024;
  // With TLS it also sends its part of the handshake, with the chain of its certificate.
  static constexpr uint64_t kBytesOfARequestOverTls = 32 << 10;

  explicit FirstRequests(absl::Duration timeout, uint64_t bytes_of_a_request = kBytesOfARequest)
      : timeout_(timeout), bytes_of_a_request_(bytes_of_a_request) {}

  // Begins to measure the time of a connection. Call it before gRPC gets the descriptor.
  void Expect(int descriptor, const sockaddr_storage& peer) ABSL_LOCKS_EXCLUDED(mutex_);

  // A call has arrived. `peer` is an address whose port comes after the last colon.
  void CallFrom(std::string_view peer) ABSL_LOCKS_EXCLUDED(mutex_);

  // Shuts down the sockets of the connections whose time is over, so that gRPC closes them. Returns
  // how many there were.
  size_t EndOverdue(MonotonicTime now) ABSL_LOCKS_EXCLUDED(mutex_);

  // The moment at which EndOverdue has something to do.
  MonotonicTime next_deadline() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Connection {
    int descriptor;
    uint64_t identity;
    uint16_t peer_port;
    MonotonicTime deadline;
  };
  using Place = std::list<Connection>::iterator;

  // Ends the connection if the descriptor still belongs to it and no request has begun.
  bool EndWithoutRequest(const Connection& connection) const;
  void Forget(Place connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration timeout_;
  const uint64_t bytes_of_a_request_;
  mutable absl::Mutex mutex_;
  // In the order of their deadlines. A connection that has ended stays here until its deadline, or
  // until another one gets its descriptor.
  std::list<Connection> expected_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<int, Place> by_descriptor_ ABSL_GUARDED_BY(mutex_);
  std::multimap<uint16_t, Place> by_port_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONNECTIONS_FIRST_REQUESTS_H_
