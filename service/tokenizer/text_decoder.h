// Tokens one by one to the text they stand for.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_DECODER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "service/tokenizer/text/utf8.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

// The texts of all pushes and of Finish, put together, are Tokenizer::Decode of the tokens.
// Not thread-safe; one per text.
class TextDecoder {
 public:
  // The tokenizer must outlive the decoder.
  TextDecoder(const Tokenizer& tokenizer, DecodeOptions options);

  // Appends to *text the characters that the token completes; whole UTF-8 characters only.
  void Push(int32_t token, std::string* text);

  // Appends the replacement of an incomplete character at the end.
  void Finish(std::string* text);

  // Bytes of an incomplete character that are held back.
  size_t pending() const { return utf8_.pending(); }

 private:
  void Strip(size_t begin, std::string* text);

  const Tokenizer& tokenizer_;
  const bool skip_special_;
  bool at_first_token_;
  size_t strip_spaces_;  // that may still be left out
  Utf8Stream utf8_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_DECODER_H_
