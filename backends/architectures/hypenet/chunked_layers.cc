// The chunked profile of HypeNet: attention with chunk-local positions before and behind gated RNN
// layers.
#include <string>
#include <vector>

#include "backends/architectures/hypenet/hypenet_plan.h"
#include "backends/architectures/transformer/transformer_plan.h"
#include "backends/errors/error.h"

namespace longstream {
namespace {

MixerSpec AttentionLayer(const Config& config, const MixerSpec& base) {
  MixerSpec mixer = base;
  mixer.position = PositionKind::kChunkedRope;
  const bool qk_norm = config.FindBool("use_qk_norm").value_or(true);
  mixer.qk_norm = qk_norm ? QkNorm::kHead : QkNorm::kNone;
  if (const auto window = config.FindInteger("attention_window", 1, kMaxWindow)) {
    mixer.kind = MixerKind::kWindow;
    mixer.window = static_cast<int32_t>(*window);
  }
  return mixer;
}

// rnn_state_dim is the total over the heads: a head's state is [state_dim / heads, d / heads].
MixerSpec RnnLayer(const Config& config, int64_t width) {
  const int64_t heads = config.FindInteger("rnn_heads", 1, kMaxWidth).value_or(1);
  if (width % heads != 0) {
    config.Invalid("rnn_heads", "must divide hidden_size = " + std::to_string(width) + ", found " +
                                    std::to_string(heads));
  }
  const int64_t state_dim = config.FindInteger("rnn_state_dim", 1, kMaxWidth).value_or(width / 2);
  if (state_dim == 0 || state_dim % heads != 0) {
    config.Invalid("rnn_state_dim", "must be a multiple of rnn_heads = " + std::to_string(heads) +
                                        ", found " + std::to_string(state_dim));
  }
  MixerSpec mixer;
  mixer.kind = MixerKind::kGatedRnn;
  mixer.position = PositionKind::kNone;
  mixer.num_heads = static_cast<int32_t>(heads);
  mixer.num_kv_heads = mixer.num_heads;
  mixer.head_dim = static_cast<int32_t>(state_dim / heads);
  mixer.value_dim = static_cast<int32_t>(width / heads);
  mixer.score_scale = 1.0;
  return mixer;
}

// The first and the last quarter of the layers are attention, the half between them is RNN.
std::vector<std::string> DefaultMixers(size_t num_layers) {
  std::vector<std::string> mixers(num_layers, "gated-rnn");
  for (size_t i = 0; i < num_layers; ++i) {
    if (i < num_layers / 4 || i >= 3 * num_layers / 4) mixers[i] = "attn";
  }
  return mixers;
}

}  // namespace

void ChunkedLayers(const Config& config, const LoadOptions& options, ModelSpec* spec) {
  spec->chunk_size = config.FindInteger("chunk_size", 1, kMaxWindow).value_or(2048);
  spec->num_chunks = config.FindInteger("num_chunks", 1, kMaxWindow).value_or(10000);
  // There are no positions beyond the table of chunk embeddings.
  const int64_t positions = spec->chunk_size * spec->num_chunks;
  if (options.context_limit().value_or(0) > positions) {
    throw BackendError(LS_INVALID_ARGUMENT,
                       "options: context_limit must be at most chunk_size * num_chunks = " +
                           std::to_string(positions) + ", found " +
                           std::to_string(*options.context_limit()));
  }
  if (spec->context_limit > positions) spec->context_limit = positions;

  const MixerSpec attention = AttentionLayer(config, spec->layers.front());
  const MixerSpec rnn = RnnLayer(config, spec->width);
  SetMixers(config, config.FindStrings("mixer_types").value_or(DefaultMixers(spec->layers.size())),
            {{"attn", attention}, {"gated-rnn", rnn}}, " in the chunked profile", spec);
}

}  // namespace longstream
