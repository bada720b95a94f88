// The queue between the engine, which never waits, and a reader that may be slow.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_TURN_STREAM_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_TURN_STREAM_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/engine/turn/reader_wakes.h"
#include "service/engine/turn/turn_events.h"

namespace longstream {

// For one writer (the engine thread) and one reader. Thread-safe. The writer bounds the memory of
// the queue: it pauses while more bytes than its limit are queued.
class TurnStream {
 public:
  // The limit of tokens that one event names, including the tokens in `top`. Push splits longer
  // scores, and does not merge deltas beyond the limit. If the text of a token has 240 bytes on
  // average, the message stays below 1 MiB, a quarter of the default limit of a gRPC client.
  static constexpr size_t kMaxNamedTokens = 4096;

  // --- Reader --------------------------------------------------------------------------------

  // `wake` is called when the first event arrives, and when an item arrives after Next() returned
  // nothing. It is called without locks held, on the writer's thread or on a thread of its
  // ReaderWakes, where other streams' functions may run at the same time. Set it before the turn is
  // started. It must not block or push to a stream.
  void SetReader(std::function<void()> wake) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the next event; after the last event, the end of the turn; or nothing if there is no
  // item yet, and then `wake` will be called. A reader that got nothing must not use the stream
  // until `wake` is called. So exactly one thread reads at any time.
  using Item = std::variant<std::monostate, TurnEvent, TurnEnd>;
  Item Next() ABSL_LOCKS_EXCLUDED(mutex_);

  // The reader calls this when it has passed on all tokens up to this position of the session.
  void Delivered(uint64_t position) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Writer --------------------------------------------------------------------------------

  // `drained` is called on the reader's thread when, after Full() was true, at most half of the
  // limit is still queued. Push and Finish add the reader to `wakes`, which only the writer's
  // thread uses and which must outlive the calls. If `wakes` is nullptr, Push and Finish wake the
  // reader at once.
  void SetWriter(size_t limit_bytes, std::function<void()> drained, ReaderWakes* wakes = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds an event. Drops a score without tokens.
  void Push(TurnEvent event) ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(TurnEnd end) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether more bytes than the limit are queued. Stays true until at most half of the limit is
  // queued.
  bool Full() ABSL_LOCKS_EXCLUDED(mutex_);
  size_t queued_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The position of the last Delivered(). 0 before the first call.
  uint64_t delivered_position() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Enqueue(TurnEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the function `wake` if a reader waits, otherwise an empty function. The caller must
  // call it without locks held.
  std::function<void()> TakeWake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::deque<TurnEvent> events_ ABSL_GUARDED_BY(mutex_);
  std::optional<TurnEnd> end_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t limit_bytes_ ABSL_GUARDED_BY(mutex_) = static_cast<size_t>(-1);
  uint64_t delivered_position_ ABSL_GUARDED_BY(mutex_) = 0;
  bool reader_waits_ ABSL_GUARDED_BY(mutex_) = true;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> drained_ ABSL_GUARDED_BY(mutex_);
  ReaderWakes* wakes_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_TURN_STREAM_H_
