// The metric that tells the version of the server.
#ifndef LONGSTREAM_SERVICE_METRICS_BUILD_INFO_H_
#define LONGSTREAM_SERVICE_METRICS_BUILD_INFO_H_

#include <string>

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

// Adds the metric longstream_build_info with the label `version`. Its value is 1.
void AddBuildInfo(prometheus::Registry* registry, const std::string& version);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_BUILD_INFO_H_
