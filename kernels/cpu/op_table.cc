// The op table of one instruction set.
#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/simd/simd.h"

#define LONGSTREAM_NAME_OF(isa) LONGSTREAM_NAME_OF_EXPANDED(isa)
#define LONGSTREAM_NAME_OF_EXPANDED(isa) #isa

namespace longstream::cpu::LONGSTREAM_ISA {

const OpTable& Ops() {
  static constexpr OpTable kOps = {
      .name = LONGSTREAM_NAME_OF(LONGSTREAM_ISA),
      .packed_bytes = PackedBytes,
      .pack = Pack,
      .compress = Compress,
      .read_bytes = ReadBytes,
      .embed = Embed,
      .linear = Linear,
      .norm_rows = NormRows,
      .gau_activate = GauActivate,
      .rope_table = RopeTable,
      .logit_scale = LogitScale,
      .rope_cache_write = RopeCacheWrite,
      .attention = Attend,
      .ring_write = RingWrite,
      .ring_rebuild = RingRebuild,
      .linear_recurrence = LinearRecurrence,
      .soft_cap = SoftCap,
      .sample = Sample,
      .log_probs = LogProbs,
      .finite_rows = FiniteRows,
      .gather_rows = GatherRows,
      .route = Route,
      .expert_hidden = ExpertHidden,
      .expert_sum = ExpertSum,
      .cut_grid = kLanes,  // any cut keeps a row's bits; pieces of fewer rows would cost as much
      .int8_pages = true,
  };
  return kOps;
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
