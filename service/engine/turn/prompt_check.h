// Whether a turn's tokens can follow a history.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_PROMPT_CHECK_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_PROMPT_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "service/engine/turn/turn.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// INVALID_ARGUMENT: `added` tokens behind `position` do not fit the context.
absl::Status CheckRoom(uint64_t position, uint64_t added, uint64_t context_limit);

// INVALID_ARGUMENT: the prompt does not fit behind the history that the lease protects, or both are
// empty, so that there is nothing to generate from.
absl::Status CheckPrompt(const TurnRequest& request, const TurnLease& lease);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_PROMPT_CHECK_H_
