// Tokens to bytes, bytes to characters, characters past the stop strings; and which tokens that is.
#include "service/tokenizer/stream_decoder.h"

#include <utility>

namespace longstream {
namespace {

// Length of the first character of UTF-8 text.
size_t FirstCharacter(std::string_view text) {
  size_t length = 0;
  NextCodePoint(text, &length);
  return length;
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, StopMatcher stop_strings,
                             StreamDecoderOptions options)
    : tokenizer_(tokenizer), stop_strings_(std::move(stop_strings)), options_(options) {}

TextDelta StreamDecoder::Push(int32_t token) {
  const bool silent = options_.decode.skip_special && tokenizer_.IsSpecial(token);
  const bool was_pending = utf8_.pending() > 0;
  std::string text;
  utf8_.Push(silent ? std::string_view() : tokenizer_.TokenBytes(token), &text);
  ++pushed_;

  // All tokens that end within the character held back so far end with it: they get its end.
  if (was_pending && !text.empty()) AddTokenEnd(pushed_ - 1, decoded_ + FirstCharacter(text));
  decoded_ += text.size();
  if (utf8_.pending() == 0) AddTokenEnd(pushed_, decoded_);
  return Deliver(text, pushed_ > options_.min_tokens);
}

TextDelta StreamDecoder::Finish() {
  std::string text;
  utf8_.Finish(&text);
  decoded_ += text.size();
  AddTokenEnd(pushed_, decoded_);
  TextDelta delta = Deliver(text, pushed_ > options_.min_tokens);
  if (delta.stop) return delta;
  stop_strings_.Flush(&delta.text);
  delta.position = options_.start_position + pushed_;
  return delta;
}

void StreamDecoder::AddTokenEnd(uint64_t tokens, uint64_t text_end) {
  if (!ends_.empty() && ends_.back().text_end == text_end) {
    ends_.back().tokens = tokens;
  } else {
    ends_.push_back({tokens, text_end});
  }
}

TextDelta StreamDecoder::Deliver(std::string_view text, bool searched) {
  TextDelta delta;
  if (searched) {
    delta.stop = stop_strings_.Push(text, &delta.text);
  } else {
    delta.text = text;
  }
  delivered_bytes_ += delta.text.size();
  while (!ends_.empty() && ends_.front().text_end <= delivered_bytes_) {
    delivered_tokens_ = ends_.front().tokens;
    ends_.pop_front();
  }
  delta.position = options_.start_position + delivered_tokens_;
  return delta;
}

}  // namespace longstream
