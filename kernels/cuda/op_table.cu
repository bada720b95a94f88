// The op table of CUDA. A plugin that is linked with this library runs on it.
#include "kernels/cuda/cuda_ops.h"

namespace longstream {

const OpTable& CudaOps() {
  static constexpr OpTable kOps = {
      .name = "cuda",
      .packed_bytes = cuda::PackedBytes,
      .pack = cuda::Pack,
      .compress = cuda::Compress,
      .read_bytes = cuda::ReadBytes,
      .embed = cuda::Embed,
      .linear = cuda::Linear,
      .norm_rows = cuda::NormRows,
      .gau_activate = cuda::GauActivate,
      .rope_table = cuda::RopeTable,
      .logit_scale = cuda::LogitScale,
      .rope_cache_write = cuda::RopeCacheWrite,
      .attention = cuda::Attend,
      .ring_write = cuda::RingWrite,
      .ring_rebuild = cuda::RingRebuild,
      .linear_recurrence = cuda::LinearRecurrence,
      .soft_cap = cuda::SoftCap,
      .sample = cuda::Sample,
      .log_probs = cuda::LogProbs,
      .finite_rows = cuda::FiniteRows,
      .gather_rows = cuda::GatherRows,
  };
  return kOps;
}

const OpTable& DeviceOps() { return CudaOps(); }

}  // namespace longstream
