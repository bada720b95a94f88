// The layer plan of HypeNet: linear RNN layers with rotary positions among attention layers
// without (HyPE). Two profiles, `published` and `chunked`; docs/models.md has the equations.
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_HYPENET_HYPENET_PLAN_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_HYPENET_HYPENET_PLAN_H_

#include <string>
#include <string_view>

#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/spec/model_spec.h"

namespace longstream {

// 100 for model_type hypenet or minicpm_sala and for the architectures HypeNetForCausalLM and
// HybridForCausalLM, else 0 with the reason in *why.
int HypenetFit(const Config& config, std::string* why);

// Serves no override but context_limit. Throws BackendError.
ModelSpec HypenetPlan(const Config& config, const LoadOptions& options);

// What configs with lightning layers call the same, and what absent keys mean there.
struct LightningDialect {
  std::string_view attention = "attn";  // in mixer_types
  bool attention_qk_norm = true;
  bool attention_rope = true;                          // attn_use_rope absent
  bool used = false;                                   // keys of gates and norms absent
  std::string_view qk_norm = "lightning_use_qk_norm";  // of lightning layers
  std::string_view output_norm = "lightning_use_output_norm";
  std::string_view output_gate = "lightning_use_output_gate";
};

// Of a config whose base (ReadTransformer) is in *spec: the layers of one profile.
void PublishedLayers(const Config& config, const LightningDialect& dialect, ModelSpec* spec);
void ChunkedLayers(const Config& config, const LoadOptions& options, ModelSpec* spec);

// MiniCPM-SALA, with dense attention in the layers that it trained with sparse attention.
ModelSpec MiniCpmSalaPlan(const Config& config, const LoadOptions& options);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_HYPENET_HYPENET_PLAN_H_
