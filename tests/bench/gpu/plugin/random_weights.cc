// Opens a model whose weights are random numbers, made on its device. Only config.json is read. A
// plugin with this file gets no OpenModel from the library.
#include <memory>
#include <utility>

#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/runtime/model.h"
#include "tests/bench/gpu/gpu_bench.h"
#include "tests/bench/gpu/gpu_model.h"

namespace longstream {

std::unique_ptr<Model> OpenModel(const BackendDefinition& definition,
                                 const ls_model_options& options, const OpTable& ops,
                                 Device& device) {
  const Executor executor{options.host->context, options.host->num_threads,
                          options.host->parallel_run};
  ModelSpec spec = definition.plan(Config(options.directory), LoadOptions(options.options));
  GpuBench bench(device, executor);
  ModelWeights weights = GpuWeights(bench, spec);
  const ModelLimits limits = {options.cache_bytes_budget, options.max_batch_tokens,
                              options.max_batch_sequences};
  return std::make_unique<Model>(std::move(spec), std::move(weights), DType::kBF16, ops, executor,
                                 limits, device);
}

}  // namespace longstream
