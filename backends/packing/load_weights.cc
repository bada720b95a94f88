// Loads packed weights from a checkpoint: maps each tensor of the spec to its weight.
#include "backends/packing/load_weights.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/packing/alibi_slopes.h"
#include "backends/packing/packed_cache.h"
#include "backends/packing/weight_memory.h"
#include "backends/packing/weight_reader.h"

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

std::string_view GateName(const MixerSpec& mixer, const TensorNames& names) {
  switch (mixer.kind) {
    case MixerKind::kFull:
    case MixerKind::kWindow:
      return names.output_gate;
    case MixerKind::kLightning:
      return "self_attn.z_proj";
    case MixerKind::kGatedRnn:
      return "self_attn.f_proj";
  }
  return "";
}

// Where kernels expect element i of a stored head: they rotate halves i and i + D / 2, and pairs
// that do not rotate come last. Empty if heads are stored in that order.
std::vector<int32_t> HeadOrder(const MixerSpec& mixer) {
  const int32_t half = mixer.head_dim / 2;
  const int32_t turning = mixer.rope.rotated == 0 ? half : mixer.rope.rotated / 2;  // pairs
  if (!mixer.rotates() || (turning == half && !mixer.rope.neighbours)) return {};
  std::vector<int32_t> order;
  for (int32_t i = 0; i < mixer.head_dim; ++i) {
    if (i >= 2 * turning) {
      const int32_t pair = i - turning;  // of the first half, then of the second
      order.push_back(pair < half ? pair : i);
    } else if (mixer.rope.neighbours) {
      order.push_back(i / 2 + (i % 2 == 0 ? 0 : half));
    } else {
      order.push_back(i < turning ? i : i - turning + half);
    }
  }
  return order;
}

// A tensor has q, k and v head by head: the index of its element i among all of q, k and v. It has
// at most 3 kMaxWidth elements.
std::vector<int32_t> OrderByHead(const MixerSpec& mixer, const std::vector<int32_t>& head_order) {
  const int32_t width = mixer.head_dim;
  std::vector<int32_t> order;
  for (int32_t head = 0; head < mixer.num_heads; ++head) {
    for (int32_t part = 0; part < 3; ++part) {
      for (int32_t d = 0; d < width; ++d) {
        const bool turns = part < 2 && !head_order.empty();
        const int32_t to = turns ? head_order[static_cast<size_t>(d)] : d;
        order.push_back((part * mixer.num_heads + head) * width + to);
      }
    }
  }
  return order;
}

