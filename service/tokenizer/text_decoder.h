// Decodes tokens to text one by one.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_DECODER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "service/tokenizer/text/utf8.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

// The texts of all calls of Push and of Finish, joined, are Tokenizer::Decode of the tokens. Not
// thread-safe; one per text.
class TextDecoder {
 public:
  // The tokenizer must outlive the decoder. `pending`: what the decoder of the tokens before held
  // back, if this decoder continues their text.
  TextDecoder(const Tokenizer& tokenizer, DecodeOptions options, std::string_view pending = {});

  // Appends to *text the UTF-8 characters that the token completes.
  void Push(int32_t token, std::string* text);

  // Appends the replacement for an incomplete character at the end.
  void Finish(std::string* text);

  // The bytes of an incomplete character that are held back. Valid until the decoder changes.
  std::string_view pending() const { return utf8_.pending(); }

 private:
  void Strip(size_t begin, std::string* text);

  const Tokenizer& tokenizer_;
  const bool skip_special_;
  bool at_first_token_;
  size_t strip_spaces_;  // how many more spaces may be removed
  Utf8Stream utf8_;
};

// Returns the bytes of an incomplete character at the end of `tokens`. `before`: the bytes of an
// incomplete character before them, which they continue.
std::string IncompleteCharacter(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                                std::string_view before);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_DECODER_H_
