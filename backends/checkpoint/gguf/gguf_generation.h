// The generation_config.json that a GGUF model would have in the format of Hugging Face.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_GENERATION_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_GENERATION_H_

#include <string>

#include "backends/checkpoint/gguf/gguf_model.h"

namespace longstream {

// The text of generation_config.json: eos_token_id lists the tokens that end a turn, and
// general.sampling.* become temperature, top_k, top_p, min_p and repetition_penalty. Throws as
// ReadGgufVocabulary does.
std::string GgufGenerationText(const GgufModel& model);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_GENERATION_H_
