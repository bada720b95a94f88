// Decoding a whole sequence of tokens.
#include "service/tokenizer/tokenizer.h"

#include "service/tokenizer/text_decoder.h"

namespace longstream {

std::string Tokenizer::Decode(std::span<const int32_t> ids, DecodeOptions options) const {
  TextDecoder decoder(*this, options);
  std::string text;
  for (const int32_t id : ids) decoder.Push(id, &text);
  decoder.Finish(&text);
  return text;
}

}  // namespace longstream
