// How long the calls between replicas may wait, and how many of them there may be.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_PEER_LIMITS_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_PEER_LIMITS_H_

#include <cstddef>

#include "absl/time/time.h"

namespace longstream {

// gRPC counts these times in milliseconds. A peer or a host that has vanished is noticed after
// their sum.
inline constexpr int kPeerPingEvery = 10'000;
inline constexpr int kPeerPingTimeout = 5'000;
// The most bytes that a stream holds until its receiver takes them.
inline constexpr int kPeerAheadBytes = 1 << 20;

// A call that has waited for one of these times ends, and frees all that it holds.
struct PeerLimits {
  // For the answer of a peer, or of this replica; for caches that were announced.
  absl::Duration answer_timeout = absl::Seconds(10);
  // For the next piece of caches, until it has come, was taken, or was written.
  absl::Duration piece_timeout = absl::Seconds(10);
  // For the first message of an Offer, until it was sent.
  absl::Duration connect_timeout = absl::Seconds(2);
  // For the answer to an Offer, from the last piece on.
  absl::Duration taking_timeout = absl::Seconds(30);
  // For the first message of a relayed turn.
  absl::Duration attach_timeout = absl::Minutes(1);
  absl::Duration notice_timeout = absl::Seconds(5);
  // For the end of a turn that is cancelled.
  absl::Duration cancel_timeout = absl::Minutes(1);
  // For a whole Fetch or Offer, whatever happens in it.
  absl::Duration call_timeout = absl::Minutes(10);

  size_t max_own_calls = 128;       // Fetch and Offer of this replica
  size_t max_calls_of_peers = 128;  // of all peers; as many may not have said yet whose they are
  size_t max_calls_of_peer = 64;    // of one of them
  size_t max_notices = 1024;
  size_t max_relays = 1024;   // in each direction
  size_t max_cancels = 1024;  // the same

  size_t piece_bytes = size_t{256}
                       << 10;  // of the pieces that are sent; each call holds up to three
  int cache_threads = 4;       // they read and write the pieces of all calls
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_PEER_LIMITS_H_
