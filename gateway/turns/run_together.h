// Several turns of one request at once.
#ifndef LONGSTREAM_GATEWAY_TURNS_RUN_TOGETHER_H_
#define LONGSTREAM_GATEWAY_TURNS_RUN_TOGETHER_H_

#include <cstddef>
#include <exception>
#include <functional>

namespace longstream::gateway {

// Runs the work on another thread. False: none is free.
using StartThread = std::function<bool(std::function<void()> work)>;

// A call of RunTogether throws it if there was no room for it beside the others, and it has done
// nothing.
struct NoRoom {
  std::exception_ptr error;
};

// Calls `run(i)` for each i below `count`: on this thread, and on each other one that `start`
// gives. So the calls run at once as far as threads are free; they begin in order. Returns when all
// have ended.
//
// A call that throws NoRoom is made again when another one has ended. If none is running and there
// is no room for any of those that are left, it has failed with that error. If a call throws
// anything else, it has failed. Then no further one begins; `stop` is called, so that those that
// run end soon; and the first error is thrown here. Calls may not be nested: the error of an inner
// one would not be the first one outside.
void RunTogether(size_t count, const StartThread& start, const std::function<void(size_t i)>& run,
                 const std::function<void()>& stop);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_TURNS_RUN_TOGETHER_H_
