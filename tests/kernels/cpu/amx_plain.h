// The kernels of the set amx with plain C++ in place of the matrix unit
// (kernels/cpu/simd/amx_tiles.h).
#ifndef LONGSTREAM_TESTS_KERNELS_CPU_AMX_PLAIN_H_
#define LONGSTREAM_TESTS_KERNELS_CPU_AMX_PLAIN_H_

#include <string>
#include <vector>

#include "kernels/ops/op_table.h"

namespace longstream {

// The sets of this processor, from the oldest to the newest, and amx_plain if it has AVX2.
std::vector<std::string> SetsUnderTest();

// The ops of one of SetsUnderTest().
const OpTable& OpsOfSet(const std::string& name);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_CPU_AMX_PLAIN_H_
