// Counts the bytes of caches on their way between replicas.
#ifndef LONGSTREAM_SERVICE_FLEET_COUNTED_CACHES_H_
#define LONGSTREAM_SERVICE_FLEET_COUNTED_CACHES_H_

#include <memory>

#include "service/fleet/session_copies.h"
#include "service/metrics/fleet_metrics.h"

namespace longstream::fleet {

// Each returns its first argument with counting in front of it. If that is null, so is the result.
// `metrics` outlives the result; null: nothing is counted.
std::shared_ptr<CacheReader> CountBytes(std::shared_ptr<CacheReader> reader, FleetMetrics* metrics);
// Finish observes the time since this call.
std::shared_ptr<CacheWriter> CountBytes(std::shared_ptr<CacheWriter> writer, FleetMetrics* metrics);

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_FLEET_COUNTED_CACHES_H_
