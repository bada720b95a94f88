// Models of random weights as checkpoints, for what reads models from a directory: a server that is
// measured.
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

// Writes config.json, which is `config`, and model.safetensors into `directory`, which is made
// where it does not exist: weights in bf16, uniform and of variance 1 / (last extent), norms about
// 1. There is no tokenizer.json: bytes are tokens, ids from 256 on have no text. Throws
// std::runtime_error, which names the file, where one cannot be written.
void WriteRandomCheckpoint(const ModelSpec& spec, const std::string& config,
                           const std::string& directory);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_PLANS_RANDOM_CHECKPOINT_H_
