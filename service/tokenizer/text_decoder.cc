// Converts tokens to bytes and bytes to characters, and strips spaces at the beginning.
#include "service/tokenizer/text_decoder.h"

#include <string_view>

namespace longstream {

TextDecoder::TextDecoder(const Tokenizer& tokenizer, DecodeOptions options,
                         std::string_view pending)
    : tokenizer_(tokenizer),
      skip_special_(options.skip_special),
      at_first_token_(!options.continues),
      strip_spaces_(options.continues ? 0 : tokenizer.decode_rules().strip_spaces),
      utf8_(tokenizer.decode_rules().invalid, pending) {}

void TextDecoder::Push(int32_t token, std::string* text) {
  if (skip_special_ && tokenizer_.IsSpecial(token)) return;
  const std::string_view bytes =
      at_first_token_ ? tokenizer_.FirstTokenBytes(token) : tokenizer_.TokenBytes(token);
  at_first_token_ = false;
  const size_t begin = text->size();
  utf8_.Push(bytes, text);
  Strip(begin, text);
}

void TextDecoder::Finish(std::string* text) {
  const size_t begin = text->size();
  utf8_.Finish(text);
  Strip(begin, text);
}

// Removes spaces at the beginning of the decoded text, at most strip_spaces_. `begin`: where the
// new part of *text begins.
void TextDecoder::Strip(size_t begin, std::string* text) {
  if (strip_spaces_ == 0 || begin == text->size()) return;
  size_t end = begin;
  while (strip_spaces_ > 0 && end < text->size() && (*text)[end] == ' ') {
    --strip_spaces_;
    ++end;
  }
  if (end < text->size()) strip_spaces_ = 0;
  text->erase(begin, end - begin);
}

std::string IncompleteCharacter(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                                std::string_view before) {
  constexpr size_t kMostBytes = 3;  // of an incomplete character
  size_t begin = tokens.size();
  for (size_t bytes = 0; begin > 0 && bytes < kMostBytes;) {
    --begin;
    if (!tokenizer.IsSpecial(tokens[begin])) bytes += tokenizer.TokenBytes(tokens[begin]).size();
  }
  if (begin > 0) before = "";
  TextDecoder decoder(tokenizer, {.skip_special = true, .continues = true}, before);
  std::string text;
  for (const int32_t token : tokens.subspan(begin)) decoder.Push(token, &text);
  return std::string(decoder.pending());
}

}  // namespace longstream
