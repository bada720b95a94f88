// The table of the reference ops.
#include "kernels/reference/reference_ops.h"

namespace longstream {

const OpTable& ReferenceOps() {
  static constexpr OpTable kOps = {
      .name = "reference",
  };
  return kOps;
}

}  // namespace longstream
