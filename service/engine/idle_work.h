// Work on a model for which no client waits.
#ifndef LONGSTREAM_SERVICE_ENGINE_IDLE_WORK_H_
#define LONGSTREAM_SERVICE_ENGINE_IDLE_WORK_H_

#include "service/models/backend_model.h"

namespace longstream {

// The engine calls and destroys the object on its thread. It runs only while the engine has no turn
// at all and no other engine has live work, one piece at a time; a turn that arrives waits for one
// piece at most. Turns in the background of all engines wait until it has ended or live work
// begins.
class IdleWork {
 public:
  IdleWork() = default;
  virtual ~IdleWork() = default;  // gives back all memory of the model; it may be closed after it
  IdleWork(const IdleWork&) = delete;
  IdleWork& operator=(const IdleWork&) = delete;

  // Runs the next piece: a step of the model, or less. False: the work is done. REQUIRES: no step
  // is in flight when it begins and when it ends.
  virtual bool Run(BackendModel& model) = 0;
  // Live work of any engine has begun during the latest piece, so its time says nothing.
  virtual void Disturb() = 0;
  // A turn or a session needs the model. Gives back all memory of the model. Run may be called
  // again later.
  virtual void Yield() = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_IDLE_WORK_H_
