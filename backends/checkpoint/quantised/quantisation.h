// How config.json says that a checkpoint's weights are quantised.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_QUANTISATION_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_QUANTISATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/checkpoint/config.h"
#include "kernels/core/dtype.h"

namespace longstream {

// The weights of some projections.
struct QuantisationScheme {
  bool is_float = false;   // floats of 8 bits; else integers
  int bits = 8;            // of an integer: 4 or 8
  bool symmetric = true;   // no zero points, or all of them in the middle of the integers
  int64_t group_size = 0;  // inputs that share a scale; 0: all inputs
  int64_t row_block = 1;   // outputs that share a scale, at least; one scale may be for all of them
};

struct Quantisation {
  enum class Method { kAwq, kCompressedTensors, kFloat8, kGptq };

  Method method = Method::kGptq;
  std::string name;                         // of the method, as config.json has it
  std::vector<QuantisationScheme> schemes;  // one, but for compressed-tensors
  bool zeros_are_one_less = false;          // GPTQ, version 1: each stored zero point is one less
  std::optional<DType> type;                // torch_dtype, if it is one that weights can have
};

// Reads quantization_config or compression_config. nullopt: the config has neither.
// LS_UNIMPLEMENTED: a method, a format or a number of bits that is not served; the sentence names
// the served ones. LS_INVALID_ARGUMENT: a value that is out of range.
std::optional<Quantisation> ReadQuantisation(const Config& config);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_QUANTISATION_H_
