// The ops of one kernel library, as a table.
//
// A decoder calls ops only through the table. The libraries are the reference, one for each CPU
// instruction set, and CUDA. Which of them fills the table is decided when a plugin is linked and,
// on a CPU, when it starts.
#ifndef LONGSTREAM_KERNELS_OPS_OP_TABLE_H_
#define LONGSTREAM_KERNELS_OPS_OP_TABLE_H_

#include <cstdint>

#include "kernels/ops/attention/attention.h"
#include "kernels/ops/attention/logit_scale.h"
#include "kernels/ops/cache/ring_rebuild.h"
#include "kernels/ops/cache/ring_write.h"
#include "kernels/ops/cache/rope_cache_write.h"
#include "kernels/ops/elementwise/embed.h"
#include "kernels/ops/elementwise/gather_rows.h"
#include "kernels/ops/elementwise/gau_activate.h"
#include "kernels/ops/elementwise/norm_rows.h"
#include "kernels/ops/elementwise/rope_table.h"
#include "kernels/ops/experts/expert_hidden.h"
#include "kernels/ops/experts/expert_sum.h"
#include "kernels/ops/experts/route.h"
#include "kernels/ops/gemm/linear.h"
#include "kernels/ops/gemm/pack.h"
#include "kernels/ops/recurrence/linear_recurrence.h"
#include "kernels/ops/sampling/finite_rows.h"
#include "kernels/ops/sampling/log_probs.h"
#include "kernels/ops/sampling/sample.h"
#include "kernels/ops/sampling/soft_cap.h"

namespace longstream {

struct OpTable {
  const char* name = "";  // "reference", "cuda", or a set of kernels/cpu/cpu_ops.h
  PackedBytesFunction packed_bytes = nullptr;
  PackFunction pack = nullptr;
  CompressFunction compress = nullptr;
  ReadBytesFunction read_bytes = nullptr;
  EmbedFunction embed = nullptr;
  LinearFunction linear = nullptr;
  NormRowsFunction norm_rows = nullptr;
  GauActivateFunction gau_activate = nullptr;
  RopeTableFunction rope_table = nullptr;
  LogitScaleFunction logit_scale = nullptr;
  RopeCacheWriteFunction rope_cache_write = nullptr;
  AttentionFunction attention = nullptr;
  RingWriteFunction ring_write = nullptr;
  RingRebuildFunction ring_rebuild = nullptr;
  LinearRecurrenceFunction linear_recurrence = nullptr;
  SoftCapFunction soft_cap = nullptr;
  SampleFunction sample = nullptr;
  LogProbsFunction log_probs = nullptr;
  FiniteRowsFunction finite_rows = nullptr;
  GatherRowsFunction gather_rows = nullptr;
  // Mixtures of experts. nullptr: the library does not serve them; then all three are nullptr.
  RouteFunction route = nullptr;
  ExpertHiddenFunction expert_hidden = nullptr;
  ExpertSumFunction expert_sum = nullptr;
  // If a prefill is cut at absolute multiples of this number of tokens, attention and projections
  // give the same bits as without cuts. The number divides 64, the grid of linear_recurrence.
  int32_t cut_grid = 64;
  // Whether the ops that read and write pages serve int8 pages.
  bool int8_pages = false;
};

// The ops that a plugin runs on. The kernel library that the plugin is linked with defines this
// function. The CPU library returns the best table for the processor, or the one that
// LONGSTREAM_ISA names (kernels/cpu/cpu_ops.h; a set that the processor lacks is ignored).
const OpTable& DeviceOps();

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_OP_TABLE_H_
