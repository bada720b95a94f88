// Reads the parts of tokenizer.json that are steps or sequences of steps: normalizer,
// pre_tokenizer, decoder and post_processor. Errors are reported through the views.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_JSON_STEPS_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_JSON_STEPS_H_

#include "service/tokenizer/files/json_view.h"
#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

void ReadNormalizer(const JsonView& normalizer, TokenizerSpec* spec);

// Also sets `byte_level`: whether the last step is ByteLevel.
void ReadPreTokenizer(const JsonView& pre_tokenizer, TokenizerSpec* spec);

// Checks that pre-tokenizer and decoder agree on byte_level. REQUIRES: the pre-tokenizer was read.
void ReadDecoder(const JsonView& decoder, TokenizerSpec* spec);

void ReadPostProcessor(const JsonView& processor, int vocab_size, TokenizerSpec* spec);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_JSON_STEPS_H_
