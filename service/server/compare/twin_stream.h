// Writes the messages of a turn, and those of its twin in between, to one call.
#ifndef LONGSTREAM_SERVICE_SERVER_COMPARE_TWIN_STREAM_H_
#define LONGSTREAM_SERVICE_SERVER_COMPARE_TWIN_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "longstream/v1/longstream.pb.h"
#include "service/server/compare/live_twin.h"

namespace longstream {

// One message is in flight at a time. The turn and the twin write in turn if both have a message. A
// row never comes before the first message of the turn, or before the delta with its token.
// Thread-safe; the functions for the turn are called one at a time.
class TwinStream {
 public:
  // The call. Outlives the stream.
  class Writer {
   public:
    virtual ~Writer() = default;
    // Writes a message that stays as it is until Written is called.
    virtual void Write(const v1::GenerateResponse* message) = 0;
    // Writes the last message, or none, and ends the call. Nothing follows.
    virtual void WriteEnd() = 0;
  };

  // `known_tokens`: of the answer, which the client has before the call.
  TwinStream(std::shared_ptr<LiveTwin> twin, uint64_t known_tokens, Writer* writer)
      : twin_(std::move(twin)), writer_(writer), told_tokens_(known_tokens) {}

  // The turn has this message, with so many tokens.
  void Write(const v1::GenerateResponse* message, uint64_t tokens) ABSL_LOCKS_EXCLUDED(mutex_);
  // The turn has ended. The call ends when the twin is done, at once if the twin was dropped.
  void End() ABSL_LOCKS_EXCLUDED(mutex_);

  // The message in flight was written. Returns true if it was that of the turn.
  bool Written() ABSL_LOCKS_EXCLUDED(mutex_);
  // The twin may have rows, or may be done.
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class Source { kTurn, kTwin };

  // Whether the source may write now. False: it will when the message in flight was written.
  bool Begin(Source source) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing is in flight any more, except what the source that is returned writes now.
  std::optional<Source> Next() ABSL_LOCKS_EXCLUDED(mutex_);
  void Go(Source source);
  void WriteRows();
  // Ends the call if the turn has ended and the twin is done.
  void TryToEnd() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<LiveTwin> twin_;
  Writer* const writer_;
  const v1::GenerateResponse* message_ = nullptr;  // of the turn; nullptr: its end
  v1::GenerateResponse rows_;                      // the message of the twin

  absl::Mutex mutex_;
  std::optional<Source> in_flight_ ABSL_GUARDED_BY(mutex_);
  bool turn_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool twin_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;       // the turn has
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;            // the call does
  uint64_t told_tokens_ ABSL_GUARDED_BY(mutex_);         // in the messages of the turn
  uint64_t written_tokens_ ABSL_GUARDED_BY(mutex_) = 0;  // in those that were written
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_COMPARE_TWIN_STREAM_H_
