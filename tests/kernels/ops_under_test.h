// Which libraries of ops a test program runs its tests on; defined once per program.
#ifndef LONGSTREAM_TESTS_KERNELS_OPS_UNDER_TEST_H_
#define LONGSTREAM_TESTS_KERNELS_OPS_UNDER_TEST_H_

#include <string>
#include <vector>

#include "kernels/ops/op_table.h"

namespace longstream {

// Those that can run here.
std::vector<std::string> NamesUnderTest();
// `name`: one of NamesUnderTest().
const OpTable& OpsUnderTest(const std::string& name);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_OPS_UNDER_TEST_H_
