// The published profile of HypeNet (arXiv 2601.22156): lightning and attention layers.
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/architectures/hypenet/hypenet_plan.h"
#include "backends/architectures/transformer/transformer_plan.h"

namespace longstream {
namespace {

constexpr double kDefaultHypeBase = 362.0;

// The base a of "hype" or "hype <a>".
std::optional<double> HypeBase(std::string_view text) {
  constexpr std::string_view kName = "hype";
  if (!text.starts_with(kName)) return std::nullopt;
  text.remove_prefix(kName.size());
  if (text.empty()) return kDefaultHypeBase;
  if (text.front() != ' ') return std::nullopt;
  text.remove_prefix(text.find_first_not_of(' ') == text.npos ? text.size()
                                                              : text.find_first_not_of(' '));
  double base = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  // The base must be above 1, because ln a is a divisor.
  return std::isfinite(base) && base > 1.0 ? std::optional(base) : std::nullopt;
}

// Reads attn_logits_scaling: null, "hype a", or a constant factor.
void SetLogitScale(const Config& config, MixerSpec* mixer) {
  constexpr const char* kKey = "attn_logits_scaling";
  if (config.IsString(kKey)) {
    const std::optional<double> base = HypeBase(config.String(kKey));
    if (!base) {
      config.Unsupported(kKey,
                         "must be null, a number, \"hype\" or \"hype a\" with a above 1, found " +
                             config.Found(kKey));
    }
    mixer->logit_scale = LogitScaleKind::kHype;
    mixer->logit_scale_base = *base;
  } else if (const std::optional<double> factor = config.FindNumber(kKey, 0.0, 1e6)) {
    mixer->score_scale *= *factor;
  }
}

MixerSpec AttentionLayer(const Config& config, const LightningDialect& dialect,
                         const MixerSpec& base) {
  MixerSpec mixer = base;
  mixer.qk_norm = dialect.attention_qk_norm ? QkNorm::kHead : QkNorm::kNone;
  mixer.position = config.FindBool("attn_use_rope").value_or(dialect.attention_rope)
                       ? PositionKind::kRope
                       : PositionKind::kNone;
  mixer.output_gate = config.FindBool("attn_use_output_gate").value_or(dialect.used);
  SetLogitScale(config, &mixer);
  return mixer;
}

// Reads lightning_scale: "1/sqrt(d)", "1/d" or 1.
double LightningScale(const Config& config, int32_t head_dim) {
  constexpr const char* kKey = "lightning_scale";
  const auto d = static_cast<double>(head_dim);
  const std::string text = config.IsString(kKey) ? config.String(kKey) : "";
  if (text == "1/sqrt(d)" || !config.Has(kKey)) return 1.0 / std::sqrt(d);
  if (text == "1/d") return 1.0 / d;
  if (text == "1" || text == "1.0") return 1.0;
  if (text.empty() && config.FindNumber(kKey, -1e6, 1e6) == 1.0) return 1.0;
  config.Unsupported(kKey, "must be \"1/sqrt(d)\", \"1/d\" or 1, found " + config.Found(kKey));
}

MixerSpec LightningLayer(const Config& config, const LightningDialect& dialect,
                         const MixerSpec& base) {
  if (config.FindBool("lightning_use_short_conv").value_or(false)) {
    config.Unsupported("lightning_use_short_conv", "must be false, found true");
  }
  // This key has no effect without the short convolution.
  config.FindInteger("lightning_conv_size", 1, kMaxWidth);
  // This key says whether rope_scaling applies here; no rope_scaling is served.
  config.FindBool("lightning_rope_scaling");
  MixerSpec mixer = base;
  mixer.kind = MixerKind::kLightning;
  const int64_t heads = config.FindInteger("lightning_nh", 1, kMaxWidth).value_or(base.num_heads);
  const int64_t kv_heads =
      config.FindInteger("lightning_nkv", 1, kMaxWidth).value_or(base.num_kv_heads);
  if (heads % kv_heads != 0) {
    config.Invalid("lightning_nkv", "must divide lightning_nh = " + std::to_string(heads) +
                                        ", found " + std::to_string(kv_heads));
  }
  const int64_t head_dim =
      config.FindInteger("lightning_head_dim", 1, kMaxHeadWidth).value_or(base.head_dim);
  const bool rope = config.FindBool("lightning_use_rope").value_or(true);
  if (rope && head_dim % 2 != 0) {
    config.Invalid("lightning_head_dim",
                   "must be even for RoPE, found " + std::to_string(head_dim));
  }
  RequireHeadsFit(config, "lightning_nh", heads, head_dim);
  mixer.num_heads = static_cast<int32_t>(heads);
  mixer.num_kv_heads = static_cast<int32_t>(kv_heads);
  mixer.head_dim = static_cast<int32_t>(head_dim);
  mixer.value_dim = mixer.head_dim;
  mixer.position = rope ? PositionKind::kRope : PositionKind::kNone;
  const bool qk_norm = config.FindBool(dialect.qk_norm).value_or(dialect.used);
  mixer.qk_norm = qk_norm ? QkNorm::kHead : QkNorm::kNone;
  mixer.output_norm = config.FindBool(dialect.output_norm).value_or(dialect.used);
  mixer.output_gate = config.FindBool(dialect.output_gate).value_or(dialect.used);
  mixer.score_scale = LightningScale(config, mixer.head_dim);
  return mixer;
}

}  // namespace

void PublishedLayers(const Config& config, const LightningDialect& dialect, ModelSpec* spec) {
  const MixerSpec base = spec->layers.front();
  const MixerSpec attention = AttentionLayer(config, dialect, base);
  const MixerSpec lightning = LightningLayer(config, dialect, base);
  std::vector<std::string_view> spellings = {"lightning_attn"};
  if (dialect.lightning) spellings.push_back(*dialect.lightning);
  SetMixers(config, config.Strings("mixer_types"),
            {{dialect.attention, attention}, {"lightning-attn", lightning, spellings}},
            /*where=*/"", spec);
}

}  // namespace longstream
