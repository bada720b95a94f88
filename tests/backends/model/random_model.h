// Models with random weights, made in memory. A line of text names the layers; weights may have any
// size.
#ifndef LONGSTREAM_TESTS_BACKENDS_MODEL_RANDOM_MODEL_H_
#define LONGSTREAM_TESTS_BACKENDS_MODEL_RANDOM_MODEL_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "backends/spec/weight_source.h"
#include "kernels/core/executor.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Sizes that all layers of a random model share.
struct RandomShape {
  int64_t vocabulary = 71;
  int64_t width = 26;
  int64_t mlp_width = 38;
  int32_t num_heads = 4;
  int32_t num_kv_heads = 2;
  int32_t head_dim = 6;
  int32_t window = 20;     // of window layers, and of ReRoPE
  int64_t chunk_size = 0;  // C of chunked layers
  int64_t context_limit = 2000;
};

// Layers joined by '+': "full" (RoPE), "nope" (with hype scaling, gate and QK-norm), "rerope",
// "leaky", "window", "chunked", "chunked_window", "lightning", "gated". A name with "*" behind it
// is a layer with experts: 5, of which 2 are chosen, and a shared one.
ModelSpec RandomSpec(const std::string& plan, const RandomShape& shape = {});

// A source of weights that makes them one after another. Projections are N(0, 1) / sqrt(k). Norms
// are 1 +- 0.1 (a vector is a norm if its name has "norm"), and other vectors are 0.5 +- 0.5. The
// public members describe the weights made so far, and own their memory.
class WeightMaker : public WeightSource {
 public:
  // [n, k]: N(0, 1) / sqrt(k).
  virtual PackedWeight MakeMatrix(int64_t n, int64_t k) = 0;
  // [n]: mean + deviation * N(0, 1).
  virtual const float* MakeVector(int64_t n, float mean, float deviation) = 0;

  PackedWeight Projection(const std::vector<WeightPart>& parts, int64_t k) override;
  std::pair<PackedWeight, PackedWeight> Pair(const WeightPart& first, const WeightPart& second,
                                             int64_t k) override;
  std::vector<PackedWeight> Alike(const std::vector<WeightPart>& parts, int64_t k) override;
  PackedWeight Exact(const std::vector<WeightPart>& parts, int64_t k) override;
  const float* Vector(const std::vector<WeightPart>& parts, float plus) override;
  Matrix Table(std::string_view name, int64_t rows, int64_t cols) override;
  void RequireCopy(std::string_view, std::string_view) override {}

  uint64_t num_parameters = 0;
  uint64_t bytes = 0;
  std::vector<OwnedMemory> storage;
};

// Makes every weight of `spec` and moves their memory out of `make`.
ModelWeights MakeWeights(const ModelSpec& spec, WeightMaker& make);

// Makes every weight of `spec`, N(0, 1) / sqrt(inputs), packed for `ops`; norms are around 1. The
// same seed gives the same weights with any kernel library.
ModelWeights RandomWeights(const ModelSpec& spec, DType type, const OpTable& ops,
                           const Executor& executor = {}, uint64_t seed = 1);

// Makes the weights of RandomWeights in f32, rounded to the values that they have in `type`.
ModelWeights RandomWeightsAsIn(DType type, const ModelSpec& spec, const OpTable& ops,
                               uint64_t seed = 1);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_MODEL_RANDOM_MODEL_H_
