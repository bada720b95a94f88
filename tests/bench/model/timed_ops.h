// An op table that adds up how long each of its ops takes: where a step's time goes.
#ifndef LONGSTREAM_TESTS_BENCH_MODEL_TIMED_OPS_H_
#define LONGSTREAM_TESTS_BENCH_MODEL_TIMED_OPS_H_

#include <string>
#include <utility>
#include <vector>

#include "kernels/ops/op_table.h"

namespace longstream {

// Those of DeviceOps(), each between two looks at the clock, which cost some 50 ns of a step's
// hundreds of calls. One table for the process; used by one thread.
const OpTable& TimedOps();

// Seconds in each op since the last call of this, the longest first; ops that did not run are left
// out. Then the sums are zero.
std::vector<std::pair<std::string, double>> TakeOpSeconds();

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_MODEL_TIMED_OPS_H_
