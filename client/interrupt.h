// Handles Ctrl-C and similar signals. The program cancels its calls and closes its sessions before
// it ends.
#ifndef LONGSTREAM_CLIENT_INTERRUPT_H_
#define LONGSTREAM_CLIENT_INTERRUPT_H_

#include <chrono>
#include <csignal>
#include <functional>
#include <list>
#include <thread>

namespace longstream::client {

// While the object exists, SIGINT, SIGTERM and SIGHUP do not end the program but interrupt it: the
// function of every OnInterrupt is called. Another signal before ClearInterrupt() ends the program
// at once if EndsAtOnce() says so, in case it hangs. There may be only one such object. Construct
// it before any other thread starts.
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

// Whether a further signal, this long after the first one, ends the program at once: only Ctrl-C by
// a person does. `timeout` sends its signal twice at the same moment, to the program and to its
// group of processes, and a service manager sends SIGKILL if it loses patience.
bool EndsAtOnce(int signal, std::chrono::milliseconds since_first);

// Thrown if an interrupt ends work outside of a call. (A call throws CallError with CANCELLED.)
struct Interruption {};

// Returns the signal that interrupted the program, or 0. This function and all below are
// thread-safe.
int InterruptSignal();
inline bool Interrupted() { return InterruptSignal() != 0; }

// Ends the state "interrupted". The next signal interrupts the program again.
void ClearInterrupt();

// A file descriptor that poll() reports as readable while the program is interrupted.
int InterruptDescriptor();

// Calls `cancel` from another thread if the program is interrupted while this object exists, or
// from the constructor if the program is already interrupted. Never calls it after the destructor
// has returned.
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
