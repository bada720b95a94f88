// The CUDA ops: each in kernels/cuda/<room>/<op>.cu, ordinary CUDA C++.
//
// Every pointer of an op's arguments is to device memory, except `pack`, which runs on the host at
// load. Activations are f32, keys and values of any type. A packed weight is [n, stride] row-major,
// stride = k rounded up to 16 bytes, the rest of a row zero (weight.cuh).
//
// The same sources are compiled as C++ and run on the CPU by tests/simt.
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
