// The spec of HypeNet: linear RNN layers with rotary positions, and attention layers without
// positions (HyPE). Two profiles, `published` and `chunked`; docs/models.md has the equations.
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_HYPENET_HYPENET_PLAN_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_HYPENET_HYPENET_PLAN_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/spec/model_spec.h"

namespace longstream {

// 100 for model_type hypenet or minicpm_sala and for the architectures HypeNetForCausalLM and
// HybridForCausalLM, else 0 with the reason in *why.
int HypenetFit(const Config& config, std::string* why);

// Serves only the override context_limit. Throws BackendError.
ModelSpec HypenetPlan(const Config& config, const LoadOptions& options);

// How configs with lightning layers name their keys, and the values that absent keys have.
struct LightningDialect {
  std::string_view attention = "attn";  // the name of attention layers in mixer_types
  // A further name of lightning layers in mixer_types, besides lightning-attn and lightning_attn.
  std::optional<std::string_view> lightning;
  bool attention_qk_norm = true;
  bool attention_rope = true;  // the value of attn_use_rope if it is absent
  bool used = false;           // the value of the keys of gates and norms if they are absent
  // The keys of lightning layers.
  std::string_view qk_norm = "lightning_use_qk_norm";
  std::string_view output_norm = "lightning_use_output_norm";
  std::string_view output_gate = "lightning_use_output_gate";
};

// A value of mixer_types and the layer that it asks for.
struct NamedMixer {
  std::string_view name;
  MixerSpec mixer;
  std::vector<std::string_view> other_spellings{};
};
// Sets each layer to the mixer that `types` names. Refuses other names, and types for another
// number of layers; `where` ends the sentence that lists the names.
void SetMixers(const Config& config, const std::vector<std::string>& types,
               const std::vector<NamedMixer>& mixers, std::string_view where, ModelSpec* spec);

// Set the layers of one profile. *spec already has the base of the config (ReadTransformer).
void PublishedLayers(const Config& config, const LightningDialect& dialect, ModelSpec* spec);
void ChunkedLayers(const Config& config, const LoadOptions& options, ModelSpec* spec);

// Makes the spec of MiniCPM-SALA. Layers that were trained with sparse attention get dense
// attention.
ModelSpec MiniCpmSalaPlan(const Config& config, const LoadOptions& options);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_HYPENET_HYPENET_PLAN_H_
