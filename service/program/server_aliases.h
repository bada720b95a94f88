// The aliases with which a server starts.
#ifndef LONGSTREAM_SERVICE_PROGRAM_SERVER_ALIASES_H_
#define LONGSTREAM_SERVICE_PROGRAM_SERVER_ALIASES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "service/config/server_config.h"
#include "service/metrics/json_log.h"
#include "service/serving/aliases/alias_table.h"
#include "service/serving/models/alias_follower.h"
#include "service/sessions/store/session_store.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

// "dense=90 hypenet=10": the arms and their weights. "route dense hypenet": those of a route.
std::string ArmsOf(const AliasConfig& alias);

// Logs the aliases that operators have changed at other replicas, and those that cannot be taken
// over when they are others than the last time. `log` outlives it.
AliasFollower::Told LogsFollowed(const JsonLog* log);

// The aliases of the configuration, and in their place those that operators have changed at run
// time (MergeAliases). The log tells each of them, and the rows of the store that cannot be used.
// `store`: nullptr: the configuration wants none. `registry`: outlives the table. `book`: of the
// costs of the arms of routes. Errors are those of the store.
absl::StatusOr<std::shared_ptr<AliasTable>> OpenAliases(const ServerConfig& config,
                                                        store::SessionStore* store,
                                                        prometheus::Registry* registry,
                                                        const JsonLog& log,
                                                        std::shared_ptr<ArmBook> book);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_SERVER_ALIASES_H_
