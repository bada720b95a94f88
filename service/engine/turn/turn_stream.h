// The queue between the engine, which never waits, and a reader that may be slow.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_TURN_STREAM_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_TURN_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/engine/turn/answer.h"
#include "service/engine/turn/reader_wakes.h"
#include "service/engine/turn/turn_events.h"

namespace longstream {

// For one writer (the engine thread) and one reader. Thread-safe. The writer bounds the memory of
// the queue: it pauses while more bytes than its limit are queued.
//
// A stream that keeps the answer (KeepAnswer) can have one reader after the other: a reader may
// leave, and another one may attach and begin anywhere in the answer. Without a reader the stream
// queues nothing and is never full.
class TurnStream {
 public:
  // Names a reader. A stream has had the reader kFirstReader from the beginning.
  using Reader = uint64_t;
  static constexpr Reader kFirstReader = 1;

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

  // How far a reader has got with the answer before it attaches.
  struct Place {
    uint64_t position = 0;             // of the last delta that it has; 0: none
    std::vector<int32_t> tokens = {};  // all tokens that it has
  };
  // FAILED_PRECONDITION: the position of the place does not fit its tokens, for a turn that begins
  // at `start` with so many tokens of prompt.
  static absl::Status CheckPosition(const Place& place, uint64_t start, uint64_t prompt_tokens);
  // Makes the caller the reader; it gets the start of the turn and the deltas behind `place`, and
  // should call Next at once. The reader before it gets a TurnEnd with ABORTED.
  // FAILED_PRECONDITION: `place` does not fit the answer, or the stream keeps none. The stream is
  // unchanged then.
  absl::StatusOr<Reader> Attach(const Place& place, std::function<void()> wake)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The reader leaves the turn. It still gets a TurnEnd, with ABORTED. Returns false, and does
  // nothing, if it was not the reader any more.
  bool Leave(Reader reader) ABSL_LOCKS_EXCLUDED(mutex_);
  // The stream does not call the reader's `wake` any more. For a reader that has got the TurnEnd.
  void Forget(Reader reader) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the next event; after the last event, the end of the turn; or nothing if there is no
  // item yet, and then `wake` will be called. A reader that got nothing must not use the stream
  // until `wake` is called. So exactly one thread reads at any time.
  using Item = std::variant<std::monostate, TurnEvent, TurnEnd>;
  Item Next(Reader reader = kFirstReader) ABSL_LOCKS_EXCLUDED(mutex_);

  // The reader calls this when it has passed on all tokens up to this position of the session.
  void Delivered(uint64_t position) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Before the turn starts -----------------------------------------------------------------

  // Keeps the answer for later readers.
  void KeepAnswer() ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes a stream for later readers of a turn that has ended. It has no reader yet.
  void Replay(std::shared_ptr<const Answer> answer, TurnEnd end) ABSL_LOCKS_EXCLUDED(mutex_);

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

  // Between the two calls the reader gets no event: they must not leave the server yet. A Finish in
  // between drops them. Release may be called on any thread.
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

  // The reader gets a TurnEnd with this status, and leaves the turn, which goes on without it. Does
  // nothing if there is no reader.
  void Dismiss(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);

  // The answer. It changes until Finish is called. nullptr: the stream does not keep it.
  std::shared_ptr<const Answer> answer() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether more bytes than the limit are queued. Stays true until at most half of the limit is
  // queued.
  bool Full() ABSL_LOCKS_EXCLUDED(mutex_);
  size_t queued_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The position of the last Delivered(). 0 before the first call.
  uint64_t delivered_position() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Enqueue(TurnEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds the event to the answer, and queues it if the reader does not have it yet.
  void Keep(TurnEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckPlace(const Place& place) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void QueueBehind(const Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The callbacks of a reader that was dropped, and of the writer. Call Tell without locks held.
  struct Dropped {
    std::function<void()> wake;
    bool waits = false;  // for `wake`
    std::function<void()> drained;
    void Tell() const;
  };
  // The stream has no reader any more. Empties the queue.
  Dropped DropReader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the function `wake` if a reader waits, otherwise an empty function. The caller must
  // call it without locks held.
  std::function<void()> TakeWake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::deque<TurnEvent> events_ ABSL_GUARDED_BY(mutex_);
  std::optional<TurnEnd> end_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t limit_bytes_ ABSL_GUARDED_BY(mutex_) = static_cast<size_t>(-1);
  uint64_t delivered_position_ ABSL_GUARDED_BY(mutex_) = 0;
  Reader reader_ ABSL_GUARDED_BY(mutex_) = kFirstReader;  // 0: there is none
  Reader last_reader_ ABSL_GUARDED_BY(mutex_) = kFirstReader;
  Reader dismissed_ ABSL_GUARDED_BY(mutex_) = 0;  // the last one, which gets this status:
  absl::Status dismissal_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Answer> growing_ ABSL_GUARDED_BY(mutex_);       // nullptr: has ended, or not kept
  std::shared_ptr<const Answer> answer_ ABSL_GUARDED_BY(mutex_);  // nullptr: not kept
  std::optional<PrefillEvent> prefill_ ABSL_GUARDED_BY(mutex_);   // the last one
  // Tokens that the reader has and that the answer does not have yet, and their index in the
  // answer.
  std::vector<int32_t> awaited_ ABSL_GUARDED_BY(mutex_);
  size_t awaited_begin_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status mismatch_ ABSL_GUARDED_BY(mutex_);  // one of them differs
  bool reader_waits_ ABSL_GUARDED_BY(mutex_) = true;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> drained_ ABSL_GUARDED_BY(mutex_);
  ReaderWakes* wakes_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_TURN_STREAM_H_
