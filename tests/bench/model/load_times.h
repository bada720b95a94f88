// How long a checkpoint takes to become a model's weights: packed anew, and read as they were
// packed before.
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
  double packed = 0;       // and not kept
  double first = 0;        // packed and written, the disk included
  double second = 0;       // read, the files being in memory
  double second_cold = 0;  // read, the files being on the disk
};

// Loads the checkpoint of a directory, where it leaves no packed weights. Throws BackendError;
// std::runtime_error where they could not be written or used.
LoadTimes MeasureLoading(const ModelSpec& spec, const std::string& directory, DType weights,
                         int rounds, const Executor& executor);

// A table's lines.
std::string LoadHeader();
std::string LoadLine(DType weights, const LoadTimes& times);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_MODEL_LOAD_TIMES_H_
