// Cuts the caches of a session into the pieces that a call sends.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_CACHES_PIECE_SOURCE_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_CACHES_PIECE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "longstream/peer/v1/peer.pb.h"
#include "service/fleet/session_copies.h"
#include "service/server/peer/caches/cache_threads.h"

namespace longstream {

// Reads one piece ahead, so that a piece is read while the call sends the one before it.
// Thread-safe.
class PieceSource final : public std::enable_shared_from_this<PieceSource> {
 public:
  // `threads` outlives the object.
  PieceSource(CacheThreads* threads, std::shared_ptr<fleet::CacheReader> reader, size_t piece_bytes)
      : threads_(threads), piece_bytes_(piece_bytes), reader_(std::move(reader)) {}

  // The next piece: the header, then data, then the end. If it was read ahead, returns it.
  // Otherwise calls `ready` with it on one of the threads. Does not block. Not called again before
  // the piece was given, after the end, or after an error.
  using Piece = absl::StatusOr<peer::v1::CachePiece>;
  using Ready = std::function<void(Piece piece)>;
  std::optional<Piece> Next(Ready ready) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void ReadAhead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HasRead(Piece piece) ABSL_LOCKS_EXCLUDED(mutex_);
  Piece Read();

  CacheThreads* const threads_;
  const size_t piece_bytes_;
  // Only the thread that reads uses these.
  std::shared_ptr<fleet::CacheReader> reader_;
  bool begun_ = false;
  uint64_t bytes_ = 0;  // of the data

  absl::Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  Ready ready_ ABSL_GUARDED_BY(mutex_);  // waits for the piece that is being read
  std::optional<Piece> ahead_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_CACHES_PIECE_SOURCE_H_
