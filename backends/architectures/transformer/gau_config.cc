// The keys of gated attention units.
#include "backends/architectures/transformer/gau_config.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backends/architectures/transformer/transformer_plan.h"

namespace longstream {
namespace {

// Refuses a key whose value contradicts block_type gau. With any other value the key has no effect.
void RequireBesideGau(const Config& config, std::string_view key, int64_t value,
                      std::string_view because) {
  const std::optional<int64_t> stated = config.FindInteger(key, 1, kMaxWidth);
  if (!stated || *stated == value) return;
  config.Invalid(key, "must be absent or " + std::string(because) + std::to_string(value) +
                          " beside block_type gau, found " + std::to_string(*stated));
}

}  // namespace

MixerSpec ReadGauMixer(const Config& config, int64_t width) {
  const int64_t s = config.FindInteger("gau_key_dim", 2, kMaxHeadWidth).value_or(128);
  const std::optional<int64_t> stated = config.FindInteger("gau_expansion", 1, kMaxWidth);
  const int64_t e = stated.value_or(2 * width);
  if (s % 2 != 0) {
    config.Invalid("gau_key_dim", "must be even for RoPE, found " + std::to_string(s));
  }
  if (e % s != 0) {
    config.Invalid("gau_expansion",
                   "is the width of values and must be a multiple of gau_key_dim = " +
                       std::to_string(s) + ", found " + std::to_string(e) +
                       (stated ? "" : ", which is 2 * hidden_size, as it is absent"));
  }
  RequireBesideGau(config, "head_dim", s, "gau_key_dim = ");
  RequireBesideGau(config, "intermediate_size", e, "gau_expansion = ");
  RequireBesideGau(config, "num_attention_heads", 1, "");
  RequireBesideGau(config, "num_key_value_heads", 1, "");
  for (const char* key : {"attention_bias", "mlp_bias", "use_qk_norm"}) RequireFalse(config, key);
  if (FindActivation(config, "hidden_act").value_or(Activation::kSilu) != Activation::kSilu) {
    config.Unsupported("hidden_act",
                       "must be silu beside block_type gau, found " + config.Found("hidden_act"));
  }
  MixerSpec mixer;
  mixer.gau = true;
  mixer.num_heads = mixer.num_kv_heads = 1;
  mixer.head_dim = static_cast<int32_t>(s);
  mixer.value_dim = static_cast<int32_t>(e);
  mixer.score_scale = 1.0 / std::sqrt(static_cast<double>(s));
  mixer.output_gate = true;
  return mixer;
}

TensorNames GauNames() {
  return {.final_norm = "",
          .mixer_norm = "",
          .mlp_norm = "",
          .stream_norm = "post_attention_layernorm"};
}

}  // namespace longstream
