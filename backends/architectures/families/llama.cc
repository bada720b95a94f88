// Llama and models of its shape (arXiv 2302.13971, 2407.21783).
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

void Read(const Config& config, TransformerPlan* plan) {
  ReadAttentionBias(config, &plan->spec);
  ReadMlpBias(config, &plan->spec);
}

}  // namespace

const Family& Llama() {
  static constexpr Family kFamily = {.model_type = "llama",
                                     .defaults = {.context_limit = 2048,
                                                  .rope = {.dictionary = RopeDictionary::kOne},
                                                  .trained_to_limit = true,
                                                  .gau = true},
                                     .read = Read};
  return kFamily;
}

}  // namespace longstream::families
