// The part of a layer plan that all configs of Llama's shape share: sizes, block, attention, RoPE.
#ifndef LONGSTREAM_BACKENDS_COMMON_PLAN_TRANSFORMER_PLAN_H_
#define LONGSTREAM_BACKENDS_COMMON_PLAN_TRANSFORMER_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/common/layers/model_spec.h"
#include "backends/common/weights/config.h"
#include "backends/common/weights/load_options.h"

namespace longstream {

// Which projections of attention have a bias.
enum class BiasRule {
  kKey,  // q, k, v and o where attention_bias is true
  kQkv,  // q, k and v, always
};

// How a dense family says that its attention is windowed.
enum class WindowRule {
  kNone,
  kUseSlidingWindow,  // use_sliding_window, off by default (Qwen)
  kSlidingWindow,     // sliding_window, on unless it is null (Mistral)
};

// What sets a family apart. A new family of this shape is a new row in transformer_plan.cc.
struct Family {
  std::string_view model_type;
  bool qk_norm = false;
  BiasRule bias = BiasRule::kKey;
  WindowRule window = WindowRule::kNone;
  int64_t default_head_dim = 0;  // where the config has none; 0: hidden_size / num_attention_heads
  // Configs that never state training_length: it is then max_position_embeddings.
  bool trained_to_limit = false;
};

// The dense family that a config's model_type names; nullptr for any other.
const Family* FindFamily(const Config& config);
// "llama, mistral, ..."
std::string FamilyNames();

// The config as a dense Transformer: every layer full attention with RoPE. Keys that ask for a form
// of the block that is not served are refused by name. Throws BackendError.
ModelSpec TransformerSpec(const Config& config, const LoadOptions& options, const Family& family);

// How many layers, heads and so on a config may ask for; larger numbers are mistakes.
inline constexpr int64_t kMaxLayers = 1 << 16;
inline constexpr int64_t kMaxWidth = int64_t{1} << 24;
inline constexpr int64_t kMaxWindow = int64_t{1} << 30;
inline constexpr int64_t kMaxPositions = int64_t{1} << 40;

// logn_scaling, or the option `logn` in its place, on every full-attention layer of `spec`. Needs
// spec->training_length. The option is refused where no layer is full attention; the key then says
// nothing.
void ApplyLogN(const Config& config, const LoadOptions& options, ModelSpec* spec);

// full_position of a config of a dense family, for every layer: rope where it is absent.
PositionKind ReadDensePosition(const Config& config);

// The training length, at least 2; LS_INVALID_ARGUMENT naming what needs it where neither config
// nor options state one.
int64_t RequiredTrainingLength(const Config& config, const ModelSpec& spec,
                               std::string_view needed_by);

// Refuses an option that would change nothing, with LS_INVALID_ARGUMENT.
[[noreturn]] void RefuseIdleOption(std::string_view name, std::string_view why);

// Refuses the option training_length unless log n scaling or something else reads it, as `is_read`
// says. Called when the layers are complete.
void RefuseIdleTrainingLength(const LoadOptions& options, const ModelSpec& spec, bool is_read);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_COMMON_PLAN_TRANSFORMER_PLAN_H_
