// The readers that an engine wakes when it has given their streams something.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_READER_WAKES_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_READER_WAKES_H_

#include <functional>
#include <utility>
#include <vector>

#include "kernels/core/executor.h"

namespace longstream {

// A step adds to many streams at once. Waking a reader writes a message: some 20 us, mostly in the
// kernel, and the next step waits for it. So readers are woken together on the pool's threads; on a
// CPU these have just computed and would wait as well. Messages of one connection that meet there
// leave in one system call.
//
// Used by the engine thread alone.
class ReaderWakes {
 public:
  // The threads are borrowed; if the executor has none, the engine thread wakes readers.
  explicit ReaderWakes(const Executor& executor) : executor_(executor) {}

  // `wake` must not block, throw, nor push to a stream.
  void Add(std::function<void()> wake) { wakes_.push_back(std::move(wake)); }
  // Calls each added function once, and returns when all have returned. One thread calls them in
  // the order of Add, several threads in any order.
  void Run();

 private:
  const Executor executor_;
  std::vector<std::function<void()>> wakes_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_READER_WAKES_H_
