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

// One writer (the engine thread) and one reader. Thread-safe. Its memory is bounded by the writer:
// a writer that finds more than its limit queued pauses until the reader has caught up.
class TurnStream {
 public:
  // An event names at most so many tokens, including those of `top`, whatever the size of steps and
  // of the queue: longer scores are split, and deltas that would become longer are not merged. If a
  // token's text has 240 bytes on average, the message is below 1 MiB, a quarter of a gRPC client's
  // default limit.
  static constexpr size_t kMaxNamedTokens = 4096;

  // --- Reader --------------------------------------------------------------------------------

  // `wake` runs when the first event comes, and when there is an item again after Next() gave
  // nothing. It runs without locks held, on the writer's thread or on the threads of its
  // ReaderWakes, there at the same time as wakes of other streams. Set it before the turn is
  // started. It must not block, nor push to a stream.
  void SetReader(std::function<void()> wake) ABSL_LOCKS_EXCLUDED(mutex_);

  // The next event in order; once every event has been popped, the end; or nothing for now, and
  // then `wake` will run. One call decides which, so that exactly one thread goes on: a reader that
  // got nothing must leave the stream alone until it is woken.
  using Item = std::variant<std::monostate, TurnEvent, TurnEnd>;
  Item Next() ABSL_LOCKS_EXCLUDED(mutex_);

  // The reader has passed on everything up to this session position.
  void Delivered(uint64_t position) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Writer --------------------------------------------------------------------------------

  // `drained` runs on the reader's thread when it has emptied a queue that Full() reported full.
  // Push and Finish add the reader to `wakes`, which is used by their thread and outlives its use
  // here; nullptr: they wake the reader at once.
  void SetWriter(size_t limit_bytes, std::function<void()> drained, ReaderWakes* wakes = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // A score without tokens is dropped.
  void Push(TurnEvent event) ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(TurnEnd end) ABSL_LOCKS_EXCLUDED(mutex_);

  // More than the limit waits; stays true until half of it is gone.
  bool Full() ABSL_LOCKS_EXCLUDED(mutex_);
  size_t queued_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The position of the last Delivered(); 0 before it.
  uint64_t delivered_position() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Enqueue(TurnEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The wake of a waiting reader, to be called without locks; empty if there is none to call.
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
