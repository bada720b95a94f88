// Chooses the CPU op table by instruction set.
#ifndef LONGSTREAM_KERNELS_CPU_CPU_OPS_H_
#define LONGSTREAM_KERNELS_CPU_CPU_OPS_H_

#include "kernels/ops/op_table.h"

namespace longstream {

// The ops compiled for `isa`, one of kIsaNames (kernels/core/pinned_isa.h). nullptr if the name is
// unknown, or if the processor or its operating system lacks the set. Thread-safe. This function is
// for callers that need a certain set, such as tests. Others use DeviceOps().
const OpTable* OpsFor(const char* isa);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CPU_CPU_OPS_H_
