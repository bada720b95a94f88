// From a checkpoint's tensors to the packed weights that a decoder reads: which tensor goes where.
#include "backends/common/weights/load_weights.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/common/weights/alibi_slopes.h"
#include "backends/common/weights/packed_cache.h"
#include "backends/common/weights/weight_memory.h"
#include "backends/common/weights/weight_reader.h"

namespace longstream {
namespace {

// Output rows of a mixer's projections of its input.
struct MixerRows {
  int64_t q;
  int64_t k;
  int64_t v;
  int64_t gate;  // output gate, or the gated RNN's f; 0: none
  int64_t out;   // inputs of W_o

  explicit MixerRows(const MixerSpec& mixer)
      : q(int64_t{mixer.num_heads} * mixer.head_dim),
        k(int64_t{mixer.num_kv_heads} * mixer.head_dim),
        v(int64_t{mixer.num_kv_heads} * mixer.value_dim),
        gate(mixer.kind == MixerKind::kGatedRnn ? q : 0),
        out(int64_t{mixer.num_heads} * mixer.value_dim) {
    if (mixer.output_gate) gate = out;
  }
};

std::string GateName(const MixerSpec& mixer) {
  switch (mixer.kind) {
    case MixerKind::kFull:
    case MixerKind::kWindow:
      return "o_gate";
    case MixerKind::kLightning:
      return "z_proj";
    case MixerKind::kGatedRnn:
      return "f_proj";
  }
  return "";
}

void ReadMixer(const MixerSpec& mixer, int64_t width, const std::string& prefix,
               WeightReader* reader, LayerWeights* layer) {
  const MixerRows rows(mixer);
  const std::string gate = prefix + GateName(mixer);
  const bool gated_rnn = mixer.kind == MixerKind::kGatedRnn;
  const bool value_apart = mixer.position == PositionKind::kChunkedRope;

  std::vector<WeightPart> in = {{prefix + "q_proj.weight", rows.q},
                                {prefix + "k_proj.weight", rows.k}};
  std::vector<WeightPart> in_bias = {{prefix + "q_proj.bias", rows.q},
                                     {prefix + "k_proj.bias", rows.k}};
  const WeightPart value = {prefix + "v_proj.weight", rows.v};
  const WeightPart value_bias = {prefix + "v_proj.bias", rows.v};
  if (!value_apart) {
    in.push_back(value);
    in_bias.push_back(value_bias);
  }
  if (!mixer.qkv_bias) {
    for (WeightPart& part : in_bias) part.name.clear();
  }
  if (rows.gate > 0) {
    in.push_back({gate + ".weight", rows.gate});
    in_bias.push_back({gated_rnn ? gate + ".bias" : "", rows.gate});
  }
  layer->mixer_in = reader->Projection(in, width);
  if (mixer.qkv_bias || gated_rnn) layer->mixer_in_bias = reader->Vector(in_bias);
  if (value_apart) {
    layer->value = reader->Projection({value}, width);
    if (mixer.qkv_bias) layer->value_bias = reader->Vector({value_bias});
  }
  if (mixer.qk_norm) {
    layer->q_norm = reader->Vector({{prefix + "q_norm.weight", mixer.head_dim}});
    layer->k_norm = reader->Vector({{prefix + "k_norm.weight", mixer.head_dim}});
  }
  if (mixer.output_norm)
    layer->output_norm = reader->Vector({{prefix + "o_norm.weight", rows.out}});
  if (mixer.kind == MixerKind::kLightning) {
    layer->log_decay = reader->Constants(LightningLogDecay(mixer.num_heads));
  }
  if (mixer.position == PositionKind::kAlibi) {
    layer->alibi_slopes = reader->Constants(AlibiSlopes(mixer.num_heads));
  }
  layer->mixer_out = reader->Projection({{prefix + "o_proj.weight", width}}, rows.out);
  if (mixer.output_bias) layer->mixer_out_bias = reader->Vector({{prefix + "o_proj.bias", width}});
}

LayerWeights ReadLayer(const ModelSpec& spec, size_t index, WeightReader* reader) {
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  LayerWeights layer;
  layer.mixer_norm = reader->Vector({{prefix + "input_layernorm.weight", spec.width}});
  ReadMixer(spec.layers[index], spec.width, prefix + "self_attn.", reader, &layer);
  layer.mlp_norm = reader->Vector({{prefix + "post_attention_layernorm.weight", spec.width}});
  std::tie(layer.mlp_gate, layer.mlp_up) =
      reader->Pair({prefix + "mlp.gate_proj.weight", spec.mlp_width},
                   {prefix + "mlp.up_proj.weight", spec.mlp_width}, spec.width);
  layer.mlp_down =
      reader->Projection({{prefix + "mlp.down_proj.weight", spec.width}}, spec.mlp_width);
  return layer;
}

ModelWeights ReadModel(const ModelSpec& spec, WeightReader* reader) {
  ModelWeights weights;
  weights.embedding =
      reader->Projection({{"model.embed_tokens.weight", spec.vocabulary}}, spec.width);
  if (spec.tied_head) {
    weights.head = weights.embedding;
    reader->RequireCopy("lm_head.weight", "model.embed_tokens.weight");
  } else {
    weights.head = reader->Projection({{"lm_head.weight", spec.vocabulary}}, spec.width);
  }
  if (spec.chunked()) {
    weights.chunk_embedding =
        reader->Table("model.chunk_embed.weight", spec.num_chunks, spec.width);
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    weights.layers.push_back(ReadLayer(spec, i, reader));
  }
  weights.final_norm = reader->Vector({{"model.norm.weight", spec.width}});
  reader->RefuseUnread();
  return weights;
}

}  // namespace

ModelWeights LoadWeights(const ModelSpec& spec, const Checkpoint& checkpoint,
                         const LoadOptions& options, const OpTable& ops, const Executor& executor,
                         Device& device, const LoadLog& log) {
  using Mode = WeightReader::Mode;
  WeightReader check(Mode::kCheck, checkpoint, options, ops, executor, device);
  ReadModel(spec, &check);
  const PackedWeightsPlan& plan = check.plan();

  OwnedMemory memory;
  std::optional<WeightTotals> totals;
  std::optional<PackedCache> cache;
  const auto bytes = [&] { return std::span(static_cast<std::byte*>(memory.get()), plan.bytes); };
  if (device.host_memory()) {
    cache.emplace(options, checkpoint, ops, plan, log);
    memory = AllocateWeights(device, plan.bytes);
    totals = cache->Read(bytes(), executor);
  }
  const Mode mode = totals ? Mode::kPlace : Mode::kPack;
  if (!totals) {
    memory.reset();  // before there are two
    memory = AllocateWeights(device, plan.bytes);
  }
  WeightReader reader(mode, checkpoint, options, ops, executor, device, bytes().data());
  ModelWeights weights = ReadModel(spec, &reader);
  if (!totals) {
    totals = reader.totals();
    if (cache) cache->Write(bytes(), *totals, executor);
  }
  weights.num_parameters = totals->num_parameters;
  weights.fingerprint = totals->fingerprint;
  weights.bytes = plan.bytes;
  weights.storage.push_back(std::move(memory));
  return weights;
}

}  // namespace longstream
