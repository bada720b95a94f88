// The backend `dense`: Transformers with full attention.
#include "backends/common/plugin/definition.h"
#include "backends/dense/dense_plan.h"

namespace longstream {

const BackendDefinition& Definition() {
  static constexpr BackendDefinition kDefinition = {"dense", "0.1.0", DenseFit, DensePlan};
  return kDefinition;
}

}  // namespace longstream
