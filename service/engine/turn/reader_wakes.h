// The readers that an engine wakes when it has given their streams something.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_READER_WAKES_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_READER_WAKES_H_

#include <functional>
#include <utility>
#include <vector>

#include "kernels/core/executor.h"

namespace longstream {

// A step gives something to many streams at once, and to wake a reader is to write a message: some
// 20 us, of which most is the kernel's, and the next step waits for it. So readers are woken
// together, on the pool's threads, which on a CPU have just computed and would wait as well; and
// messages of one connection that meet there leave in one system call.
//
// Used by the engine thread alone.
class ReaderWakes {
 public:
  // The threads are borrowed; an executor without any: the engine thread.
  explicit ReaderWakes(const Executor& executor) : executor_(executor) {}

  // `wake` must not block, throw, nor push to a stream.
  void Add(std::function<void()> wake) { wakes_.push_back(std::move(wake)); }
  // Calls what has been added, each once, and returns when all have returned. On one thread in the
  // order in which they were added, on several in none.
  void Run();

 private:
  const Executor executor_;
  std::vector<std::function<void()>> wakes_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_READER_WAKES_H_
