// The names of tensors in GGUF files and in checkpoints of Hugging Face.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_NAMES_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_NAMES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace longstream {

// Two names of one tensor, without ".weight" or ".bias", and of a layer's tensor without
// "blk.<index>." or "model.layers.<index>.".
struct GgufName {
  std::string_view gguf;
  std::string_view hugging_face;
};

// The name of a tensor in a checkpoint of Hugging Face. `own` has the names of the architecture
// that differ from Llama's. nullopt: the tensor has no counterpart there.
std::optional<std::string> HuggingFaceName(std::string_view gguf, std::span<const GgufName> own);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_NAMES_H_
