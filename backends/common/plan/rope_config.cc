// Rotary position embedding in a config.
#include "backends/common/plan/rope_config.h"

#include <optional>
#include <string>

namespace longstream {
namespace {

constexpr double kDefaultTheta = 10000.0;

std::optional<double> FindTheta(const Config& config) {
  return config.FindNumber("rope_theta", 1.0, 1e15);
}

}  // namespace

double ReadRopeTheta(const Config& config) {
  std::optional<double> theta = FindTheta(config);
  // The same dictionary under its old and its new name.
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const std::optional<Config> rope = config.FindObject(key);
    if (!rope) continue;
    for (const char* kind_key : {"rope_type", "type"}) {
      const std::string kind = rope->FindString(kind_key).value_or("default");
      if (kind != "default") {
        rope->Unsupported(kind_key, "must be \"default\", found " + rope->Found(kind_key));
      }
    }
    const std::optional<double> inner = FindTheta(*rope);
    if (inner && theta && *inner != *theta) {
      rope->Invalid("rope_theta", "= " + rope->Found("rope_theta") +
                                      " disagrees with rope_theta = " + config.Found("rope_theta"));
    }
    if (inner) theta = inner;
    rope->RefuseUnknown("RoPE of the default kind");
  }
  return theta.value_or(kDefaultTheta);
}

}  // namespace longstream
