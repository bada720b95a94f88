// The CUDA ops. Each is in kernels/cuda/<room>/<op>.cu, in ordinary CUDA C++.
//
// Every pointer in an op's arguments points to device memory, except in `pack`, which runs on the
// host when a model is loaded. Activations are f32; keys and values have any type. A packed weight
// is [n, stride] row-major. stride is k, rounded up so that a row takes a multiple of 16 bytes. The
// elements of a row beyond k are zero (weight.cuh).
//
// tests/simt compiles the same sources as C++ and runs them on the CPU.
#ifndef LONGSTREAM_KERNELS_CUDA_CUDA_OPS_H_
#define LONGSTREAM_KERNELS_CUDA_CUDA_OPS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/ops/op_table.h"

namespace longstream {

// Thread-safe.
const OpTable& CudaOps();

namespace cuda {

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
void NormRows(Stream& stream, const NormRowsArgs& args);

}  // namespace cuda
}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CUDA_CUDA_OPS_H_
