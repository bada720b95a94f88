// The backend `hypenet`: HypeNet's published and chunked profiles.
#include "backends/architectures/hypenet/hypenet_plan.h"
#include "backends/runtime/definition.h"

namespace longstream {

const BackendDefinition& Definition() {
  static constexpr BackendDefinition kDefinition = {"hypenet", "0.1.0", HypenetFit, HypenetPlan};
  return kDefinition;
}

}  // namespace longstream
