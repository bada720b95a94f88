// Translates the store's answer to a transaction for the ownership of a session.
#ifndef LONGSTREAM_SERVICE_SESSIONS_FLEET_OUTCOME_H_
#define LONGSTREAM_SERVICE_SESSIONS_FLEET_OUTCOME_H_

#include "absl/status/status.h"
#include "service/sessions/fleet/transactions.h"

namespace longstream::fleet {

// `status`: of SessionStore::Apply, for one change. A status that this function does not know is
// kUnknown, because that is always safe: the row then says what happened.
Outcome OutcomeOf(const absl::Status& status, TransactionKind kind);

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_SESSIONS_FLEET_OUTCOME_H_
