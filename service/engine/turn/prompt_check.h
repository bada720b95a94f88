// Checks whether the tokens of a turn can follow a history.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_PROMPT_CHECK_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_PROMPT_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "service/engine/turn/turn.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// INVALID_ARGUMENT: `added` tokens after `position` do not fit into the context.
absl::Status CheckRoom(uint64_t position, uint64_t added, uint64_t context_limit);

// INVALID_ARGUMENT: the history that the lease protects and the prompt together exceed the context;
// or both are empty, so that there is nothing to generate from.
absl::Status CheckPrompt(const TurnRequest& request, const TurnLease& lease);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_PROMPT_CHECK_H_
