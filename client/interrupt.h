// Ctrl-C and the like: what runs is stopped and what was opened is closed before the program ends.
#ifndef LONGSTREAM_CLIENT_INTERRUPT_H_
#define LONGSTREAM_CLIENT_INTERRUPT_H_

#include <csignal>
#include <functional>
#include <list>
#include <thread>

namespace longstream::client {

// While one lives, SIGINT, SIGTERM and SIGHUP interrupt the program instead of ending it: every
// OnInterrupt is called. A second signal before ClearInterrupt() ends the program at once, for
// whoever is stuck. At most one, constructed before any other thread starts.
class InterruptListener {
 public:
  InterruptListener();
  ~InterruptListener();
  InterruptListener(const InterruptListener&) = delete;
  InterruptListener& operator=(const InterruptListener&) = delete;

 private:
  sigset_t signals_;
  std::thread thread_;
};

// Thrown by what an interrupt ended, where no call's CANCELLED says so.
struct Interruption {};

// The signal that interrupted the program, or 0. Thread-safe, as everything below.
int InterruptSignal();
inline bool Interrupted() { return InterruptSignal() != 0; }

// The interrupt was dealt with; the next signal is a first one again.
void ClearInterrupt();

// A descriptor that poll() finds readable while the program is interrupted.
int InterruptDescriptor();

// Calls `cancel` from another thread if the program is interrupted while this object lives, or in
// the constructor if it already is. Not called any more once the destructor returns.
class OnInterrupt {
 public:
  explicit OnInterrupt(std::function<void()> cancel);
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;

 private:
  std::list<std::function<void()>>::iterator entry_;
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_INTERRUPT_H_
