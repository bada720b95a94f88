// The backend `dense`: Transformers with full attention.
#include "backends/architectures/placement/dense_plan.h"
#include "backends/runtime/definition.h"

namespace longstream {

const BackendDefinition& Definition() {
  static constexpr BackendDefinition kDefinition = {"dense", "0.1.0", DenseFit, DensePlan};
  return kDefinition;
}

}  // namespace longstream
