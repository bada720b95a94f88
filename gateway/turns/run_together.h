// Several turns of one request at once.
#ifndef LONGSTREAM_GATEWAY_TURNS_RUN_TOGETHER_H_
#define LONGSTREAM_GATEWAY_TURNS_RUN_TOGETHER_H_

#include <cstddef>
#include <functional>

namespace longstream::gateway {

// Runs the work on another thread. False: none is free.
using StartThread = std::function<bool(std::function<void()> work)>;

// Calls `run(i)` for each i below `count`: on this thread, and on each other one that `start`
// gives. So the calls run at once as far as threads are free, and each begins in its turn. Returns
// when all have ended.
//
// If a call throws, no further one begins; `stop` is called, so that those that run end soon; then
// the first exception is thrown here. Calls may not be nested: the error of an inner one would not
// be the first one outside.
void RunTogether(size_t count, const StartThread& start, const std::function<void(size_t i)>& run,
                 const std::function<void()>& stop);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_TURNS_RUN_TOGETHER_H_
