// The table of the reference ops.
#include "kernels/reference/reference_ops.h"

namespace longstream {

const OpTable& ReferenceOps() {
  static constexpr OpTable kOps = {
      .name = "reference",
      .packed_bytes = reference::PackedBytes,
      .pack = reference::Pack,
      .compress = reference::Compress,
      .read_bytes = reference::ReadBytes,
      .embed = reference::Embed,
      .linear = reference::Linear,
      .norm_rows = reference::NormRows,
      .gau_activate = reference::GauActivate,
      .rope_table = reference::RopeTable,
      .logit_scale = reference::LogitScale,
      .rope_cache_write = reference::RopeCacheWrite,
      .attention = reference::Attend,
      .ring_write = reference::RingWrite,
      .ring_rebuild = reference::RingRebuild,
      .linear_recurrence = reference::LinearRecurrence,
      .soft_cap = reference::SoftCap,
      .sample = reference::Sample,
      .log_probs = reference::LogProbs,
      .finite_rows = reference::FiniteRows,
      .gather_rows = reference::GatherRows,
      .route = reference::Route,
      .expert_hidden = reference::ExpertHidden,
      .expert_sum = reference::ExpertSum,
      .int8_pages = true,
  };
  return kOps;
}

}  // namespace longstream
