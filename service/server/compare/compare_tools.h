// The parts of the server that comparisons use.
#ifndef LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_TOOLS_H_
#define LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_TOOLS_H_

#include <functional>
#include <memory>

#include "longstream/v1/longstream.pb.h"
#include "service/clock/timers.h"
#include "service/engine/turn/turn_events.h"
#include "service/server/compare/compare_limits.h"

namespace longstream {

// The parts of the server that a CompareCall or a LiveTwin uses.
struct CompareTools {
  CompareLimits limits;
  Timers* timers = nullptr;  // outlives the call
  // Runs work on a thread that may compute for some milliseconds, later than the caller's return.
  // The functions run in the order of the calls, several at the same time.
  std::function<void(std::function<void()> work)> compute;
  // Converts how a turn has ended; sets the reason and the usage at least.
  std::function<void(const TurnEnd& end, v1::Finish* message)> to_finish;
  std::shared_ptr<void> counted;  // counts the call while it exists
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_TOOLS_H_