// Parts that are all or some rows of the tensors <prefix><name><suffix>. Parts with the same name
// come from one tensor, one below the other.
struct NamedRows {
  std::string_view name;
  int64_t rows;
  std::vector<int32_t> order{};
};
std::vector<WeightPart> Parts(const std::string& prefix, const std::vector<NamedRows>& named,
                              const char* suffix) {
  std::vector<WeightPart> parts;
  for (const NamedRows& rows : named) {
    WeightPart part = {prefix + std::string(rows.name) + suffix, rows.rows};
    part.order = rows.order;
    for (const NamedRows& other : named) {
      if (other.name != rows.name) continue;
      if (&other < &rows) part.first_row += other.rows;
      part.stored_rows += other.rows;
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// The number to add to a norm's stored weights.
float PlusOf(const ModelSpec& spec) { return spec.norms_less_one ? 1.0f : 0.0f; }

void ReadMixer(const ModelSpec& spec, const MixerSpec& mixer, const std::string& prefix,
               WeightReader* reader, LayerWeights* layer) {
  const TensorNames& names = spec.names;
  const MixerRows rows(mixer);
  const std::string gate = prefix + std::string(GateName(mixer, names));
  const bool gated_rnn = mixer.kind == MixerKind::kGatedRnn;
  const bool value_apart = mixer.position == PositionKind::kChunkedRope;
  const std::vector<int32_t> order = HeadOrder(mixer);

  std::vector<NamedRows> qkv = {
      {names.q, rows.q, order}, {names.k, rows.k, order}, {names.v, rows.v}};
  if (names.qkv_by_head) qkv = {{names.q, rows.q + rows.k + rows.v, OrderByHead(mixer, order)}};
  std::vector<WeightPart> in = Parts(prefix, qkv, ".weight");
  std::vector<WeightPart> in_bias = Parts(prefix, qkv, ".bias");
  const WeightPart value = in.back();
  const WeightPart value_bias = in_bias.back();
  if (value_apart) {
    in.pop_back();
    in_bias.pop_back();
  }
  if (!mixer.qkv_bias) {
    for (WeightPart& part : in_bias) part.name.clear();
  }
  if (rows.gate > 0) {
    in.push_back({gate + ".weight", rows.gate});
    in_bias.push_back({gated_rnn ? gate + ".bias" : "", rows.gate});
  }
  layer->mixer_in = reader->Projection(in, spec.width);
  if (mixer.qkv_bias || gated_rnn) layer->mixer_in_bias = reader->Vector(in_bias);
  if (value_apart) {
    layer->value = reader->Projection({value}, spec.width);
    if (mixer.qkv_bias) layer->value_bias = reader->Vector({value_bias});
  }
  if (mixer.qk_norm != QkNorm::kNone) {
    const auto norm = [&](std::string_view name, int64_t all) {
      const int64_t size = mixer.qk_norm == QkNorm::kHead ? mixer.head_dim : all;
      std::vector<WeightPart> parts = Parts(prefix, {{name, size, order}}, ".weight");
      if (mixer.qk_norm == QkNorm::kEachHead) parts.front().vector_cols = mixer.head_dim;
      return reader->Vector(parts, PlusOf(spec));
    };
    layer->q_norm = norm(names.q_norm, rows.q);
    layer->k_norm = norm(names.k_norm, rows.k);
  }
  if (mixer.output_norm)
    layer->output_norm = reader->Vector({{prefix + "self_attn.o_norm.weight", rows.out}});
  if (mixer.kind == MixerKind::kLightning) {
    layer->log_decay = reader->Constants(LightningLogDecay(mixer.num_heads));
  }
  if (mixer.position == PositionKind::kAlibi) {
    layer->alibi_slopes = reader->Constants(AlibiSlopes(mixer.num_heads, mixer.alibi_max));
  }
  const std::vector<NamedRows> out = {{names.out, spec.width}};
  layer->mixer_out = reader->Projection(Parts(prefix, out, ".weight"), rows.out);
  if (mixer.output_bias) layer->mixer_out_bias = reader->Vector(Parts(prefix, out, ".bias"));
}

// The names are ours (docs/checkpoints.md). Queries and keys are made of z, so z has the order of a
// head.
void ReadGau(const ModelSpec& spec, const MixerSpec& mixer, const std::string& prefix,
             WeightReader* reader, LayerWeights* layer) {
  const int64_t e = mixer.value_dim, s = mixer.head_dim;
  const std::vector<int32_t> order = HeadOrder(mixer);
  const std::vector<NamedRows> in = {{"gau.in_proj", 2 * e}, {"gau.in_proj", s, order}};
  layer->mixer_in = reader->Projection(Parts(prefix, in, ".weight"), spec.width);
  const auto vector = [&](std::string_view name) {
    return reader->Vector(Parts(prefix, {{name, s, order}}, ""));
  };
  layer->q_scale = vector("gau.q_scale");
  layer->q_offset = vector("gau.q_offset");
  layer->k_scale = vector("gau.k_scale");
  layer->k_offset = vector("gau.k_offset");
  if (mixer.position == PositionKind::kAlibi) {
    layer->alibi_slopes = reader->Constants(AlibiSlopes(mixer.num_heads, mixer.alibi_max));
  }
  layer->mixer_out = reader->Projection({{prefix + "gau.out_proj.weight", spec.width}}, e);
}

void ReadMlp(const ModelSpec& spec, const std::string& prefix, WeightReader* reader,
             LayerWeights* layer) {
  const TensorNames& names = spec.names;
  const bool gated = !names.up.empty();
  std::vector<NamedRows> in = {{names.gate, spec.mlp_width}};
  if (gated) in.push_back({names.up, spec.mlp_width});
  const std::vector<NamedRows> down = {{names.down, spec.width}};
  const std::vector<WeightPart> parts = Parts(prefix, in, ".weight");
  if (gated) {
    std::tie(layer->mlp_gate, layer->mlp_up) = reader->Pair(parts[0], parts[1], spec.width);
  } else {
    layer->mlp_gate = reader->Projection(parts, spec.width);
  }
  layer->mlp_down = reader->Projection(Parts(prefix, down, ".weight"), spec.mlp_width);
  if (!spec.mlp_bias) return;
  const std::vector<WeightPart> biases = Parts(prefix, in, ".bias");
  layer->mlp_gate_bias = reader->Vector({biases[0]});
  if (gated) layer->mlp_up_bias = reader->Vector({biases[1]});
  layer->mlp_down_bias = reader->Vector(Parts(prefix, down, ".bias"));
}

// A norm as wide as the model; empty if it has no name.
NormWeights ReadNorm(const ModelSpec& spec, const std::string& prefix, std::string_view name,
                     WeightReader* reader) {
  NormWeights norm;
  if (name.empty()) return norm;
  const std::vector<NamedRows> rows = {{name, spec.width}};
  norm.weight = reader->Vector(Parts(prefix, rows, ".weight"), PlusOf(spec));
  if (spec.norm_bias) norm.bias = reader->Vector(Parts(prefix, rows, ".bias"));
  return norm;
}

LayerWeights ReadLayer(const ModelSpec& spec, const std::string& layers, size_t index,
                       WeightReader* reader) {
  const TensorNames& names = spec.names;
  const std::string prefix = layers + "." + std::to_string(index) + ".";
  const auto norm = [&](std::string_view name) { return ReadNorm(spec, prefix, name, reader); };
  LayerWeights layer;
  if (spec.block == BlockKind::kGau) {
    ReadGau(spec, spec.layers[index], prefix, reader, &layer);
    layer.stream_norm = norm(names.stream_norm);
    return layer;
  }
  layer.mixer_norm = norm(names.mixer_norm);
  ReadMixer(spec, spec.layers[index], prefix, reader, &layer);
  layer.mixer_post_norm = norm(names.mixer_post_norm);
  layer.mlp_norm = norm(names.mlp_norm);
  layer.mlp_post_norm = norm(names.mlp_post_norm);
  ReadMlp(spec, prefix, reader, &layer);
  return layer;
}

const TensorRoot& RootIn(const Checkpoint& checkpoint, const TensorNames& names) {
  for (const TensorRoot& root : names.roots) {
    const std::string embedding = std::string(root.prefix) + std::string(names.embedding);
    if (checkpoint.Find(embedding + ".weight") != nullptr) return root;
  }
  return names.roots.front();
}

ModelWeights ReadModel(const ModelSpec& spec, const TensorRoot& root, WeightReader* reader) {
  ModelWeights weights;
  const std::string prefix(root.prefix);
  const std::string embedding = prefix + std::string(spec.names.embedding) + ".weight";
  const std::string head = std::string(root.head) + ".weight";
  weights.embedding = reader->Projection({{embedding, spec.vocabulary}}, spec.width);
  if (spec.tied_head) {
    weights.head = weights.embedding;
    reader->RequireCopy(head, embedding);
  } else {
    weights.head = reader->Projection({{head, spec.vocabulary}}, spec.width);
  }
  if (spec.chunked()) {
    weights.chunk_embedding =
        reader->Table(prefix + "chunk_embed.weight", spec.num_chunks, spec.width);
  }
  weights.embedding_norm = ReadNorm(spec, prefix, spec.names.embedding_norm, reader);
  const std::string layers = prefix + std::string(spec.names.layers);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    weights.layers.push_back(ReadLayer(spec, layers, i, reader));
  }
  weights.final_norm = ReadNorm(spec, prefix, spec.names.final_norm, reader);
  reader->RefuseUnread(spec.names.ignored);
  return weights;
}

}  // namespace

ModelWeights LoadWeights(const ModelSpec& spec, const Checkpoint& checkpoint,
                         const LoadOptions& options, const OpTable& ops, const Executor& executor,
                         Device& device, const LoadLog& log) {
  using Mode = WeightReader::Mode;
  const TensorRoot& root = RootIn(checkpoint, spec.names);
  WeightReader check(Mode::kCheck, checkpoint, options, ops, executor, device);
  ReadModel(spec, root, &check);
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
    memory.reset();  // free the old memory before taking new memory
    memory = AllocateWeights(device, plan.bytes);
  }
  WeightReader reader(mode, checkpoint, options, ops, executor, device, bytes().data());
  ModelWeights weights = ReadModel(spec, root, &reader);
  if (!totals) {
    checkpoint.RequireUnwritten();
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
