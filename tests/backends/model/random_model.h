// Models with random weights, made in memory. A line of text names the layers; weights may have any
// size.
#ifndef LONGSTREAM_TESTS_BACKENDS_MODEL_RANDOM_MODEL_H_
#define LONGSTREAM_TESTS_BACKENDS_MODEL_RANDOM_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
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
// "leaky", "window", "chunked", "chunked_window", "lightning", "gated".
ModelSpec RandomSpec(const std::string& plan, const RandomShape& shape = {});

// Makes a model's tensors one after another. `weights` owns their memory.
class WeightMaker {
 public:
  WeightMaker() = default;
  virtual ~WeightMaker() = default;
  WeightMaker(const WeightMaker&) = delete;
  WeightMaker& operator=(const WeightMaker&) = delete;

  // [n, k]: N(0, 1) / sqrt(k).
  virtual PackedWeight Matrix(int64_t n, int64_t k) = 0;
  // [n]: mean + deviation * N(0, 1).
  virtual const float* Vector(int64_t n, float mean, float deviation) = 0;
  virtual const float* Constants(const std::vector<float>& values) = 0;

  ModelWeights weights;
};

// Makes every weight of `spec` and moves them out of `make`.
ModelWeights MakeWeights(const ModelSpec& spec, WeightMaker& make);

// Every weight of `spec`, N(0, 1) / sqrt(inputs), packed for `ops`; norms are around 1. The same
// for the same seed, with any kernel library.
ModelWeights RandomWeights(const ModelSpec& spec, DType type, const OpTable& ops,
                           const Executor& executor = {}, uint64_t seed = 1);

// The same in f32, rounded to the values that they have in `type`.
ModelWeights RandomWeightsAsIn(DType type, const ModelSpec& spec, const OpTable& ops,
                               uint64_t seed = 1);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_MODEL_RANDOM_MODEL_H_
