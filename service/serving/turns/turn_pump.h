// Passes the events of a turn's stream to its call.
#ifndef LONGSTREAM_SERVICE_SERVING_TURNS_TURN_PUMP_H_
#define LONGSTREAM_SERVICE_SERVING_TURNS_TURN_PUMP_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/engine/turn/turn_events.h"
#include "service/serving/turns/turn_handle.h"

namespace longstream {

// Passes the events of one turn to a sink, one at a time. The next event follows when the sink has
// written the message of the previous one. A call may have several pumps; then their sinks write in
// turn.
//
// At any moment, either the sink will call Written, or the stream of the turn will wake the pump.
// So the sink gets one event at a time, on changing threads, and needs no lock.
class TurnPump {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    // Returns true if a message for the event is being written; Written will then be called.
    // Returns false if the event needs no message.
    virtual bool OnEvent(const TurnEvent& event) = 0;
    // The turn has ended. This is the last call.
    virtual void OnEnd(const TurnEnd& end) = 0;
  };

  explicit TurnPump(Sink* sink) : sink_(sink) {}
  TurnPump(const TurnPump&) = delete;
  TurnPump& operator=(const TurnPump&) = delete;

  // Starts the turn, whose lease must have been taken. `owner` keeps the pump and the sink alive
  // until the turn has ended. On an error the turn was refused, and the sink is not called. Call
  // Start or Attach once. The sink gets the deltas behind the request's forced tokens.
  absl::Status Start(NewTurn turn, TurnRequest request, std::shared_ptr<void> owner);

  // Reads a turn that runs already, or the answer of one that has ended, behind `place`. Errors as
  // for TurnStream::Attach. The sink may be called before the function returns. Otherwise as Start.
  absl::Status Attach(TurnHandle turn, const TurnStream::Place& place, std::shared_ptr<void> owner);

  // The message of the last event was written. If `ok` is false, it could not be written, and the
  // turn is cancelled.
  void Written(bool ok);

  // Ends the turn with `reason`; leaves a turn that outlives its reader. May be called at any time
  // and from any thread. Before Start, it takes effect in Start.
  void Cancel(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether Start has made the handle of the turn. Threads other than the caller of Start may use
  // turn() only if this is true.
  bool started() const { return started_.load(); }
  TurnHandle& turn() { return turn_; }
  const TurnHandle& turn() const { return turn_; }

 private:
  void Pump();
  // The handle is set: takes the place of a Cancel that came before it.
  void SetStarted() ABSL_LOCKS_EXCLUDED(mutex_);
  void CancelTurn(const absl::Status& reason);

  Sink* const sink_;
  TurnHandle turn_;  // set once, before started_ becomes true
  std::atomic<bool> started_{false};
  uint64_t position_ = 0;  // the position after the latest delta

  absl::Mutex mutex_;
  absl::Status cancel_reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_TURNS_TURN_PUMP_H_
