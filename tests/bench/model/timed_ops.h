// An op table that sums up the time of each of its ops.
#ifndef LONGSTREAM_TESTS_BENCH_MODEL_TIMED_OPS_H_
#define LONGSTREAM_TESTS_BENCH_MODEL_TIMED_OPS_H_

#include <string>
#include <utility>
#include <vector>

#include "kernels/ops/op_table.h"

namespace longstream {

// The ops of DeviceOps(), each between two reads of the clock (some 50 ns; a step has hundreds of
// calls). One table per process; used by one thread.
const OpTable& TimedOps();

// Seconds in each op since the last call, the longest first, without ops that did not run. Resets
// the sums.
std::vector<std::pair<std::string, double>> TakeOpSeconds();

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_MODEL_TIMED_OPS_H_
