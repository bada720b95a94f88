// The twin of a turn that was checked and can begin.
#ifndef LONGSTREAM_SERVICE_SERVER_COMPARE_TWIN_PLAN_H_
#define LONGSTREAM_SERVICE_SERVER_COMPARE_TWIN_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/turn/turn.h"
#include "service/serving/session_manager.h"
#include "service/serving/turns/turn_handle.h"

namespace longstream {

struct TwinPlan {
  std::string model;            // the name in the request until the model was found
  absl::Status lost;            // why the twin is lost before it starts; OK: it can start
  std::optional<NewTurn> turn;  // holds the lease of its own session; absent: the twin is lost
  TurnRequest request;          // without LiveTwin's members
  uint64_t most_tokens = 0;     // that the turn draws
  MonotonicTime deadline = MonotonicTime::InfiniteFuture();  // of the call
};

// Makes the twin of a turn. `turn` has its lease, and `request` its prompt. NOT_FOUND: the model is
// unknown. FAILED_PRECONDITION: its rows cannot be compared with those of the turn's model. Other
// reasons why it cannot start are in TwinPlan::lost, because they do not concern the turn.
absl::StatusOr<TwinPlan> PlanTwin(const std::string& tenant, const std::string& model,
                                  const NewTurn& turn, const TurnRequest& request,
                                  const SessionManager& sessions);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_COMPARE_TWIN_PLAN_H_
