// Registers families of counters.
#ifndef LONGSTREAM_SERVICE_METRICS_ADD_COUNTERS_H_
#define LONGSTREAM_SERVICE_METRICS_ADD_COUNTERS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/registry.h>

namespace longstream {

inline prometheus::Family<prometheus::Counter>& AddCounters(prometheus::Registry* registry,
                                                            const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(*registry);
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_ADD_COUNTERS_H_
