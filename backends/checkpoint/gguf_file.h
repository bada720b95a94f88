// The tensors of GGUF files, under the names that they have in a checkpoint of Hugging Face.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_FILE_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_FILE_H_

#include <string>
#include <vector>

#include "backends/checkpoint/checkpoint.h"

namespace longstream {

// Adds the tensors of a GGUF model's files (FindGgufFiles) to a checkpoint. Tensors that the
// conversion left as they were are stored tensors; others are computed. Throws as GgufModel,
// GgufConversions and MakeGgufTensor do.
void AddGgufFiles(const std::vector<std::string>& files, Checkpoint* checkpoint);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_FILE_H_
