// A thread that accepts connections and waits for what they send. The loop does not stop and does
// not spin if the process or the machine runs out of descriptors or memory.
#ifndef LONGSTREAM_SERVICE_CONNECTIONS_ACCEPT_LOOP_H_
#define LONGSTREAM_SERVICE_CONNECTIONS_ACCEPT_LOOP_H_

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/clock/monotonic_time.h"
#include "service/connections/descriptor.h"

namespace longstream {

// Decides what happens with connections. The loop's thread makes all calls. They must not block.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;

  // A client has connected. The descriptor does not block.
  virtual void OnConnection(Descriptor connection, const sockaddr_storage& peer) = 0;
  // A client has connected and the loop has closed its connection, because the process has no
  // descriptor left.
  virtual void OnNoDescriptor() = 0;
  // A descriptor given to Watch is ready, or was ready: an event may come late, for the next
  // descriptor with the same number.
  virtual void OnReady(int descriptor) = 0;
  // Does what is due at `now`. The loop calls it after every batch of events. Returns the moment of
  // the next call if there is no event before.
  virtual MonotonicTime OnTime(MonotonicTime now) = 0;
  // The loop accepts no further connection.
  virtual void OnAcceptingStopped() = 0;
};

// StopAccepting, CallSoon and the destructor may be called on any thread, Watch and Unwatch only on
// the loop's own thread, in calls of the handler.
class AcceptLoop {
 public:
  // Takes what the loop needs, but accepts nothing yet. RESOURCE_EXHAUSTED: no descriptor is left.
  static absl::StatusOr<std::unique_ptr<AcceptLoop>> Create(std::vector<Descriptor> listeners);
  // Ends the thread. Connections that the handler holds stay as they are.
  ~AcceptLoop();
  AcceptLoop(const AcceptLoop&) = delete;
  AcceptLoop& operator=(const AcceptLoop&) = delete;

  // Starts the thread. `handler` must outlive the loop.
  void Start(ConnectionHandler* handler);

  // Closes the listening sockets. After it returns, clients cannot connect. The loop keeps running
  // for the connections that the handler watches.
  void StopAccepting() ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes the loop call the handler's OnTime soon.
  void CallSoon() const { Wake(); }

  // Reports events of a descriptor (EPOLLIN, EPOLLOUT, ...) to the handler, each new event once.
  // Returns false if the kernel has no memory for it.
  bool Watch(int descriptor, uint32_t events);
  void Unwatch(int descriptor);

 private:
  AcceptLoop() = default;

  void Run();
  // Does what other threads have asked for. Returns false if the thread must end.
  bool ObeyRequests() ABSL_LOCKS_EXCLUDED(mutex_);
  void Wait(MonotonicTime until);
  bool IsListener(int descriptor) const;
  void AcceptFrom(int listener);
  // Accepts a connection with the reserve descriptor and closes it. Returns false if no connection
  // waits, or if that is not possible either and the loop pauses.
  bool RefuseWithReserve(int listener);
  // Accepts nothing for a short time.
  void Pause();
  void ResumeIfDue(MonotonicTime now);
  void Wake() const;

  Descriptor poller_;  // of epoll
  Descriptor wake_;    // an eventfd; other threads write to it
  // An open descriptor that does nothing. If all descriptors are in use, the loop closes it,
  // accepts a connection in its place, closes the connection and opens the reserve again. So
  // clients learn at once that they are refused, instead of waiting in the kernel's queue.
  Descriptor reserve_;
  std::vector<Descriptor> listeners_;
  MonotonicTime resume_at_ = MonotonicTime::InfiniteFuture();  // finite while paused
  ConnectionHandler* handler_ = nullptr;

  absl::Mutex mutex_;
  bool must_end_ ABSL_GUARDED_BY(mutex_) = false;
  bool must_stop_accepting_ ABSL_GUARDED_BY(mutex_) = false;
  bool accepting_ ABSL_GUARDED_BY(mutex_) = true;

  std::thread thread_;  // the last member: it uses the others
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONNECTIONS_ACCEPT_LOOP_H_
