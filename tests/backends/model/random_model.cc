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

#include "backends/model/layers.h"
#include "backends/packing/weight_memory.h"
#include "kernels/core/dtype.h"
#include "kernels/core/quantise.h"

namespace longstream {
namespace {

// Random numbers that are hashes of (seed, tensor, element), so that several threads can make rows.
class Noise {
 public:
  // The seed is hashed. Otherwise row r + 4 of a weight would be row r from its second number on.
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

int64_t RowsOf(const std::vector<WeightPart>& parts) {
  int64_t rows = 0;
  for (const WeightPart& part : parts) rows += part.rows;
  return rows;
}

// Packs into the host's memory with a kernel library.
class HostWeightMaker final : public WeightMaker {
 public:
  // Values are rounded to `values`, a type whose numbers `type` can hold.
  HostWeightMaker(DType type, DType values, const OpTable& ops, const Executor& executor,
                  uint64_t seed)
      : type_(type), values_(values), ops_(ops), executor_(executor), next_seed_(seed << 20) {}

  PackedWeight MakeMatrix(int64_t n, int64_t k) override { return Make(n, k, type_, values_); }
  PackedWeight Exact(const std::vector<WeightPart>& parts, int64_t k) override {
    return Make(RowsOf(parts), k, DType::kF32, DType::kF32);
  }

  PackedWeight Make(int64_t n, int64_t k, DType type, DType values) {
    std::vector<float> rows(static_cast<size_t>(n * k));
    const uint64_t seed = next_seed_;
    next_seed_ += static_cast<uint64_t>(n);
    const float scale = 1.0f / std::sqrt(static_cast<float>(k));
    ParallelFor(executor_, static_cast<uint32_t>(n), [&](uint32_t row) {
      Noise noise(seed + row);
      float* out = rows.data() + int64_t{row} * k;
      for (int64_t i = 0; i < k; ++i) out[i] = scale * noise.Normal();
      if (values != type) RoundTo(values, out, k);
    });
    void* packed = Allocate(ops_.packed_bytes(type, n, k));
    ops_.pack(executor_, {.source = rows.data(),
                          .num_rows = n,
                          .destination = packed,
                          .type = type,
                          .n = n,
                          .k = k});
    ops_.compress(executor_, {packed, type, n, k});
    num_parameters += static_cast<uint64_t>(n * k);
    return {packed, type, n, k};
  }

  const float* MakeVector(int64_t n, float mean, float deviation) override {
    auto* out = static_cast<float*>(Allocate(static_cast<size_t>(n) * sizeof(float)));
    Noise noise(next_seed_++);
    for (int64_t i = 0; i < n; ++i) out[i] = mean + deviation * noise.Normal();
    num_parameters += static_cast<uint64_t>(n);
    return out;
  }

  const float* Constants(std::span<const float> values) override {
    auto* out = static_cast<float*>(Allocate(values.size() * sizeof(float)));
    std::copy(values.begin(), values.end(), out);
    return out;
  }

 private:
  // Returns zeroed memory that the weights own. Large weights lie in large pieces of memory, which
  // are allocated as a checkpoint's are. Small ones come from the heap, where AddressSanitizer
  // watches their ends.
  void* Allocate(size_t size) {
    constexpr size_t kLarge = size_t{1} << 20;
    constexpr size_t kPiece = size_t{64} << 20;
    constexpr size_t kAlignment = 64;
    const size_t padded = (size + kAlignment - 1) / kAlignment * kAlignment;
    bytes += padded;
    if (padded >= kLarge) {
      if (padded > left_) {
        left_ = std::max(padded, kPiece);
        storage.push_back(AllocateHostWeights(left_));
        next_ = static_cast<std::byte*>(storage.back().get());
      }
      left_ -= padded;
      return std::exchange(next_, next_ + padded);
    }
    storage.emplace_back(std::aligned_alloc(kAlignment, padded), std::free);
    std::memset(storage.back().get(), 0, padded);
    return storage.back().get();
  }

  const DType type_;
  const DType values_;
  const OpTable& ops_;
  const Executor executor_;
  uint64_t next_seed_;
  std::byte* next_ = nullptr;  // what is left of the last piece
  size_t left_ = 0;            // bytes
};

}  // namespace

ModelSpec RandomSpec(const std::string& plan, const RandomShape& shape) {
  ModelSpec spec;
  spec.architecture = "random";
  spec.vocabulary = shape.vocabulary;
  spec.width = shape.width;
  spec.mlp_width = shape.mlp_width;
  spec.experts = {.num_experts = 5,
                  .num_chosen = 2,
                  .width = shape.mlp_width / 2,
                  .shared_width = shape.mlp_width,
                  .shared = SharedExpert::kGated};
  spec.context_limit = shape.context_limit;
  std::istringstream names(plan);
  for (std::string name; std::getline(names, name, '+');) {
    const bool is_expert = name.ends_with('*');
    if (is_expert) name.pop_back();
    spec.layers.push_back(Mixer(name, shape));
    if (is_expert) spec.layers.back().feed_forward = FeedForwardKind::kExperts;
    if (spec.layers.back().position != PositionKind::kChunkedRope) continue;
    spec.chunk_size = shape.chunk_size;
    spec.num_chunks = (shape.context_limit + shape.chunk_size - 1) / shape.chunk_size;
  }
  return spec;
}

PackedWeight WeightMaker::Projection(const std::vector<WeightPart>& parts, int64_t k) {
  return MakeMatrix(RowsOf(parts), k);
}

std::pair<PackedWeight, PackedWeight> WeightMaker::Pair(const WeightPart& first,
                                                        const WeightPart& second, int64_t k) {
  const PackedWeight weight = MakeMatrix(first.rows, k);
  return {weight, MakeMatrix(second.rows, k)};
}

std::vector<PackedWeight> WeightMaker::Alike(const std::vector<WeightPart>& parts, int64_t k) {
  std::vector<PackedWeight> weights;
  weights.reserve(parts.size());
  for (const WeightPart& part : parts) weights.push_back(MakeMatrix(part.rows, k));
  return weights;
}

PackedWeight WeightMaker::Exact(const std::vector<WeightPart>& parts, int64_t k) {
  return MakeMatrix(RowsOf(parts), k);
}

const float* WeightMaker::Vector(const std::vector<WeightPart>& parts, float) {
  const bool is_norm = parts.front().name.find("norm") != std::string::npos;
  return is_norm ? MakeVector(RowsOf(parts), 1.0f, 0.1f) : MakeVector(RowsOf(parts), 0.5f, 0.5f);
}

Matrix WeightMaker::Table(std::string_view, int64_t rows, int64_t cols) {
  const float* numbers = MakeVector(rows * cols, 0.0f, 0.5f);
  return {const_cast<float*>(numbers), DType::kF32, rows, cols, cols};
}

ModelWeights MakeWeights(const ModelSpec& spec, WeightMaker& make) {
  ModelWeights weights = ReadWeights(spec, kUsualRoot[0], make);
  weights.num_parameters = make.num_parameters;
  weights.bytes = make.bytes;
  weights.storage = std::move(make.storage);
  return weights;
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
