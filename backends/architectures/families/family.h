// Families of checkpoints, named by model_type as in transformers. Each family has a file that says
// how it differs from Llama. docs/checkpoints.md says how to add one.
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_FAMILIES_FAMILY_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_FAMILIES_FAMILY_H_

#include <string>
#include <string_view>

#include "backends/architectures/transformer/transformer_plan.h"
#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/spec/tensor_names.h"

namespace longstream {

struct Family {
  std::string_view model_type;
  // The values that the family's config class gives to absent keys.
  TransformerDefaults defaults{};
  TensorNames names{};
  // Whether the class reads partial_rotary_factor in plain RoPE. Replaces
  // defaults.rope.rotates_parts.
  bool rotates_parts = false;
  // Reads the keys that ReadTransformer does not know and applies them to the layers. Throws
  // BackendError. A layer whose window holds the whole context may remain a window layer.
  void (*read)(const Config& config, TransformerPlan* plan) = nullptr;
};

// The config of the language model: `config` itself or, if the checkpoint has a vision model, its
// text_config. The keys beside text_config must not concern text. Throws BackendError.
Config TextConfig(const Config& config);

// The family of a config's model_type; nullptr: there is none.
const Family* FindFamily(const Config& config);
// The names of all families, as "llama, mistral, ...".
std::string FamilyNames();

// Why `backend` does not serve a config of no family: a key, and the problem with its value.
// `besides`: a model_type that the backend serves although no family has it.
struct NoFamily {
  std::string_view key;
  std::string problem;
};
NoFamily WhyNoFamily(const Config& config, std::string_view backend, std::string_view besides = "");

// Makes the spec of a family's config before the options override it. Reads the family's keys and
// full_position, which says how the full-attention layers encode positions. Windows that hold the
// whole context become full attention. Throws BackendError.
TransformerPlan ReadFamily(const Config& config, const LoadOptions& options, const Family& family);

// Whether a config of a family has window attention, which makes it a model of the backend hwfa2.
// False if the config cannot be read: the backend that opens it reports the error.
bool HasWindows(const Config& config, const Family& family);

// The functions below read keys that several families have.

// Reads the keys use_sliding_window, sliding_window and layer_types. sliding_window counts only if
// use_sliding_window is true; null: no window; absent: `absent`. If `window` is nullopt, no layer
// has a window, and the function has refused a layer_types that asks for one.
struct WindowKeys {
  std::optional<int64_t> window;
  std::optional<std::vector<bool>> layers;  // layer_types: whether each layer has the window
};
WindowKeys ReadUseSlidingWindow(const Config& config, size_t num_layers,
                                std::optional<int64_t> absent);

// Qwen's use_sliding_window with max_window_layers: layers from max_window_layers on have windows,
// unless layer_types lists the window layers. dual_chunk_attention_config (in releases for a
// million tokens) changes nothing, as in transformers.
void ReadQwenAttention(const Config& config, TransformerPlan* plan);

// Whether each layer has a window: from layer_types (transformers 5), else by the rule of older
// configs that every layer but each `pattern`-th has one.
std::vector<bool> ReadWindowPattern(const Config& config, size_t num_layers, int64_t pattern);

// Sets ALiBi in every layer, and LayerNorm with epsilon layer_norm_epsilon (default 1e-5).
void SetAlibiAndLayerNorm(const Config& config, ModelSpec* spec);

// States that in every layer, pairs of RoPE are neighbours in the checkpoint.
void SetNeighbours(TransformerPlan* plan);

// Applies sliding_window to every layer; null: no window. `absent`: the window if the key is
// absent; 0: none.
void ReadWindowOfAllLayers(const Config& config, int64_t absent, TransformerPlan* plan);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_FAMILIES_FAMILY_H_
