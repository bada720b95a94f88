// Opens a model from its directory.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/checkpoint/quantised/open_checkpoint.h"
#include "backends/errors/error.h"
#include "backends/model/layers.h"
#include "backends/packing/load_weights.h"
#include "backends/runtime/fitting_ops.h"
#include "backends/runtime/model.h"

namespace longstream {
namespace {

// Refuses sizes that the decoder's ops do not serve, before the first step would.
void CheckServed(const ModelSpec& spec, const Config& config) {
  const std::optional<TooWideHead> head = FindTooWideHead(spec);
  if (!head) return;
  config.Unsupported(head->mixer.gau ? "gau_key_dim" : "head_dim",
                     "must be at most " + std::to_string(head->most) +
                         " in attention layers, found " + std::to_string(head->mixer.head_dim));
}

// Refuses a model whose ops the library does not have.
void CheckServed(const ModelSpec& spec, const Config& config, const OpTable& ops) {
  if (HasExpertOps(ops) || !spec.has_experts()) return;
  config.Unsupported("model_type", "= " + config.Found("model_type") +
                                       " has mixtures of experts, which the ops " +
                                       std::string(ops.name) + " do not serve; set device: cpu");
}

// Refuses options that the ops do not serve.
void CheckServed(const LoadOptions& options, const OpTable& ops) {
  if (ops.int8_pages || options.CacheType(DType::kF32) != DType::kI8) return;
  throw BackendError(LS_UNIMPLEMENTED,
                     "options: cache: int8 is served on the CPU only, expected auto, f32, f16 or "
                     "bf16 with the ops " +
                         std::string(ops.name));
}

}  // namespace

std::unique_ptr<Model> OpenModel(const BackendDefinition& definition,
                                 const ls_model_options& options, const OpTable& ops,
                                 Device& device) {
  const Executor executor{options.host->context, options.host->num_threads,
                          options.host->parallel_run};
  const LoadOptions load_options(options.options);
  CheckServed(load_options, ops);
  Config config(options.directory);
  config.Remove(load_options.ignore_keys());
  ModelSpec spec = definition.plan(config, load_options);
  CheckServed(spec, config);
  CheckServed(spec, config, ops);
  const auto write = [host = options.host](int32_t severity, const std::string& sentence) {
    if (host->log != nullptr) host->log(host->context, severity, sentence.c_str());
  };
  for (const std::string& warning : config.warnings()) write(/*severity=*/2, warning);
  ModelWeights weights = LoadWeights(spec, OpenCheckpoint(options.directory, config), load_options,
                                     ops, executor, device, write);
  const DType cache_type = load_options.CacheType(weights.layers[0].mixer.in.type);
  return std::make_unique<Model>(std::move(spec), std::move(weights), cache_type, ops, executor,
                                 ModelLimits{options.cache_bytes_budget, options.max_batch_tokens,
                                             options.max_batch_sequences},
                                 device);
}

}  // namespace longstream
