// An op table that sums up the time of each of its ops.
#ifndef LONGSTREAM_TESTS_BENCH_MODEL_TIMED_OPS_H_
#define LONGSTREAM_TESTS_BENCH_MODEL_TIMED_OPS_H_

#include <string>
#include <utility>
#include <vector>

#include "kernels/ops/op_table.h"

namespace longstream {

// Returns the ops of DeviceOps(), each of which is timed by two reads of the clock. The two reads
// take some 50 ns, and a step has hundreds of calls. There is one table per process; one thread may
// use it.
const OpTable& TimedOps();

// Returns the seconds in each op since the last call of TakeOpSeconds, the longest first, without
// ops that did not run. Resets the sums.
std::vector<std::pair<std::string, double>> TakeOpSeconds();

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_MODEL_TIMED_OPS_H_
