// Packs weights into the layout that a kernel library's projections read. This is done once, at
// load.
#ifndef LONGSTREAM_KERNELS_OPS_GEMM_PACK_H_
#define LONGSTREAM_KERNELS_OPS_GEMM_PACK_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/executor.h"
#include "kernels/core/matrix.h"

namespace longstream {

// Bytes of a packed weight of n outputs and k inputs; a multiple of 64.
using PackedBytesFunction = size_t (*)(DType type, int64_t n, int64_t k);

// The arguments of a call that packs some rows of a weight. Several sources may fill one
// destination (Q, K and V become one projection). Each call names the first output row of its
// source.
struct PackArgs {
  const void* source = nullptr;  // [num_rows, k] row-major, as the checkpoint stores it; if it is
                                 // int8 or int4: WeightGroup [num_rows, NumGroups(k)]
                                 // (core/quantise.h), whose values beyond k are zero
  DType source_type = DType::kF32;
  int64_t num_rows = 0;
  int64_t first_row = 0;        // the output row of source row 0 in the destination
  void* destination = nullptr;  // [PackedBytes(type, n, k)], 64-byte aligned, zeroed beforehand
  DType type = DType::kF32;     // of the destination. f32 -> bf16 rounds to nearest even; int8 and
                                // int4 are made by QuantiseGroup (core/quantise.h), or are the
                                // groups of the source as they are.
                                // REQUIRES: source_type == type; or type is f32, int8 or int4, and
                                // source_type is f32, f16 or bf16; or type is bf16 and source_type
                                // is f32; or type is int8 and source_type is int4
  int64_t n = 0;                // outputs of the destination
  int64_t k = 0;
};
using PackFunction = void (*)(const Executor& executor, const PackArgs& args);

// The arguments of a call that stores a packed weight in fewer bytes without loss. If the library
// has no such form of the weight, the call does nothing. (bf16 weights have one from AVX2 on: 12
// bits a number.) The weight keeps its memory, but the end of that memory is then zero. Ops read
// both forms and give the same bits.
struct CompressArgs {
  void* packed = nullptr;  // PackArgs::destination, rewritten in its place. REQUIRES: all rows of
                           // it are packed, and it is not compressed yet
  DType type = DType::kF32;
  int64_t n = 0;
  int64_t k = 0;
};
using CompressFunction = void (*)(const Executor& executor, const CompressArgs& args);

// The number of bytes that ops read, from the beginning of a packed weight: PackedBytes, or fewer
// if the weight is compressed.
using ReadBytesFunction = size_t (*)(const PackedWeight& weight);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_GEMM_PACK_H_
