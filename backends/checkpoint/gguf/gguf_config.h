// The config.json that a GGUF model would have in the format of Hugging Face.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_CONFIG_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_CONFIG_H_

#include <cstdint>
#include <string>

#include "backends/checkpoint/gguf/gguf_model.h"

namespace longstream {

// The text of config.json: a JSON object with the model_type and the keys of the family's class in
// transformers. llama.cpp's conversion wrote the metadata from these keys, and this function goes
// back. Thread-safe. BackendError with the name of the file and the key: LS_UNIMPLEMENTED if the
// architecture is unknown, or a value that may change the mathematics is; LS_INVALID_ARGUMENT if a
// value is missing or wrong.
std::string GgufConfigText(const GgufModel& model);

// The changes that the conversion of a model made to one of its tensors, to undo them.
struct GgufConversion {
  // The tensor's name in a checkpoint of Hugging Face. Empty: the tensor is part of the config.
  std::string name;
  // Not 0: the rows of each of this many heads, which are a first and a second half, were put side
  // by side: rows 0, D / 2, 1, D / 2 + 1, ...
  int64_t interleaved_heads = 0;
  // A norm that stores 1 + its weight.
  bool plus_one = false;
};

// How the tensors of a model were converted. Borrows the model. Thread-safe. Throws as
// GgufConfigText does.
class GgufConversions {
 public:
  explicit GgufConversions(const GgufModel& model);
  // A tensor without a counterpart keeps its name, so that a reader which does not know it can
  // refuse it by name.
  GgufConversion Of(const GgufTensor& tensor) const;

 private:
  const struct GgufArchitecture* architecture_;
  int64_t num_heads_ = 0;
  int64_t num_kv_heads_ = 0;
};

// The names of all architectures, as "llama, qwen2, ...".
std::string GgufArchitectureNames();

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_CONFIG_H_
