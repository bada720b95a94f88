// The CPU ops of one instruction set. Every file that includes this header is compiled once per
// set. LONGSTREAM_ISA names the namespace: baseline, avx2, avx512_f32, avx512, amx or amx_plain
// (simd/amx_tiles.h).
//
// Such a file must emit no weak symbol outside its namespace. A linker keeps any one of several
// weak copies, perhaps one that the processor cannot run. So the file uses no std:: algorithm or
// container that is not inlined, and its local names are in an anonymous namespace.
#ifndef LONGSTREAM_KERNELS_CPU_ISA_OPS_H_
#define LONGSTREAM_KERNELS_CPU_ISA_OPS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/ops/op_table.h"

#ifndef LONGSTREAM_ISA
#error "compile with -DLONGSTREAM_ISA=baseline, avx2, avx512_f32, avx512 or amx"
#endif

namespace longstream::cpu::LONGSTREAM_ISA {

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

// The ops above as a table.
const OpTable& Ops();

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_ISA_OPS_H_
