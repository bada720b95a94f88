// The place of a turn in the batch, and its time slice.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_BATCH_PLACE_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_BATCH_PLACE_H_

#include <cstdint>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/policy/batch_places.h"

namespace longstream {

// Whether a turn holds a place, waits for one or needs none. The engine decides once in each round
// (Engine::GivePlaces). `since`: PlaceCandidate::since of the new state. Used by one thread.
class BatchPlace {
 public:
  bool held() const { return state_ == State::kHeld; }
  // Whether the turn has something to compute, and no place.
  bool awaited() const { return state_ == State::kAwaited; }

  // The turn has something to compute. If it holds no place, it waits for one.
  void Want(uint64_t since) {
    if (state_ == State::kNone) Change(State::kAwaited, since);
  }
  // The turn has nothing to compute at present.
  void Leave() { state_ = State::kNone; }

  void Take(uint64_t since) {
    Change(State::kHeld, since);
    is_new_ = false;
    first_step_ = MonotonicTime::InfiniteFuture();
  }
  // The slice is over, and another one begins.
  void Renew(uint64_t since) { Take(since); }
  // The slice is over, and another turn takes the place.
  void Yield(uint64_t since) { Change(State::kAwaited, since); }

  // The turn takes part in a step. The slice begins with the first step, so a turn does not lose
  // its place before the step has had room for it.
  void Step(MonotonicTime now) {
    if (first_step_ == MonotonicTime::InfiniteFuture()) first_step_ = now;
  }

  // REQUIRES: held() or awaited().
  PlaceCandidate Candidate(int32_t priority, MonotonicTime now, absl::Duration slice) const {
    return {.priority = priority,
            .holds_place = held(),
            .slice_is_over = held() && now - first_step_ >= slice,
            .is_new = is_new_,
            .since = since_};
  }

 private:
  enum class State { kNone, kAwaited, kHeld };

  void Change(State state, uint64_t since) {
    state_ = state;
    since_ = since;
  }

  State state_ = State::kNone;
  bool is_new_ = true;
  uint64_t since_ = 0;
  MonotonicTime first_step_ = MonotonicTime::InfiniteFuture();
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_BATCH_PLACE_H_
