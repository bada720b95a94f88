// The ABI's description of a model.
#include "backends/runtime/model_description.h"

#include <bit>
#include <cstdint>

#include "backends/packing/fingerprint.h"

namespace longstream {
namespace {

const char* PositionName(const MixerSpec& mixer, bool recurrent) {
  switch (mixer.position) {
    case PositionKind::kNone:
      return recurrent ? "none" : "nope";
    case PositionKind::kRope:
      return "rope";
    case PositionKind::kRerope:
      return "rerope";
    case PositionKind::kLeakyRerope:
      return "leaky_rerope";
    case PositionKind::kChunkedRope:
      return "chunked_rope";
    case PositionKind::kAlibi:
      return "alibi";
  }
  return "";
}

ls_layer_info Describe(const MixerSpec& mixer, const LayerCacheLayout& layout) {
  ls_layer_info info{};
  info.kind = layout.recurrent ? LS_LAYER_RECURRENT : layout.ring ? LS_LAYER_WINDOW : LS_LAYER_FULL;
  info.position = PositionName(mixer, layout.recurrent.has_value());
  if (layout.ring) info.window = static_cast<uint64_t>(layout.ring->window);
  if (layout.near) info.window = static_cast<uint64_t>(layout.near->window);
  info.bytes_per_token = layout.bytes_per_token;
  info.bytes_fixed = layout.bytes_fixed;
  return info;
}

// Hashes every number of the spec that decides a cache's contents or how they are read. The context
// limit is not one of them: a snapshot carries its position.
class Fingerprint {
 public:
  explicit Fingerprint(uint64_t weights) : hash_(weights) {}

  template <typename... Numbers>
  void Add(Numbers... values) {
    for (const uint64_t bits : {Bits(values)...}) hash_ = HashAppend(hash_, bits);
  }

  void AddMixer(const MixerSpec& m) {
    Add(m.kind, m.position, m.num_heads, m.num_kv_heads, m.head_dim, m.value_dim, m.qk_norm,
        m.rope.theta, m.window, m.rerope_window, m.leaky_factor, m.logit_scale, m.logit_scale_base,
        m.score_scale, m.output_gate, m.output_norm);
    if (m.softcap > 0.0) Add(m.softcap);
    if (m.norm_before_clip) Add(m.norm_before_clip);
    if (m.qkv_clip > 0.0 || m.alibi_max != MixerSpec().alibi_max) Add(m.qkv_clip, m.alibi_max);
    if (m.rope == RopeSpec{.theta = m.rope.theta}) return;
    Add(m.rope.rotated, m.rope.neighbours, m.rope.magnitude);
    for (const double frequency : m.rope.inv_freq) Add(frequency);
  }

  void AddExperts(const ModelSpec& spec) {
    if (!spec.has_experts()) return;
    const ExpertsSpec& e = spec.experts;
    Add(e.num_experts, e.num_chosen, e.width, e.shared_width, e.shared, e.score, e.normalise,
        e.choice_bias, e.scale);
    for (const MixerSpec& layer : spec.layers) Add(layer.feed_forward);
  }

  uint64_t value() const { return hash_; }

 private:
  template <typename Number>
  static uint64_t Bits(Number value) {
    if constexpr (std::is_floating_point_v<Number>) {
      return std::bit_cast<uint64_t>(static_cast<double>(value));
    } else {
      return static_cast<uint64_t>(value);
    }
  }

  uint64_t hash_;
};

uint64_t FingerprintOf(const ModelSpec& spec, const ModelWeights& weights,
                       const CacheLayout& layout) {
  Fingerprint fingerprint(weights.fingerprint);
  fingerprint.Add(layout.page_type, kPageTokens, kPrefillGrid, spec.norm_eps,
                  spec.embedding_multiplier, spec.residual_multiplier, spec.logit_multiplier,
                  spec.chunk_size);
  if (spec.layer_norm || spec.parallel) fingerprint.Add(spec.layer_norm, spec.parallel);
  // 1 stands for gated attention units in existing snapshots.
  if (spec.layers.front().gau) fingerprint.Add(1);
  if (spec.logit_softcap > 0.0f) fingerprint.Add(spec.logit_softcap);
  if (spec.activation != Activation::kSilu) fingerprint.Add(spec.activation);
  for (const MixerSpec& mixer : spec.layers) fingerprint.AddMixer(mixer);
  fingerprint.AddExperts(spec);
  return fingerprint.value();
}

// A recurrence works on blocks of its grid. Other models may be cut more finely, so that a host can
// read a prompt in smaller pieces beside streams that wait for their next token.
uint32_t PrefillGrid(const CacheLayout& layout, const OpTable& ops) {
  return static_cast<uint32_t>(layout.has_states ? kPrefillGrid : ops.cut_grid);
}

}  // namespace

ModelDescription::ModelDescription(const ModelSpec& spec, const ModelWeights& weights,
                                   const CacheLayout& layout, const OpTable& ops)
    : architecture_(spec.architecture) {
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    layers_.push_back(Describe(spec.layers[i], layout.layers[i]));
  }
  info_.struct_size = sizeof(info_);
  info_.architecture = architecture_.c_str();
  info_.vocabulary_size = static_cast<uint32_t>(spec.vocabulary);
  info_.num_layers = static_cast<uint32_t>(layers_.size());
  info_.layers = layers_.data();
  info_.num_parameters = weights.num_parameters;
  info_.context_limit = static_cast<uint64_t>(spec.context_limit);
  info_.prefill_grid = PrefillGrid(layout, ops);
  info_.page_tokens = layout.has_pages() ? kPageTokens : 0;
  info_.kv_bytes_per_token = layout.bytes_per_token;
  info_.window_bytes_per_sequence = layout.ring_bytes;
  info_.state_bytes_per_sequence = layout.state_bytes;
  info_.checkpoint_bytes_per_sequence = layout.rollback_bytes;
  info_.fingerprint = FingerprintOf(spec, weights, layout);
  info_.kernels = ops.name;
}

}  // namespace longstream
