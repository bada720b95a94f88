// How many sessions of each tenant are in the store.
#ifndef LONGSTREAM_SERVICE_SERVING_READS_STORED_COUNT_H_
#define LONGSTREAM_SERVICE_SERVING_READS_STORED_COUNT_H_

#include "absl/status/status.h"
#include "service/security/tenants/tenants.h"
#include "service/sessions/store/session_store.h"

namespace longstream {

// Counts the sessions of each tenant that are in the store. Call it before the session manager is
// made; in a fleet that repeats it. Returns the errors of the store; then no quota is right.
absl::Status CountStoredSessions(store::SessionStore& store, const Tenants& tenants);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_READS_STORED_COUNT_H_
