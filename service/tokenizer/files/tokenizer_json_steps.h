// The parts of tokenizer.json that are steps or sequences of steps: normalizer, pre_tokenizer,
// decoder and post_processor. Wrong and unsupported values are reported through the views.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_JSON_STEPS_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_JSON_STEPS_H_

#include "service/tokenizer/files/json_view.h"
#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

void ReadNormalizer(const JsonView& normalizer, TokenizerSpec* spec);

// Sets byte_level too: whether the last step is ByteLevel.
void ReadPreTokenizer(const JsonView& pre_tokenizer, TokenizerSpec* spec);

// REQUIRES: the pre-tokenizer was read, as its byte_level must be the decoder's.
void ReadDecoder(const JsonView& decoder, TokenizerSpec* spec);

void ReadPostProcessor(const JsonView& processor, int vocab_size, TokenizerSpec* spec);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_JSON_STEPS_H_
