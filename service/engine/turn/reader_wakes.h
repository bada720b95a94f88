// Collects the readers that an engine has to wake because their streams got new events.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_READER_WAKES_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_READER_WAKES_H_

#include <functional>
#include <utility>
#include <vector>

#include "kernels/core/executor.h"

namespace longstream {

// A step adds events to many streams. Waking a reader writes a message, which takes about 20 us,
// mostly in the operating system, and delays the next step. Therefore the threads of the pool wake
// the readers in parallel; on a CPU these threads would otherwise be idle between two steps. If
// messages of one connection are written at the same time, one system call sends them.
//
// Used by the engine thread alone.
class ReaderWakes {
 public:
  // The threads of the executor are borrowed. If it has none, the engine thread wakes the readers.
  explicit ReaderWakes(const Executor& executor) : executor_(executor) {}

  // `wake` must not block, throw, or push to a stream.
  void Add(std::function<void()> wake) { wakes_.push_back(std::move(wake)); }
  // Calls each added function once, and returns when all have returned. A single thread calls them
  // in the order of Add; several threads call them in any order.
  void Run();

 private:
  const Executor executor_;
  std::vector<std::function<void()>> wakes_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_READER_WAKES_H_
