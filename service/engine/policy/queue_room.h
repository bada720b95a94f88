// How many turns of an engine wait, and whether another one may.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_QUEUE_ROOM_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_QUEUE_ROOM_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace longstream {

// Counts the turns that wait, by tenant. Any thread may enter a turn; the engine thread tells what
// becomes of it. A turn leaves the counts before its caller learns of its end, so that a caller who
// has learned of it finds the room. Thread-safe.
class QueueRoom {
 public:
  enum class State {
    kWaits,   // in the queue
    kParked,  // admitted, waits for a place in the batch
    kPlaced,  // holds a place
    kLeft,    // needs none now, or has ended
  };

  // The part of one turn in the counts. Must not outlive the QueueRoom. Not thread-safe: the owner
  // of the turn uses it.
  class Slot {
   public:
    Slot(QueueRoom* room, size_t tenant) : room_(room), tenant_(tenant) {}
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() { Leave(); }

    State state() const { return state_; }
    // The turn has ended. Later calls change nothing. If it held a place, the next turn finds that
    // place.
    void Leave();
    // The turn waits in the queue again. No bound is checked, because the turn was admitted before.
    void WaitAgain();

   private:
    friend class QueueRoom;
    QueueRoom* const room_;
    const size_t tenant_;
    State state_ = State::kWaits;
  };

  struct Change {
    Slot* slot = nullptr;
    State state = State::kLeft;
  };

  // `most`: turns that may wait. `free`: further turns that could begin at once. `parts`: turns of
  // each tenant that may wait however many turns of others do; 0: only `most` counts.
  QueueRoom(size_t most, size_t free, std::vector<size_t> parts);

  // The slot of another turn, which waits. nullptr: the queue is full.
  std::unique_ptr<Slot> TryEnter(size_t tenant) ABSL_LOCKS_EXCLUDED(mutex_);

  // The engine has given its places: `free` turns could begin at once, and the turns of `changes`
  // have new states.
  void Publish(size_t free, std::span<const Change> changes) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Set(Slot& slot, State state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_;
  const std::vector<size_t> parts_;

  absl::Mutex mutex_;
  size_t free_ ABSL_GUARDED_BY(mutex_);
  size_t num_queued_ ABSL_GUARDED_BY(mutex_) = 0;          // turns that wait or are parked
  std::vector<size_t> queued_of_ ABSL_GUARDED_BY(mutex_);  // by tenant
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_QUEUE_ROOM_H_
