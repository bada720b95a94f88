// The table of the reference ops.
#include "kernels/reference/reference_ops.h"

namespace longstream {

const OpTable& ReferenceOps() {
  static constexpr OpTable kOps = {
      .name = "reference",
      .packed_bytes = reference::PackedBytes,
      .pack = reference::Pack,
      .embed = reference::Embed,
  };
  return kOps;
}

}  // namespace longstream
