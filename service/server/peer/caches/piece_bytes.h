// The size of a piece of caches.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_CACHES_PIECE_BYTES_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_CACHES_PIECE_BYTES_H_

#include <cstddef>

namespace longstream {

// The most that a peer may send in a piece.
inline constexpr size_t kMaxPieceBytes = size_t{1} << 20;

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_CACHES_PIECE_BYTES_H_
