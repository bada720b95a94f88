// The part of a layer plan that all configs of Llama's shape share: sizes, block, attention, RoPE.
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_TRANSFORMER_PLAN_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_TRANSFORMER_PLAN_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/spec/model_spec.h"

namespace longstream {

// What a config calls its sizes: of two keys for one the first that is there counts, and the other
// must agree.
struct SizeKeys {
  using Either = std::array<std::string_view, 2>;
  Either width = {"hidden_size"};
  Either mlp_width = {"intermediate_size"};
  Either num_layers = {"num_hidden_layers"};
  Either num_heads = {"num_attention_heads"};
  Either context_limit = {"max_position_embeddings"};
};

// What a config means where it is silent.
struct TransformerDefaults {
  SizeKeys keys{};
  int64_t vocabulary = 0;     // 0: refused
  int64_t num_heads = 0;      // 0: refused
  int64_t num_kv_heads = 0;   // 0: as many as heads
  int64_t context_limit = 0;  // 0: refused
  int64_t mlp_factor = 0;     // MLP's width by the model's; 0: refused
  int64_t head_dim = 0;       // 0: hidden_size / num_attention_heads
  double rope_theta = 10000.0;
  double partial_rotary_factor = 1.0;
  double norm_eps = 1e-6;
  bool tied_head = false;
  Activation activation = Activation::kSilu;
  bool gelu_is_tanh = false;  // hidden_act "gelu" means its approximation
  // Configs that never state training_length: it is then max_position_embeddings.
  bool trained_to_limit = false;
  bool gau = false;  // block_type may be gau
};

// A plan on its way: the base, to which a backend or family adds what it reads.
struct TransformerPlan {
  ModelSpec spec;        // every layer full attention with RoPE, no biases, no QK-norm
  RopeSpec full_rope;    // of full attention
  RopeSpec window_rope;  // of window attention

  // Make a layer attention over the last `window` tokens, or over all.
  void SetWindow(size_t layer, int64_t window);
  void SetFull(size_t layer);
};

// The base that a config states. Keys that ask for a form of the block that is not served are
// refused by name. Throws BackendError.
TransformerPlan ReadTransformer(const Config& config, const LoadOptions& options,
                                std::string_view architecture, const TransformerDefaults& defaults);

// How many layers, heads and so on a config may ask for; larger numbers are mistakes.
// What a plan itself holds, frequencies of each layer's heads among it, stays in the megabytes.
inline constexpr int64_t kMaxLayers = 1 << 12;
inline constexpr int64_t kMaxWidth = int64_t{1} << 24;  // of all heads together too
inline constexpr int64_t kMaxHeadWidth = 1 << 12;
inline constexpr int64_t kMaxWindow = int64_t{1} << 30;
inline constexpr int64_t kMaxPositions = int64_t{1} << 40;

// Refuses `heads`, the number under `key`, where all of them together are wider than kMaxWidth.
void RequireHeadsFit(const Config& config, std::string_view key, int64_t heads, int64_t head_dim);

// attention_bias: biases on q, k, v and o of every layer.
void ReadAttentionBias(const Config& config, ModelSpec* spec);

// mlp_bias: biases on the three products of the MLP.
void ReadMlpBias(const Config& config, ModelSpec* spec);

// RMSNorm per head on q and k of every layer.
void SetQkNorm(ModelSpec* spec);

// Refuses the config of a checkpoint whose weights another program has quantised: their forms are
// its own. ReadTransformer does it too.
void RefuseQuantised(const Config& config);

// Refuse a key that asks for what the block does not compute, unless it has its usual value.
void RequireString(const Config& config, std::string_view key, std::string_view usual);
void RequireFalse(const Config& config, std::string_view key);
void RequireTrue(const Config& config, std::string_view key);

// The activation that a key names; nullopt where it is absent.
std::optional<Activation> FindActivation(const Config& config, std::string_view key);

// layer_types: whether each layer is sliding_attention; nullopt where it is absent. Another type is
// refused, and so is another number than num_layers.
std::optional<std::vector<bool>> FindWindowLayers(const Config& config, size_t num_layers);

// logn_scaling, or the option `logn` in its place, on every full-attention layer of `spec`. Needs
// spec->training_length. The option is refused where no layer is full attention; the key then says
// nothing.
void ApplyLogN(const Config& config, const LoadOptions& options, ModelSpec* spec);

// The training length, at least 2; LS_INVALID_ARGUMENT naming what needs it where neither config
// nor options state one.
int64_t RequiredTrainingLength(const Config& config, const ModelSpec& spec,
                               std::string_view needed_by);

// Refuses an option that would change nothing, with LS_INVALID_ARGUMENT.
[[noreturn]] void RefuseIdleOption(std::string_view name, std::string_view why);

// Refuses the option training_length unless log n scaling or something else reads it, as `is_read`
// says, and rope_scaling where no layer rotates. Called when the layers are complete.
void RefuseIdleOptions(const LoadOptions& options, const ModelSpec& spec,
                       bool training_length_is_read);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_TRANSFORMER_PLAN_H_
