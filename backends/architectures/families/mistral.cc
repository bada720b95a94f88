// Mistral (arXiv 2310.06825): no biases, and one window for all layers or none.
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

constexpr int64_t kWindowOfConfigClass = 4096;

void Read(const Config& config, TransformerPlan* plan) {
  RequireFalse(config, "attention_bias");
  RequireFalse(config, "mlp_bias");
  ReadWindowOfAllLayers(config, kWindowOfConfigClass, plan);
}

}  // namespace

const Family& Mistral() {
  static constexpr Family kFamily = {
      .model_type = "mistral",
      .defaults = {.rope = {.dictionary = RopeDictionary::kOne}, .trained_to_limit = true},
      .read = Read};
  return kFamily;
}

}  // namespace longstream::families
