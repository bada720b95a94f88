// Registers the metric of the version.
#include "service/metrics/build_info.h"

#include <prometheus/gauge.h>
#include <prometheus/registry.h>

namespace longstream {

void AddBuildInfo(prometheus::Registry* registry, const std::string& version) {
  prometheus::BuildGauge()
      .Name("longstream_build_info")
      .Help("Always 1; the labels hold the version")
      .Register(*registry)
      .Add({{"version", version}})
      .Set(1);
}

}  // namespace longstream
