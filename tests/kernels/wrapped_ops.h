// Wraps each op of a table in a function of the test program.
#ifndef LONGSTREAM_TESTS_KERNELS_WRAPPED_OPS_H_
#define LONGSTREAM_TESTS_KERNELS_WRAPPED_OPS_H_

#include <cstddef>

#include "kernels/ops/op_table.h"

namespace longstream {

// A pointer to a member of OpTable that is an op with a stream.
template <typename Args>
using OpMember = void (*OpTable::*)(Stream&, const Args&);

// Returns `ops` with Wrapper<Args, kOp>::Run(stream, args) in place of each op kOp that has a
// stream.
template <template <typename Args, OpMember<Args> kOp> class Wrapper>
OpTable Wrapped(OpTable ops) {
  static_assert(offsetof(OpTable, cut_grid) == 24 * sizeof(void*),
                "an op was added or removed: name the same ones below");
  ops.embed = Wrapper<EmbedArgs, &OpTable::embed>::Run;
  ops.linear = Wrapper<LinearArgs, &OpTable::linear>::Run;
  ops.norm_rows = Wrapper<NormRowsArgs, &OpTable::norm_rows>::Run;
  ops.gau_activate = Wrapper<GauActivateArgs, &OpTable::gau_activate>::Run;
  ops.rope_table = Wrapper<RopeTableArgs, &OpTable::rope_table>::Run;
  ops.logit_scale = Wrapper<LogitScaleArgs, &OpTable::logit_scale>::Run;
  ops.rope_cache_write = Wrapper<RopeCacheWriteArgs, &OpTable::rope_cache_write>::Run;
  ops.attention = Wrapper<AttentionArgs, &OpTable::attention>::Run;
  ops.ring_write = Wrapper<RingWriteArgs, &OpTable::ring_write>::Run;
  ops.ring_rebuild = Wrapper<RingRebuildArgs, &OpTable::ring_rebuild>::Run;
  ops.linear_recurrence = Wrapper<LinearRecurrenceArgs, &OpTable::linear_recurrence>::Run;
  ops.soft_cap = Wrapper<SoftCapArgs, &OpTable::soft_cap>::Run;
  ops.sample = Wrapper<SampleArgs, &OpTable::sample>::Run;
  ops.log_probs = Wrapper<LogProbsArgs, &OpTable::log_probs>::Run;
  ops.finite_rows = Wrapper<FiniteRowsArgs, &OpTable::finite_rows>::Run;
  ops.gather_rows = Wrapper<GatherRowsArgs, &OpTable::gather_rows>::Run;
  // A library without mixtures of experts has none of these ops.
  if (ops.route == nullptr) return ops;
  ops.route = Wrapper<RouteArgs, &OpTable::route>::Run;
  ops.expert_hidden = Wrapper<ExpertHiddenArgs, &OpTable::expert_hidden>::Run;
  ops.expert_sum = Wrapper<ExpertSumArgs, &OpTable::expert_sum>::Run;
  return ops;
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_WRAPPED_OPS_H_
