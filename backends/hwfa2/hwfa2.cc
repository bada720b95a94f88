// The backend `hwfa2`: hybrids of window and full attention.
#include "backends/architectures/placement/hwfa2_plan.h"
#include "backends/runtime/definition.h"

namespace longstream {

const BackendDefinition& Definition() {
  static constexpr BackendDefinition kDefinition = {"hwfa2", "0.1.0", Hwfa2Fit, Hwfa2Plan};
  return kDefinition;
}

}  // namespace longstream
