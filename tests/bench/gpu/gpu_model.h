// Models whose weights and contexts are random numbers, made on the GPU. They cost no checkpoint
// and no prefill.
#ifndef LONGSTREAM_TESTS_BENCH_GPU_GPU_MODEL_H_
#define LONGSTREAM_TESTS_BENCH_GPU_GPU_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/runtime/model.h"
#include "backends/spec/model_spec.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace longstream {

// Makes every weight of `spec`, in bf16. Throws BackendError if there is no memory.
ModelWeights GpuWeights(GpuBench& bench, const ModelSpec& spec);

// A model of the shape and plan (bench_plans.h) for steps of at most 512 rows, with all memory of
// the GPU for caches.
std::unique_ptr<Model> MakeGpuModel(GpuBench& bench, const std::string& shape,
                                    const std::string& plan, uint32_t max_batch_sequences);

// The number of steps of a measurement, with its warm-up.
int NumSteps(const BenchSizes& sizes);

// `count` sequences of `context` tokens of random numbers, with room for the steps of a
// measurement. REQUIRES: the model has no other sequences.
std::vector<std::unique_ptr<ls_sequence>> FakeSequences(GpuBench& bench, Model& model, int count,
                                                        int64_t context);

// The seconds of a step, on average over a round.
struct StepTimes {
  double step = 0;
  double waiting = 0;  // of the step, for the GPU
};

// Decodes one token per sequence and step, with two tickets in flight, and each step feeds the
// tokens of the step before, as an engine does. Returns the round whose steps take the median time.
// The time of a recurrence depends on the distance to the grid line, so a round has a step at each
// distance.
StepTimes MeasureSteps(const BenchSizes& sizes, Model& model,
                       const std::vector<std::unique_ptr<ls_sequence>>& sequences);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_GPU_GPU_MODEL_H_
