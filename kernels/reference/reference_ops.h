// The reference ops: each op as its equation, in plain scalar loops with f64 sums. Tests compare
// every other kernel library with the reference ops. Only tests link the reference ops, because
// they are slow.
//
// A packed weight of the reference is the row-major matrix [n, k] itself or, for int8 and int4, its
// groups. It is 64-byte aligned.
#ifndef LONGSTREAM_KERNELS_REFERENCE_REFERENCE_OPS_H_
#define LONGSTREAM_KERNELS_REFERENCE_REFERENCE_OPS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/ops/op_table.h"

namespace longstream {

// Returns the table of the reference ops. Thread-safe.
const OpTable& ReferenceOps();

namespace reference {

size_t PackedBytes(DType type, int64_t n, int64_t k);
void Pack(const Executor& executor, const PackArgs& args);
void Compress(const Executor& executor, const CompressArgs& args);
size_t ReadBytes(const PackedWeight& weight);
void Embed(Stream& stream, const EmbedArgs& args);
void Linear(Stream& stream, const LinearArgs& args);
void GauActivate(Stream& stream, const GauActivateArgs& args);
void RopeTable(Stream& stream, const RopeTableArgs& args);
void LogitScale(Stream& stream, const LogitScaleArgs& args);
void RopeCacheWrite(Stream& stream, const RopeCacheWriteArgs& args);
void Attend(Stream& stream, const AttentionArgs& args);
void RingWrite(Stream& stream, const RingWriteArgs& args);
void RingRebuild(Stream& stream, const RingRebuildArgs& args);
void LinearRecurrence(Stream& stream, const LinearRecurrenceArgs& args);
void SoftCap(Stream& stream, const SoftCapArgs& args);
void Sample(Stream& stream, const SampleArgs& args);
void LogProbs(Stream& stream, const LogProbsArgs& args);
void FiniteRows(Stream& stream, const FiniteRowsArgs& args);
void GatherRows(Stream& stream, const GatherRowsArgs& args);
void Route(Stream& stream, const RouteArgs& args);
void ExpertHidden(Stream& stream, const ExpertHiddenArgs& args);
void ExpertSum(Stream& stream, const ExpertSumArgs& args);
void NormRows(Stream& stream, const NormRowsArgs& args);

}  // namespace reference
}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_REFERENCE_REFERENCE_OPS_H_
