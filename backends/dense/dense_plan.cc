// The layer plan of a dense Transformer.
#include "backends/dense/dense_plan.h"

#include "backends/common/plan/transformer_plan.h"

namespace longstream {

int DenseFit(const Config& config, std::string* why) {
  if (FindFamily(config) != nullptr) return 100;
  *why = config.file() + ": model_type must be one of " + FamilyNames() +
         " for the backend dense, found " + config.Found("model_type");
  return 0;
}

ModelSpec DensePlan(const Config& config, const LoadOptions& options) {
  const Family* family = FindFamily(config);
  if (family == nullptr) {
    config.Unsupported("model_type", "must be one of " + FamilyNames() +
                                         " for the backend dense, found " +
                                         config.Found("model_type"));
  }
  options.RefuseOverridesBut({"logn", "training_length"}, "dense",
                             "name the backend hwfa2 to load this checkpoint with it");
  ModelSpec spec = TransformerSpec(config, options, *family);
  const PositionKind position = ReadDensePosition(config);
  for (MixerSpec& mixer : spec.layers) mixer.position = position;
  ApplyLogN(config, options, &spec);
  RefuseIdleTrainingLength(options, spec, /*is_read=*/false);
  config.RefuseUnknown("the backend dense");
  return spec;
}

}  // namespace longstream
