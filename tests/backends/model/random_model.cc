// Random specs and weights.
#include "tests/backends/model/random_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backends/packing/weight_memory.h"
#include "kernels/core/dtype.h"
#include "kernels/core/quantise.h"

namespace longstream {
namespace {

// Counter-based, so that several threads can make rows: hashes of (seed, tensor, element).
class Noise {
 public:
  // Hash the seed, else row r + 4 of a weight would be row r from its second number on.
  explicit Noise(uint64_t seed) : state_(seed) { state_ = Next(); }

  // About N(0, 1): the sum of four uniforms, scaled to variance 1.
  float Normal() {
    float sum = -2.0f;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>(Next() >> 40) * 0x1p-24f;
    return sum * 1.7320508f;
  }

 private:
  uint64_t Next() {  // SplitMix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

MixerSpec Attention(const RandomShape& shape) {
  MixerSpec mixer;
  mixer.num_heads = shape.num_heads;
  mixer.num_kv_heads = shape.num_kv_heads;
  mixer.head_dim = mixer.value_dim = shape.head_dim;
  mixer.score_scale = 1.0 / std::sqrt(shape.head_dim);
  return mixer;
}

MixerSpec Mixer(const std::string& name, const RandomShape& shape) {
  MixerSpec mixer = Attention(shape);
  if (name == "full") return mixer;
  if (name == "nope") {
    mixer.position = PositionKind::kNone;
    mixer.qk_norm = QkNorm::kHead;
    mixer.output_gate = true;
    mixer.logit_scale = LogitScaleKind::kHype;
    mixer.logit_scale_base = 50;
  } else if (name == "rerope" || name == "leaky") {
    mixer.position = name == "leaky" ? PositionKind::kLeakyRerope : PositionKind::kRerope;
    mixer.rerope_window = shape.window;
    mixer.leaky_factor = 3;
    mixer.logit_scale = LogitScaleKind::kLogNExtrapolate;
    mixer.logit_scale_base = 40;
  } else if (name == "window") {
    mixer.kind = MixerKind::kWindow;
    mixer.window = shape.window;
  } else if (name == "chunked" || name == "chunked_window") {
    mixer.kind = name == "chunked" ? MixerKind::kFull : MixerKind::kWindow;
    mixer.window = name == "chunked" ? 0 : shape.window;
    mixer.position = PositionKind::kChunkedRope;
  } else if (name == "lightning") {
    mixer.kind = MixerKind::kLightning;
    mixer.qk_norm = QkNorm::kHead;
    mixer.output_gate = mixer.output_norm = true;
  } else if (name == "gated") {
    mixer.kind = MixerKind::kGatedRnn;
    mixer.position = PositionKind::kNone;
    mixer.num_kv_heads = shape.num_heads;
    mixer.value_dim = shape.head_dim + 2;
    mixer.score_scale = 1;
  } else {
    throw std::invalid_argument("no such layer: " + name);
  }
  return mixer;
}

// Rounds a row of a weight to the numbers of a type.
void RoundTo(DType type, float* row, int64_t k) {
  if (type == DType::kBF16) {
    for (int64_t i = 0; i < k; ++i) row[i] = ToF32(ToBF16(row[i]));
    return;
  }
  for (int64_t first = 0; first < k; first += kGroupInputs) {
    const int64_t count = std::min(kGroupInputs, k - first);
    const WeightGroup group = QuantiseGroup(type, row + first, count);
    for (int64_t i = 0; i < count; ++i) {
      row[first + i] = ToF32(group.scale) * static_cast<float>(group.values[i]);
    }
  }
}

// Packs into the host's memory with a kernel library.
class HostWeightMaker final : public WeightMaker {
 public:
  // Values are rounded to `values`, a type whose numbers `type` can hold.
  HostWeightMaker(DType type, DType values, const OpTable& ops, const Executor& executor,
                  uint64_t seed)
      : type_(type), values_(values), ops_(ops), executor_(executor), next_seed_(seed << 20) {}

  PackedWeight Matrix(int64_t n, int64_t k) override {
    std::vector<float> rows(static_cast<size_t>(n * k));
    const uint64_t seed = next_seed_;
    next_seed_ += static_cast<uint64_t>(n);
    const float scale = 1.0f / std::sqrt(static_cast<float>(k));
    ParallelFor(executor_, static_cast<uint32_t>(n), [&](uint32_t row) {
      Noise noise(seed + row);
      float* out = rows.data() + int64_t{row} * k;
      for (int64_t i = 0; i < k; ++i) out[i] = scale * noise.Normal();
      if (values_ != type_) RoundTo(values_, out, k);
    });
    void* packed = Allocate(ops_.packed_bytes(type_, n, k));
    ops_.pack(executor_, {.source = rows.data(),
                          .num_rows = n,
                          .destination = packed,
                          .type = type_,
                          .n = n,
                          .k = k});
    ops_.compress(executor_, {packed, type_, n, k});
    weights.num_parameters += static_cast<uint64_t>(n * k);
    return {packed, type_, n, k};
  }

  const float* Vector(int64_t n, float mean, float deviation) override {
    auto* out = static_cast<float*>(Allocate(static_cast<size_t>(n) * sizeof(float)));
    Noise noise(next_seed_++);
    for (int64_t i = 0; i < n; ++i) out[i] = mean + deviation * noise.Normal();
    weights.num_parameters += static_cast<uint64_t>(n);
    return out;
  }

  const float* Constants(const std::vector<float>& values) override {
    auto* out = static_cast<float*>(Allocate(values.size() * sizeof(float)));
    std::copy(values.begin(), values.end(), out);
    return out;
  }

 private:
  // Zeroed, owned by the weights. Large weights are allocated as a checkpoint's are; small ones
  // come from the heap, where AddressSanitizer watches their ends.
  void* Allocate(size_t bytes) {
    constexpr size_t kLarge = size_t{8} << 20;
    constexpr size_t kAlignment = 64;
    const size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    OwnedMemory memory = padded >= kLarge
                             ? AllocateHostWeights(padded)
                             : OwnedMemory(std::aligned_alloc(kAlignment, padded), std::free);
    if (padded < kLarge) std::memset(memory.get(), 0, padded);
    weights.bytes += padded;
    weights.storage.push_back(std::move(memory));
    return weights.storage.back().get();
  }

  const DType type_;
  const DType values_;
  const OpTable& ops_;
  const Executor executor_;
  uint64_t next_seed_;
};

const float* NormWeight(WeightMaker& make, int64_t n) { return make.Vector(n, 1.0f, 0.1f); }

LayerWeights MakeLayer(WeightMaker& make, const ModelSpec& spec, const MixerSpec& mixer) {
  LayerWeights layer;
  const int64_t q = int64_t{mixer.num_heads} * mixer.head_dim;
  const int64_t k = int64_t{mixer.num_kv_heads} * mixer.head_dim;
  const int64_t v = int64_t{mixer.num_kv_heads} * mixer.value_dim;
  const int64_t out = int64_t{mixer.num_heads} * mixer.value_dim;
  const bool chunked = mixer.position == PositionKind::kChunkedRope;
  const bool gated = mixer.kind == MixerKind::kGatedRnn;
  const int64_t gate = gated ? q : mixer.output_gate ? out : 0;
  layer.mixer_norm.weight = NormWeight(make, spec.width);
  layer.mlp_norm.weight = NormWeight(make, spec.width);
  layer.mixer_in = make.Matrix(q + k + (chunked ? 0 : v) + gate, spec.width);
  if (chunked) layer.value = make.Matrix(v, spec.width);
  if (gated) layer.mixer_in_bias = make.Vector(layer.mixer_in.n, 0.5f, 0.5f);
  if (mixer.qk_norm == QkNorm::kHead) {
    layer.q_norm = NormWeight(make, mixer.head_dim);
    layer.k_norm = NormWeight(make, mixer.head_dim);
  }
  if (mixer.output_norm) layer.output_norm = NormWeight(make, out);
  if (mixer.kind == MixerKind::kLightning) {
    std::vector<float> decay;
    for (int32_t h = 1; h <= mixer.num_heads; ++h) {
      decay.push_back(
          -std::exp2(-8.0f * static_cast<float>(h) / static_cast<float>(mixer.num_heads)));
    }
    layer.log_decay = make.Constants(decay);
  }
  layer.mixer_out = make.Matrix(spec.width, out);
  layer.mlp_gate = make.Matrix(spec.mlp_width, spec.width);
  layer.mlp_up = make.Matrix(spec.mlp_width, spec.width);
  layer.mlp_down = make.Matrix(spec.width, spec.mlp_width);
  return layer;
}

}  // namespace

ModelSpec RandomSpec(const std::string& plan, const RandomShape& shape) {
  ModelSpec spec;
  spec.architecture = "random";
  spec.vocabulary = shape.vocabulary;
  spec.width = shape.width;
  spec.mlp_width = shape.mlp_width;
  spec.context_limit = shape.context_limit;
  std::istringstream names(plan);
  for (std::string name; std::getline(names, name, '+');) {
    spec.layers.push_back(Mixer(name, shape));
    if (spec.layers.back().position != PositionKind::kChunkedRope) continue;
    spec.chunk_size = shape.chunk_size;
    spec.num_chunks = (shape.context_limit + shape.chunk_size - 1) / shape.chunk_size;
  }
  return spec;
}

ModelWeights MakeWeights(const ModelSpec& spec, WeightMaker& make) {
  ModelWeights& weights = make.weights;
  weights.embedding = make.Matrix(spec.vocabulary, spec.width);
  weights.head = spec.tied_head ? weights.embedding : make.Matrix(spec.vocabulary, spec.width);
  weights.final_norm.weight = NormWeight(make, spec.width);
  if (spec.num_chunks > 0) {
    const float* chunks = make.Vector(spec.num_chunks * spec.width, 0, 0.5f);
    weights.chunk_embedding = {const_cast<float*>(chunks), DType::kF32, spec.num_chunks, spec.width,
                               spec.width};
  }
  for (const MixerSpec& mixer : spec.layers) {
    weights.layers.push_back(MakeLayer(make, spec, mixer));
  }
  return std::move(weights);
}

ModelWeights RandomWeights(const ModelSpec& spec, DType type, const OpTable& ops,
                           const Executor& executor, uint64_t seed) {
  HostWeightMaker make(type, type, ops, executor, seed);
  ModelWeights weights = MakeWeights(spec, make);
  weights.fingerprint = seed;
  return weights;
}

ModelWeights RandomWeightsAsIn(DType type, const ModelSpec& spec, const OpTable& ops,
                               uint64_t seed) {
  HostWeightMaker make(DType::kF32, type, ops, {}, seed);
  return MakeWeights(spec, make);
}

}  // namespace longstream
