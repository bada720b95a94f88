// Chooses the CPU op table by instruction set.
#ifndef LONGSTREAM_KERNELS_CPU_CPU_OPS_H_
#define LONGSTREAM_KERNELS_CPU_CPU_OPS_H_

#include "kernels/ops/op_table.h"

namespace longstream {

// The names that OpsFor accepts, from the oldest set to the newest.
inline constexpr const char* kIsaNames[] = {"baseline", "avx2", "avx512_f32", "avx512", "amx"};

// The ops compiled for `isa`. nullptr if the name is unknown, or if the processor or its operating
// system lacks the set. Thread-safe. This function is for callers that need a certain set, such as
// tests. Others use DeviceOps().
const OpTable* OpsFor(const char* isa);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CPU_CPU_OPS_H_
