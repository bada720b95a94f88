// Cuts the caches of a session into the pieces that a call sends.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_CACHES_PIECE_SOURCE_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_CACHES_PIECE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "longstream/peer/v1/peer.pb.h"
#include "service/fleet/session_copies.h"
#include "service/server/peer/caches/cache_threads.h"

namespace longstream {

// One thread at a time.
class PieceSource final : public std::enable_shared_from_this<PieceSource> {
 public:
  // `threads` outlives the object.
  PieceSource(CacheThreads* threads, std::shared_ptr<fleet::CacheReader> reader, size_t piece_bytes)
      : threads_(threads), reader_(std::move(reader)), piece_bytes_(piece_bytes) {}

  // Reads the next piece on one of the threads, and calls `ready` there: the header, then data,
  // then the end. Not called again before `ready` was called, after the end, or after an error.
  using Ready = std::function<void(absl::StatusOr<peer::v1::CachePiece> piece)>;
  void Next(Ready ready);

 private:
  absl::StatusOr<peer::v1::CachePiece> Read();

  CacheThreads* const threads_;
  std::shared_ptr<fleet::CacheReader> reader_;
  const size_t piece_bytes_;
  bool begun_ = false;
  uint64_t bytes_ = 0;  // of the data
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_CACHES_PIECE_SOURCE_H_
