// The spec of a dense Transformer.
#include "backends/architectures/placement/dense_plan.h"

#include "backends/architectures/families/family.h"
#include "backends/errors/error.h"

namespace longstream {
namespace {

constexpr int kFitFull = 100;
constexpr int kFitWindows = 10;  // such a config is only opened to say that hwfa2 serves it

}  // namespace

int DenseFit(const Config& whole, std::string* why) {
  const Config config = TextConfig(whole);
  if (const Family* family = FindFamily(config)) {
    return HasWindows(config, *family) ? kFitWindows : kFitFull;
  }
  const auto [key, problem] = WhyNoFamily(config, "dense");
  *why = config.file() + ": " + std::string(key) + " " + problem;
  return 0;
}

ModelSpec DensePlan(const Config& whole, const LoadOptions& options) {
  const Config config = TextConfig(whole);
  const Family* family = FindFamily(config);
  if (family == nullptr) {
    const auto [key, problem] = WhyNoFamily(config, "dense");
    config.Unsupported(key, problem);
  }
  options.RefuseOverridesBut({"logn", "training_length", "rope_scaling"}, "dense",
                             "name the backend hwfa2 to load this checkpoint with it");
  ModelSpec spec = ReadFamily(config, options, *family).spec;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (spec.layers[i].kind == MixerKind::kFull) continue;
    throw BackendError(LS_UNIMPLEMENTED,
                       config.file() + ": layer " + std::to_string(i) + " has a window of " +
                           std::to_string(spec.layers[i].window) +
                           ", which the backend hwfa2 serves, expected full attention in every "
                           "layer");
  }
  ApplyLogN(config, options, &spec);
  RefuseIdleOptions(options, spec, /*training_length_is_read=*/false);
  config.RefuseUnknown("the backend dense");
  return spec;
}

}  // namespace longstream
