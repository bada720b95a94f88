// Families of checkpoints, as transformers names them by model_type: what sets each apart from
// Llama, in a file of its own. docs/checkpoints.md says how one is added.
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
  // What its config class takes an absent key for.
  TransformerDefaults defaults{};
  TensorNames names{};
  // Reads the keys that ReadTransformer does not know and sets what they say of the layers. Throws
  // BackendError. A layer whose window holds the whole context may be left a window.
  void (*read)(const Config& config, TransformerPlan* plan) = nullptr;
};

// The config of the language model: `config` itself or, of a checkpoint with a vision model, its
// text_config; what is beside that is then known to say nothing of text. Throws BackendError.
Config TextConfig(const Config& config);

// The family that a config's model_type names; nullptr for any other.
const Family* FindFamily(const Config& config);
// "llama, mistral, ..."
std::string FamilyNames();

// Why a backend serves a config of no family: a key, and what is wrong with its value. `besides`: a
// model_type that is none of a family.
struct NoFamily {
  std::string_view key;
  std::string problem;
};
NoFamily WhyNoFamily(const Config& config, std::string_view backend, std::string_view besides = "");

// The plan of a config of a family as it stands, before overrides by options. Besides what the
// family reads, full_position says how the full-attention layers know positions. Windows that hold
// the whole context become full attention. Throws BackendError.
TransformerPlan ReadFamily(const Config& config, const LoadOptions& options, const Family& family);

// Whether a config of a family has window attention, and so belongs to the backend hwfa2. False
// too where it cannot be read: the backend that opens it says why.
bool HasWindows(const Config& config, const Family& family);

// Keys that several families have.

// use_sliding_window, and sliding_window, which counts beside it only; nullopt where no layer has a
// window. layer_types beside it must not ask for one then.
struct WindowKeys {
  std::optional<int64_t> window;
  std::optional<std::vector<bool>> layers;  // layer_types: which have it
};
WindowKeys ReadUseSlidingWindow(const Config& config, size_t num_layers);

// use_sliding_window with max_window_layers, as Qwen has them: windows from that layer on, where
// layer_types does not list them. dual_chunk_attention_config, of the releases for a million
// tokens, is known and changes nothing, as in transformers.
void ReadQwenAttention(const Config& config, TransformerPlan* plan);

// The window layers as transformers 5 writes them or as older configs do, which have windows but in
// each `pattern`-th layer: layer_types, else that rule.
std::vector<bool> ReadWindowPattern(const Config& config, size_t num_layers, int64_t pattern);

// rope_scaling, the older form of a config with one RoPE for each layer type, is that of full
// attention: windows get plain RoPE of this base. Nothing to do beside rope_parameters.
void SetPlainWindowRope(const Config& config, double theta, TransformerPlan* plan);

// ALiBi in every layer, LayerNorm whose epsilon is layer_norm_epsilon (1e-5).
void SetAlibiAndLayerNorm(const Config& config, ModelSpec* spec);

// Pairs of RoPE are neighbours in the checkpoint, in every layer.
void SetNeighbours(TransformerPlan* plan);

// sliding_window in every layer; null: none. `absent`: what an absent key means, 0 for none.
void ReadWindowOfAllLayers(const Config& config, int64_t absent, TransformerPlan* plan);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_FAMILIES_FAMILY_H_
