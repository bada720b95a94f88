// Writes models of random weights as checkpoints, for programs that read models from a directory.
#ifndef LONGSTREAM_TESTS_BENCH_PLANS_RANDOM_CHECKPOINT_H_
#define LONGSTREAM_TESTS_BENCH_PLANS_RANDOM_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/spec/model_spec.h"

namespace longstream {

// A tensor of a checkpoint, as docs/checkpoints.md names it.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Every tensor that the spec's layers read, and no other.
std::vector<NamedTensor> TensorsOf(const ModelSpec& spec);

// Writes `config` as config.json and model.safetensors into `directory`, which it creates if
// necessary. Weights are bf16, uniform with variance 1 / (last extent); norms are about 1. There is
// no tokenizer.json: bytes are tokens, and ids from 256 on have no text. Throws std::runtime_error,
// naming the file that cannot be written.
void WriteRandomCheckpoint(const ModelSpec& spec, const std::string& config,
                           const std::string& directory);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_PLANS_RANDOM_CHECKPOINT_H_
