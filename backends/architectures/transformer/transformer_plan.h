// The common part of specs of Llama's shape: sizes, block, attention, RoPE.
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_TRANSFORMER_PLAN_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_TRANSFORMER_PLAN_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/architectures/transformer/rope_config.h"
#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/spec/model_spec.h"

namespace longstream {

// The keys of a config's sizes. Where there are two keys for one size, the first present key
// counts, and the other must agree.
struct SizeKeys {
  using Either = std::array<std::string_view, 2>;
  Either width = {"hidden_size"};
  Either mlp_width = {"intermediate_size"};
  Either num_layers = {"num_hidden_layers"};
  Either num_heads = {"num_attention_heads"};
  Either context_limit = {"max_position_embeddings"};
};

// The values of absent keys.
struct TransformerDefaults {
  SizeKeys keys{};
  int64_t vocabulary = 0;     // 0: refused
  int64_t num_heads = 0;      // 0: refused
  int64_t num_kv_heads = 0;   // 0: as many as heads
  int64_t context_limit = 0;  // 0: refused
  int64_t mlp_factor = 0;     // width of the MLP / width of the model; 0: refused
  int64_t head_dim = 0;       // 0: hidden_size / num_attention_heads
  RopeDefaults rope{};
  double norm_eps = 1e-6;
  bool tied_head = false;
  Activation activation = Activation::kSilu;
  bool gelu_is_tanh = false;  // hidden_act "gelu" means the tanh approximation
  // Whether an absent training_length is max_position_embeddings.
  bool trained_to_limit = false;
  bool gau = false;  // whether block_type may be gau
};

// A spec under construction: the base, which a backend or family completes.
struct TransformerPlan {
  ModelSpec spec;        // every layer full attention with RoPE, no biases, no QK-norm
  RopeSpec full_rope;    // of full attention
  RopeSpec window_rope;  // of window attention

  // Make a layer attention over the last `window` tokens, or over all tokens.
  void SetWindow(size_t layer, int64_t window);
  void SetFull(size_t layer);
};

// Reads the base of a config. Refuses, by name, keys that ask for a form of the block that is not
// served. Throws BackendError.
TransformerPlan ReadTransformer(const Config& config, const LoadOptions& options,
                                std::string_view architecture, const TransformerDefaults& defaults);

// The largest numbers of layers, heads and so on that a config may state; larger numbers are
// mistakes. With these limits a spec takes megabytes at most, although it has frequencies for each
// layer.
inline constexpr int64_t kMaxLayers = 1 << 12;
inline constexpr int64_t kMaxWidth = int64_t{1} << 24;  // also of all heads together
inline constexpr int64_t kMaxHeadWidth = 1 << 12;
inline constexpr int64_t kMaxWindow = int64_t{1} << 30;
inline constexpr int64_t kMaxPositions = int64_t{1} << 40;

// Refuses `heads`, the number under `key`, if all heads together are wider than kMaxWidth.
void RequireHeadsFit(const Config& config, std::string_view key, int64_t heads, int64_t head_dim);

// Reads attention_bias: biases on q, k, v and o of every layer.
void ReadAttentionBias(const Config& config, ModelSpec* spec);

// Reads mlp_bias: biases on the three products of the MLP.
void ReadMlpBias(const Config& config, ModelSpec* spec);

// RMSNorm per head on q and k of every layer.
void SetQkNorm(ModelSpec* spec);

// Refuses checkpoints that another program has quantised in a way that is not served
// (ReadQuantisation). ReadTransformer calls this function too.
void RefuseOtherQuantisation(const Config& config);

// Refuse a key that asks for something that the block does not compute, unless it has its usual
// value.
void RequireString(const Config& config, std::string_view key, std::string_view usual);
void RequireFalse(const Config& config, std::string_view key);
void RequireTrue(const Config& config, std::string_view key);

// The activation that a key names; nullopt: it is absent.
std::optional<Activation> FindActivation(const Config& config, std::string_view key);

// layer_types: whether each layer is sliding_attention; nullopt: it is absent. Refuses other types
// and a number of entries other than num_layers.
std::optional<std::vector<bool>> FindWindowLayers(const Config& config, size_t num_layers);

// Applies logn_scaling, or the option `logn`, which replaces it, to every full-attention layer of
// `spec`. Needs spec->training_length. If no layer is full attention, the option `logn` is refused,
// and logn_scaling has no effect.
void ApplyLogN(const Config& config, const LoadOptions& options, ModelSpec* spec);

// The training length, at least 2. If neither config nor options state one: LS_INVALID_ARGUMENT,
// naming `needed_by`.
int64_t RequiredTrainingLength(const Config& config, const ModelSpec& spec,
                               std::string_view needed_by);

// Throws LS_INVALID_ARGUMENT: the option would change nothing.
[[noreturn]] void RefuseIdleOption(std::string_view name, std::string_view why);

// Refuses the option training_length unless log n scaling or (training_length_is_read) something
// else reads it. Refuses rope_scaling if no layer rotates. Called when the layers are complete.
void RefuseIdleOptions(const LoadOptions& options, const ModelSpec& spec,
                       bool training_length_is_read);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_TRANSFORMER_PLAN_H_
