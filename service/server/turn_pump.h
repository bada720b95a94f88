// Passes the events of a turn's stream to its call.
#ifndef LONGSTREAM_SERVICE_SERVER_TURN_PUMP_H_
#define LONGSTREAM_SERVICE_SERVER_TURN_PUMP_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/engine/turn/turn_events.h"
#include "service/serving/turn_handle.h"

namespace longstream {

// Passes the events of one turn to a sink, one at a time: the next event follows when the sink has
// written the message of the last one. A call may have several pumps, whose sinks take turns to
// write.
//
// At any moment either the sink calls Written next, or the turn's stream wakes the pump when it has
// more. So events come one after the other, on changing threads, and the sink needs no lock.
class TurnPump {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    // True: the event's message is being written, and Written will be called. False: the event
    // needs no message.
    virtual bool OnEvent(const TurnEvent& event) = 0;
    // The turn has ended. Nothing comes after it.
    virtual void OnEnd(const TurnEnd& end) = 0;
  };

  explicit TurnPump(Sink* sink) : sink_(sink) {}
  TurnPump(const TurnPump&) = delete;
  TurnPump& operator=(const TurnPump&) = delete;

  // Starts the turn, whose lease was taken. `owner` keeps the pump and the sink alive until the
  // turn has ended. Not OK: the turn was refused, and the sink hears nothing. Called once.
  absl::Status Start(NewTurn turn, TurnRequest request, std::shared_ptr<void> owner);

  // The message of the last event was written. Not `ok`: it could not be, and the turn is
  // cancelled.
  void Written(bool ok);

  // Ends the turn with `reason`, at any time and from any thread: before Start it takes effect
  // there.
  void Cancel(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether Start has made the turn's handle. Start's caller knows; another thread may use the
  // handle only if this is true.
  bool started() const { return started_.load(); }
  TurnHandle& turn() { return turn_; }
  const TurnHandle& turn() const { return turn_; }

 private:
  void Pump();

  Sink* const sink_;
  TurnHandle turn_;  // set once, before started_
  std::atomic<bool> started_{false};
  uint64_t position_ = 0;  // that the delta being written reaches

  absl::Mutex mutex_;
  absl::Status cancel_reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TURN_PUMP_H_
