// Asks each layer's mixer and feed-forward part.
#include "backends/model/layers.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "backends/model/feed_forward/feed_forward.h"
#include "backends/model/mixers/mixers.h"
#include "backends/spec/named_tensors.h"
#include "kernels/ops/gemm/linear.h"

namespace longstream {
namespace {

LayerWeights ReadLayer(const NamedTensors& tensors, const MixerSpec& mixer) {
  const TensorNames& names = tensors.names();
  LayerWeights layer;
  layer.mixer_norm = tensors.StreamNorm(names.mixer_norm);
  MixerOf(mixer).Read(tensors, mixer, &layer.mixer);
  layer.mixer_post_norm = tensors.StreamNorm(names.mixer_post_norm);
  layer.mlp_norm = tensors.StreamNorm(names.mlp_norm);
  layer.mlp_post_norm = tensors.StreamNorm(names.mlp_post_norm);
  FeedForwardOf(mixer.feed_forward).Read(tensors, &layer);
  layer.stream_norm = tensors.StreamNorm(names.stream_norm);
  return layer;
}

}  // namespace

CacheLayout MakeCacheLayout(const ModelSpec& spec, DType type) {
  std::vector<LayerCacheLayout> layers;
  layers.reserve(spec.layers.size());
  for (const MixerSpec& mixer : spec.layers) layers.push_back(MixerOf(mixer).Caches(mixer));
  return PlaceCaches(std::move(layers), type);
}

ModelWeights ReadWeights(const ModelSpec& spec, const TensorRoot& root, WeightSource& source) {
  ModelWeights weights;
  const std::string prefix(root.prefix);
  const NamedTensors tensors(spec, prefix, source);
  const std::string head = std::string(root.head) + ".weight";
  weights.embedding = tensors.Projection({{spec.names.embedding, spec.vocabulary}}, spec.width);
  if (spec.tied_head) {
    weights.head = weights.embedding;
    source.RequireCopy(head, prefix + std::string(spec.names.embedding) + ".weight");
  } else {
    weights.head = source.Projection({{head, spec.vocabulary}}, spec.width);
  }
  if (spec.chunked()) {
    weights.chunk_embedding =
        source.Table(prefix + "chunk_embed.weight", spec.num_chunks, spec.width);
  }
  weights.embedding_norm = tensors.StreamNorm(spec.names.embedding_norm);
  const std::string layers = prefix + std::string(spec.names.layers) + ".";
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const NamedTensors layer(spec, layers + std::to_string(i) + ".", source);
    weights.layers.push_back(ReadLayer(layer, spec.layers[i]));
  }
  weights.final_norm = tensors.StreamNorm(spec.names.final_norm);
  return weights;
}

StepSizes SizesOf(const ModelSpec& spec, const ModelWeights& weights, const StepLimits& limits) {
  StepSizes sizes;
  sizes.width = spec.width;
  // For the head and for every projection of the residual stream.
  StepSizes::Raise(sizes.workspace, LinearWorkspace(limits.max_rows, spec.width));
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    if (layer.mixer_post_norm.weight != nullptr || layer.mlp_post_norm.weight != nullptr) {
      sizes.branch = spec.width;
    }
    FeedForwardOf(spec.layers[i].feed_forward).RaiseSizes(limits, spec, &sizes);
    MixerOf(spec.layers[i]).RaiseSizes(limits, spec.layers[i], layer.mixer, &sizes);
  }
  return sizes;
}

std::optional<TooWideHead> FindTooWideHead(const ModelSpec& spec) {
  for (const MixerSpec& mixer : spec.layers) {
    const int32_t most = MixerOf(mixer).max_head_dim();
    if (mixer.head_dim > most) return TooWideHead{mixer, most};
  }
  return std::nullopt;
}

}  // namespace longstream
