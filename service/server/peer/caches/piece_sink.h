// Puts the pieces that a call receives into the memory of a session.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_CACHES_PIECE_SINK_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_CACHES_PIECE_SINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "longstream/peer/v1/peer.pb.h"
#include "service/fleet/peers.h"
#include "service/server/peer/caches/cache_threads.h"

namespace longstream {

// Thread-safe. No function blocks or calls back.
class PieceSink final : public std::enable_shared_from_this<PieceSink> {
 public:
  using Arrived = std::function<void(const absl::Status&)>;

  // `threads` outlives the object. `arrived` is called once: with OK when the end has come and
  // CacheWriter::Finish has returned OK, or with an error.
  PieceSink(CacheThreads* threads, fleet::Peers::BeginCaches begin, Arrived arrived)
      : threads_(threads), begin_(std::move(begin)), arrived_(std::move(arrived)) {}

  enum class Taken {
    kMore,      // the next piece may come
    kComplete,  // all pieces have come and were written
    kFailed,    // no piece is of use any more
  };
  // Takes a piece. Calls `then` when it was taken, on another thread. Not called again before that.
  void Take(peer::v1::CachePiece piece, std::function<void(Taken)> then)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // No piece will come any more. Does nothing if the end has come.
  void Fail(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Writer = std::shared_ptr<fleet::CacheWriter>;

  void TakeHeader(const std::string& header, std::function<void(Taken)> then);
  void SetWriter(absl::StatusOr<Writer> writer, const std::function<void(Taken)>& then)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Write(Writer writer, const std::string& data, const std::function<void(Taken)>& then)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(Writer writer, const std::function<void(Taken)>& then) ABSL_LOCKS_EXCLUDED(mutex_);
  bool ended() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return ended_;
  }

  CacheThreads* const threads_;
  mutable absl::Mutex mutex_;
  fleet::Peers::BeginCaches begin_ ABSL_GUARDED_BY(mutex_);  // empty: the header has come
  Arrived arrived_ ABSL_GUARDED_BY(mutex_);
  Writer writer_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // arrived_ was called, or will be
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_CACHES_PIECE_SINK_H_
