// Keys of mixtures of experts that several families have.
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_FAMILIES_EXPERT_KEYS_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_FAMILIES_EXPERT_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backends/architectures/transformer/transformer_plan.h"
#include "backends/checkpoint/config.h"

namespace longstream {

// The values that a family's config class gives to absent keys, and the key of an expert's width.
struct ExpertDefaults {
  int64_t num_experts = 0;
  int64_t num_chosen = 0;
  std::string_view width_key = "moe_intermediate_size";
  int64_t width = 0;  // 0: refused
};

// Reads num_experts (or num_local_experts, the same key by another name), num_experts_per_tok and
// the width of an expert. Keys that only training reads have no effect. Throws BackendError.
ExpertsSpec ReadExperts(const Config& config, const ExpertDefaults& defaults);

// Refuses 0 experts, for families whose layers all need some.
void RequireExperts(const Config& config, const ExpertsSpec& experts);

// Makes a mixture of experts of each layer from `first` on.
void SetExperts(const ExpertsSpec& experts, size_t first, TransformerPlan* plan);

// Makes mixtures of experts of the layers i of Qwen's rule: mlp_only_layers does not list i, and
// decoder_sparse_step (1) divides i + 1. With 0 experts all layers are dense.
void SetQwenExperts(const Config& config, const ExpertsSpec& experts, TransformerPlan* plan);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_FAMILIES_EXPERT_KEYS_H_
