// Measures how long it takes to load a checkpoint: when its weights are packed anew, and when the
// packed weights of an earlier start are read.
#ifndef LONGSTREAM_TESTS_BENCH_MODEL_LOAD_TIMES_H_
#define LONGSTREAM_TESTS_BENCH_MODEL_LOAD_TIMES_H_

#include <cstdint>
#include <string>

#include "backends/spec/model_spec.h"
#include "kernels/core/dtype.h"
#include "kernels/core/executor.h"

namespace longstream {

// The times of loading in seconds. Each is the median over the rounds.
struct LoadTimes {
  uint64_t weight_bytes = 0;
  double packed = 0;       // the weights are packed and not written
  double first = 0;        // the weights are packed and written to the disk
  double second = 0;       // packed weights are read from files in memory
  double second_cold = 0;  // packed weights are read from files on the disk
};

// Loads the checkpoint of a directory and removes the packed weights afterwards. Throws
// BackendError, or std::runtime_error if packed weights could not be written or used.
LoadTimes MeasureLoading(const ModelSpec& spec, const std::string& directory, DType weights,
                         int rounds, const Executor& executor);

// The header and a line of the table that model_bench prints.
std::string LoadHeader();
std::string LoadLine(DType weights, const LoadTimes& times);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_MODEL_LOAD_TIMES_H_
