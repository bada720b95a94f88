// The command line of model_bench.
#ifndef LONGSTREAM_TESTS_BENCH_MODEL_OPTIONS_H_
#define LONGSTREAM_TESTS_BENCH_MODEL_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/dtype.h"
#include "tests/bench/model/slice.h"

namespace longstream {

struct BenchOptions {
  std::string shape = "200m";
  std::vector<std::string> plans = {"dense", "hwfa2", "hypenet", "chunked"};
  std::vector<DType> weights = {DType::kBF16};
  std::string cache = "auto";           // a value of the load option `cache`
  std::vector<uint32_t> threads = {0};  // each a size of the pool; 0: one per logical processor
  uint32_t batch = 1;
  std::vector<int64_t> depths = {0, 4096};
  int64_t prefill = 512;  // tokens of a prefill slice; 0: no prefill slices
  int64_t tokens = 32;    // tokens of each sequence of a decode slice; 0: no decode slices
  int rounds = 3;
  std::string json;       // file; "" for none
  bool op_times = false;  // a line under each row shows the time per op
  bool serve = false;
  std::string checkpoint;  // writes the model to this directory and measures nothing; "": none
  // If not "", the program measures how long the checkpoint in this directory takes to load.
  std::string load;

  // A decode and a prefill at each depth.
  std::vector<SliceKind> slices() const;
};

// Adds the options to `app`. Parsing writes to `options`; CLI::ParseError names a wrong option.
void AddBenchOptions(CLI::App& app, BenchOptions* options);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_MODEL_OPTIONS_H_
