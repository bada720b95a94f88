// The ABI's description of a model.
#include "backends/common/plugin/model_description.h"

#include <bit>
#include <cstdint>

#include "backends/common/weights/fingerprint.h"

namespace longstream {
namespace {

const char* PositionName(const MixerSpec& mixer) {
  switch (mixer.position) {
    case PositionKind::kNone:
      return mixer.recurrent() ? "none" : "nope";
    case PositionKind::kRope:
      return "rope";
    case PositionKind::kRerope:
      return "rerope";
    case PositionKind::kLeakyRerope:
      return "leaky_rerope";
    case PositionKind::kChunkedRope:
      return "chunked_rope";
  }
  return "";
}

ls_layer_info Describe(const MixerSpec& mixer, const LayerCacheLayout& layout) {
  ls_layer_info info{};
  info.kind = mixer.recurrent()                  ? LS_LAYER_RECURRENT
              : mixer.kind == MixerKind::kWindow ? LS_LAYER_WINDOW
                                                 : LS_LAYER_FULL;
  info.position = PositionName(mixer);
  if (layout.ring) info.window = static_cast<uint64_t>(layout.ring->window);
  if (layout.near) info.window = static_cast<uint64_t>(layout.near->window);
  info.bytes_per_token = layout.bytes_per_token;
  info.bytes_fixed = layout.bytes_fixed;
  return info;
}

// Every number of the spec that shapes what a cache holds or how it is read. The context limit is
// not among them: a snapshot carries its position.
class Fingerprint {
 public:
  explicit Fingerprint(uint64_t weights) : hash_(weights) {}

  template <typename Number>
  void Add(Number value) {
    if constexpr (std::is_floating_point_v<Number>) {
      hash_ = HashAppend(hash_, std::bit_cast<uint64_t>(static_cast<double>(value)));
    } else {
      hash_ = HashAppend(hash_, static_cast<uint64_t>(value));
    }
  }

  void Add(const MixerSpec& m) {
    Add(m.kind), Add(m.position), Add(m.num_heads), Add(m.num_kv_heads), Add(m.head_dim);
    Add(m.value_dim), Add(m.qk_norm), Add(m.rope_theta), Add(m.window), Add(m.rerope_window);
    Add(m.leaky_factor), Add(m.logit_scale), Add(m.logit_scale_base), Add(m.score_scale);
    Add(m.output_gate), Add(m.output_norm);
  }

  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_;
};

uint64_t FingerprintOf(const ModelSpec& spec, const ModelWeights& weights,
                       const CacheLayout& layout) {
  Fingerprint fingerprint(weights.fingerprint);
  fingerprint.Add(layout.type), fingerprint.Add(kPageTokens), fingerprint.Add(kPrefillGrid);
  fingerprint.Add(spec.norm_eps), fingerprint.Add(spec.embedding_multiplier);
  fingerprint.Add(spec.residual_multiplier), fingerprint.Add(spec.logit_multiplier);
  fingerprint.Add(spec.chunk_size);
  for (const MixerSpec& mixer : spec.layers) fingerprint.Add(mixer);
  return fingerprint.value();
}

}  // namespace

ModelDescription::ModelDescription(const ModelSpec& spec, const ModelWeights& weights,
                                   const CacheLayout& layout)
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
  info_.prefill_grid = kPrefillGrid;
  info_.page_tokens = layout.has_pages() ? kPageTokens : 0;
  info_.kv_bytes_per_token = layout.bytes_per_token;
  info_.window_bytes_per_sequence = layout.ring_bytes;
  info_.state_bytes_per_sequence = layout.state_bytes;
  info_.checkpoint_bytes_per_sequence = layout.checkpoint_bytes;
  info_.fingerprint = FingerprintOf(spec, weights, layout);
}

}  // namespace longstream
