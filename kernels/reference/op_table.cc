// The table of the reference ops.
#include "kernels/reference/reference_ops.h"

namespace longstream {

const OpTable& ReferenceOps() {
  static constexpr OpTable kOps = {
      .name = "reference",
      .packed_bytes = reference::PackedBytes,
      .pack = reference::Pack,
      .embed = reference::Embed,
      .norm_project = reference::NormProject,
      .gated_mlp = reference::GatedMlp,
      .project_residual = reference::ProjectResidual,
      .sample = reference::Sample,
      .log_probs = reference::LogProbs,
  };
  return kOps;
}

}  // namespace longstream
