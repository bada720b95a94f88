// How long it takes to load a checkpoint: packed anew, and read from the packed weights of an
// earlier start.
#ifndef LONGSTREAM_TESTS_BENCH_MODEL_LOAD_TIMES_H_
#define LONGSTREAM_TESTS_BENCH_MODEL_LOAD_TIMES_H_

#include <cstdint>
#include <string>

#include "backends/spec/model_spec.h"
#include "kernels/core/dtype.h"
#include "kernels/core/executor.h"

namespace longstream {

// Seconds, medians of the rounds.
struct LoadTimes {
  uint64_t weight_bytes = 0;
  double packed = 0;       // packed and not kept
  double first = 0;        // packed and written, the disk included
  double second = 0;       // read, the files being in memory
  double second_cold = 0;  // read, the files being on the disk
};

// Loads the checkpoint of a directory and removes the packed weights afterwards. Throws
// BackendError, or std::runtime_error if packed weights could not be written or used.
LoadTimes MeasureLoading(const ModelSpec& spec, const std::string& directory, DType weights,
                         int rounds, const Executor& executor);

// The lines of a table.
std::string LoadHeader();
std::string LoadLine(DType weights, const LoadTimes& times);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_MODEL_LOAD_TIMES_H_
