// Ctrl-C and the like: before the program ends, it stops its calls and closes its sessions.
#ifndef LONGSTREAM_CLIENT_INTERRUPT_H_
#define LONGSTREAM_CLIENT_INTERRUPT_H_

#include <csignal>
#include <functional>
#include <list>
#include <thread>

namespace longstream::client {

// While it lives, SIGINT, SIGTERM and SIGHUP interrupt the program instead of ending it: every
// OnInterrupt is called. A second signal before ClearInterrupt() ends the program at once, in case
// it is stuck. There is at most one; construct it before any other thread starts.
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

// Thrown by work that an interrupt ended outside of a call. (A call throws CANCELLED.)
struct Interruption {};

// The signal that interrupted the program, or 0. This and all below is thread-safe.
int InterruptSignal();
inline bool Interrupted() { return InterruptSignal() != 0; }

// Ends the interrupt: the next signal interrupts the program again.
void ClearInterrupt();

// A file descriptor that poll() reports as readable while the program is interrupted.
int InterruptDescriptor();

// Calls `cancel` from another thread when the program is interrupted while this object lives, or
// from the constructor if it is already interrupted. Never calls it after the destructor returns.
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
